"""Subscriptions and their cursors on the disk.

Two logs (`tamis.matcher.storage.log`) lie in the folder of a collection:

- ``subscriptions-N`` has every subscription that was put or deleted. A call returns when it is on
  the disk, and damage is refused.
- ``cursors-N`` has acknowledgements and the states of webhooks. A call returns when the operating
  system has it, and the disk has it about a second later. A crash of the machine may lose some:
  their messages are delivered again, as they may be. So damaged records are dropped.

Of several files of a kind the one with the highest number counts. A file that has become mostly
stale is written anew, with a higher number.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from tamis.errors import CorruptFileError
from tamis.matcher.storage.file_names import UNFINISHED, remove_file
from tamis.matcher.storage.log import (
    EMPTY_LENGTH,
    Log,
    create_log,
    read_frames,
    read_whole_frames,
    report_torn,
)
from tamis.pubsub.subscriptions.subscription import Progress, Subscription, SubscriptionState

__all__ = ["Deleted", "Journal", "Known", "Put", "read_known"]

_logger = logging.getLogger("tamis")

_REWRITE_BYTES: Final = 1 << 20
"""A file shorter than this is not written anew."""

_SUBSCRIPTIONS: Final = "subscriptions"
_CURSORS: Final = "cursors"


class Put(msgspec.Struct, frozen=True, tag="put"):
    """A subscription was created or replaced."""

    subscription: Subscription
    start: int


class Deleted(msgspec.Struct, frozen=True, tag="delete"):
    """A subscription was deleted."""

    name: str


Known: TypeAlias = dict[str, tuple[Subscription, SubscriptionState]]
"""All subscriptions by name, and where each stands."""

_encode = msgspec.msgpack.Encoder().encode
_decode_change = msgspec.msgpack.Decoder(Put | Deleted).decode
_decode_progress = msgspec.msgpack.Decoder(Progress).decode


def read_known(folder: Path) -> Known:
    """Read the subscriptions of a folder, and where they stand.

    Raises
    ------
    CorruptFileError
        The file of subscriptions is damaged.
    """
    known: Known = {}
    path = _newest(folder, _SUBSCRIPTIONS)
    if path is None:
        return known
    for position, content in read_frames(path).contents:
        try:
            change = _decode_change(content)
        except msgspec.MsgspecError as error:
            raise CorruptFileError(
                f"the log is damaged at byte {position:,}: {error}", path=str(path)
            ) from error
        if isinstance(change, Deleted):
            known.pop(change.name, None)
            continue
        name = change.subscription.name
        state = SubscriptionState(change.start, change.start)
        if name in known and known[name][1].start == change.start:
            state = known[name][1]
        known[name] = change.subscription, state
    _read_cursors(folder, known)
    return known


def _read_cursors(folder: Path, known: Known) -> None:
    path = _newest(folder, _CURSORS)
    if path is None:
        return
    frames, damaged = read_whole_frames(path)
    for _, content in frames.contents:
        try:
            progress = _decode_progress(content)
        except msgspec.MsgspecError:
            damaged += 1
            continue
        # An earlier subscription of the same name may have left one.
        if progress.name in known and known[progress.name][1].start == progress.start:
            known[progress.name][1].apply(progress)
    if damaged:
        _logger.warning(
            "%s: %d damaged records were dropped; their messages are delivered again", path, damaged
        )


class Journal:
    """Writes subscriptions and cursors to the folder of a collection.

    Parameters
    ----------
    folder
        The folder, which is locked.
    sync
        Whether changes of subscriptions wait for the disk.
    """

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self._folder = folder
        self._changes = _File(folder, _SUBSCRIPTIONS, sync)
        self._cursors = _File(folder, _CURSORS, sync=False)
        self._is_dirty = False

    def record_change(self, change: Put | Deleted, list_all: Callable[[], Known]) -> None:
        """Record a change of subscriptions. It is safe when it returns.

        `list_all` gives all subscriptions as they were before.
        """
        self._changes.append(
            _encode(change), lambda: [Put(s, state.start) for s, state in list_all().values()]
        )

    def record_progress(self, progress: Progress, list_all: Callable[[], Known]) -> None:
        """Record that a subscription stands elsewhere; `list_all` is as above."""
        self._is_dirty = True
        self._cursors.append(
            _encode(progress),
            lambda: [state.to_progress(name) for name, (_, state) in list_all().items()],
        )

    def sync(self) -> None:
        """Return when all cursors are on the disk."""
        if self._is_dirty:
            self._is_dirty = False
            self._cursors.sync()

    def close(self) -> None:
        """Write no more."""
        self.sync()
        self._changes.close()
        self._cursors.close()


class _File:
    """One of the two logs, open for appending."""

    def __init__(self, folder: Path, kind: str, sync: bool) -> None:
        self._folder, self._kind, self._sync = folder, kind, sync
        self._rewritten = 0
        """The length of the file when it was written anew."""
        path = _newest(folder, kind)
        if path is None:
            path = folder / f"{kind}-{1:08d}"
            create_log(path)
            length = EMPTY_LENGTH
        elif kind == _CURSORS:
            length = read_whole_frames(path)[0].length
        else:
            frames = read_frames(path)
            length = frames.length
            if frames.is_torn:
                report_torn(path, length)
        self._number = _number_of(path)
        self._is_newest = True
        """Whether no file has a higher number than that of the log."""
        self._log = Log(path, length, sync)
        self._remove_others()

    def append(self, content: bytes, list_all: Callable[[], Iterable[Any]]) -> None:
        """Append a record, or write the file anew with those that count before it."""
        length = self._log.length
        if not self._is_newest or (length > _REWRITE_BYTES and length > 4 * self._rewritten):
            self._rewrite(list_all())
        try:
            self._log.append(content)
            self._log.confirm()
        except BaseException:
            # A record that is not confirmed would be read, and overwritten by the next one.
            self._log.undo()
            raise

    def _rewrite(self, records: Iterable[Any]) -> None:
        # An exception may come when the new file is there and the log is still the old one. What is
        # appended to the old one then would be lost: it is written anew first.
        self._is_newest = False
        self._number += 1
        path = self._folder / f"{self._kind}-{self._number:08d}"
        create_log(path, map(_encode, records))
        length = path.stat().st_size
        last, self._log = self._log, Log(path, length, self._sync)
        self._rewritten = length
        self._is_newest = True
        last.close()
        self._remove_others()

    def _remove_others(self) -> None:
        for path in list(self._folder.iterdir()):
            is_kind = path.name.startswith(f"{self._kind}-")
            if is_kind and (path.name.endswith(UNFINISHED) or _number_of(path) < self._number):
                remove_file(path)

    def sync(self) -> None:
        self._log.sync()

    def close(self) -> None:
        self._log.close()


def _newest(folder: Path, kind: str) -> Path | None:
    name = re.compile(rf"{kind}-\d{{8,}}")
    try:
        paths = [path for path in folder.iterdir() if name.fullmatch(path.name)]
    except FileNotFoundError:
        return None
    return max(paths, key=_number_of, default=None)


def _number_of(path: Path) -> int:
    return int(path.name.rpartition("-")[2].removesuffix(UNFINISHED))
