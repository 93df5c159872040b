"""A directory of rules: what keeps a collection's changes, and gives it back."""

from __future__ import annotations

import os
import re
import shutil
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.errors import CorruptFileError, RuleError, SchemaError, StorageError
from tamis.matcher.rule import Row, RuleId
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import Snapshot, View
from tamis.matcher.storage.array_file import Sections
from tamis.matcher.storage.atomic import ASIDE, MissingFileError, storing, sync_folder
from tamis.matcher.storage.lock import Lock
from tamis.matcher.storage.log import EMPTY, Log, create_log, read_log
from tamis.matcher.storage.manifest import (
    MANIFEST,
    Manifest,
    Settings,
    StoredView,
    read_manifest,
    write_manifest,
)
from tamis.matcher.storage.segment_file import map_segment, write_segment
from tamis.matcher.tail import NO_TAIL
from tamis.matcher.write.builder import Maker
from tamis.matcher.write.writer import Added, Entry, State, appended, located, without

__all__ = ["LOCK", "Store", "create", "is_index", "replace", "settings_of"]

LOCK: Final = "LOCK"
_OURS = re.compile(rf"(segment|log)-(\d{{8,}})({re.escape(ASIDE)})?|{MANIFEST}{re.escape(ASIDE)}")
"""The files that come and go."""

_LOG_BYTES = 4 << 20
"""From what size on a log is made superfluous by a checkpoint."""

_TRIES = 20
"""How often a reader looks again when a writer changes files under its eyes."""

_decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


def is_index(folder: Path) -> bool:
    """Whether there is a manifest in `folder`."""
    try:
        return (folder / MANIFEST).exists()
    except OSError:
        return False


def settings_of(folder: Path) -> Settings:
    """The settings of a directory of rules.

    Raises
    ------
    StorageError
        It is none, or cannot be read.
    """
    return _manifest(folder).settings


def _manifest(folder: Path) -> Manifest:
    if not is_index(folder):
        raise StorageError(_why_no_index(folder), path=str(folder))
    return read_manifest(folder)


def _why_no_index(folder: Path) -> str:
    if not folder.exists():
        return "there is no such directory"
    if not folder.is_dir():
        return "it is a file; stored rules are a directory"
    if not any(folder.iterdir()):
        return "the directory is empty; to store rules, name one that does not exist yet"
    return f"it holds no stored rules: there is no {MANIFEST}"


def create(
    folder: Path,
    settings: Settings,
    segment: Segment | None = None,
    also: Callable[[Path], None] | None = None,
) -> None:
    """Make a directory with the rules of `segment`, all of it or nothing.

    Parameters
    ----------
    folder, settings, segment
        The directory, what holds for all its rules, and these.
    also
        Writes what else belongs into it.

    Raises
    ------
    StorageError
        There is something under that name, or it cannot be made.
    """
    aside = folder.with_name(f"{folder.name}{ASIDE}-{os.getpid()}")
    with storing(folder):
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            (aside / LOCK).touch()
            _write_first(aside, settings, segment, 1)
            if also is not None:
                also(aside)
            # Takes the place of an empty directory, and of nothing else.
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        sync_folder(folder.absolute().parent)


def replace(
    folder: Path,
    settings: Settings,
    segment: Segment | None,
    also: Callable[[Path], None] | None = None,
) -> None:
    """Have the rules of `segment` in the place of those in a directory, at once.

    Parameters
    ----------
    folder, settings, segment
        The directory, what holds for all its rules, and these.
    also
        Writes what else belongs into it, right after.

    Raises
    ------
    StorageError
        `folder` is no directory of rules, or somebody writes to it.
    """
    settings_of(folder)
    lock = _lock(folder)
    try:
        before = read_manifest(folder)
        numbers = [before.next_number, *(number + 1 for number in _log_numbers(folder))]
        _write_first(folder, settings, segment, max(numbers))
        if also is not None:
            also(folder)
        _sweep(folder, read_manifest(folder))
    finally:
        lock.release()


def _write_first(folder: Path, settings: Settings, segment: Segment | None, number: int) -> None:
    """Write the rules of a segment, an empty log, and the manifest that makes them count."""
    views: tuple[StoredView, ...] = ()
    if segment is not None and len(segment):
        write_segment(folder / _segment_name(number), segment)
        views = (StoredView(_segment_name(number), _NO_PLACES),)
    create_log(folder / _log_name(number))
    write_manifest(folder, Manifest(settings, views, number, number + 1))


def _lock(folder: Path) -> Lock:
    advice = "close it there, or open it with read_only=True"
    return Lock(folder / LOCK, "writes to it", advice)


class _ReadLog(NamedTuple):
    """A log that was replayed."""

    path: Path
    number: int
    length: int
    """Where its last whole frame ends."""
    is_torn: bool


class _Loaded(NamedTuple):
    """What was read from a directory."""

    manifest: Manifest
    state: State
    segments: dict[str, Segment]
    """By file, for those which are as they are stored."""
    unverified: list[tuple[Segment, Sections]]
    logs: list[_ReadLog]


class Store:
    """A directory that keeps the changes of a collection.

    Parameters
    ----------
    folder
        A directory of rules.
    maker
        Makes segments.
    read_only
        Whether the directory is left as it is, and others may write to it.
    sync
        Whether changes are on the disk when they are acknowledged, and not only with the system.
    verify
        Whether all files are read and checked at once; otherwise that is upkeep.
    """

    def __init__(
        self, folder: Path, maker: Maker, *, read_only: bool, sync: bool, verify: bool
    ) -> None:
        self.folder = folder
        self.read_only = read_only
        self.builder = maker
        self._sync = sync
        self._pid = os.getpid()
        self._closed = False
        self._lock = None if read_only else _lock(folder)
        self._log: Log | None = None
        try:
            seen = self._look()
            loaded = self._load({}, verify)
            self._take(loaded, seen)
            if not read_only:
                for log in loaded.logs[:-1]:
                    Log(log.path, log.length, sync).close()
                self._log = Log(loaded.logs[-1].path, loaded.logs[-1].length, sync)
                _sweep(folder, loaded.manifest)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self.state: State | None = loaded.state
        """What was read, for whoever takes it."""

    def _take(self, loaded: _Loaded, seen: tuple[object, ...]) -> None:
        self._settings = loaded.manifest.settings
        self._rewrites = self._settings.engine != self.builder.engine.name
        """Whether what is stored is another engine's."""
        self._next_number = max(
            loaded.manifest.next_number, *(log.number + 1 for log in loaded.logs)
        )
        self._files = weakref.WeakKeyDictionary(
            {segment: file for file, segment in loaded.segments.items()}
        )
        self._unverified = weakref.WeakKeyDictionary(dict(loaded.unverified))
        self._seen = seen

    # --- The journal of a collection ---

    def check_writable(self) -> None:
        """Raise if no change can be kept."""
        if self.read_only:
            reason = "it was opened read-only"
        elif self._closed:
            reason = "it was closed"
        elif os.getpid() != self._pid:
            reason = f"it belongs to process {self._pid}, of which this one is a fork; open it here"
        else:
            return
        raise StorageError(f"nothing can be changed: {reason}", path=str(self.folder))

    def append(self, entries: Sequence[Entry]) -> None:
        """Write changes to the log; returns when they are safe."""
        self.check_writable()
        assert self._log is not None
        self._log.append(entries)

    def is_untidy(self) -> bool:
        """Whether a file is to be verified, or a checkpoint is due."""
        if self._unverified:
            return True
        return self._log is not None and (self._rewrites or self._log.length > _LOG_BYTES)

    def tidy(self, between_changes: Callable[[Callable[[], None]], Snapshot]) -> None:
        """Verify a file, or make a checkpoint."""
        for segment in list(self._unverified)[:1]:
            self.verify([segment])
            return
        if self.is_untidy():
            self._checkpoint(between_changes)

    def verify(self, segments: Sequence[Segment]) -> None:
        """Read the files of these segments, if nobody has, and compare them with checksums."""
        for segment in segments:
            sections = self._unverified.get(segment)
            if sections is not None:
                sections.verify()
                self._unverified.pop(segment, None)

    def trust_files(self) -> None:
        """Verify none of the files that are open now."""
        self._unverified.clear()

    def close(self, between_changes: Callable[[Callable[[], None]], Snapshot] | None) -> None:
        """Make a last checkpoint, if there is something for it, and let others write.

        Without `between_changes` the directory is left as it is.
        """
        if self._closed:
            return
        try:
            if between_changes is not None and os.getpid() == self._pid and self._has_news():
                self._checkpoint(between_changes)
        finally:
            self._closed = True
            if self._log is not None:
                self._log.close()
            if self._lock is not None:
                self._lock.release()

    def _has_news(self) -> bool:
        return self._log is not None and (self._rewrites or not self._log.is_empty)

    def _checkpoint(self, between_changes: Callable[[Callable[[], None]], Snapshot]) -> None:
        """Store what memory holds, so that the logs up to now are superfluous."""
        number = self._next_number
        self._next_number += 1
        path = self.folder / _log_name(number)
        create_log(path)
        after, before = Log(path, EMPTY, self._sync), self._log
        assert before is not None

        def switch() -> None:
            self._log = after

        snapshot = between_changes(switch)
        before.close()
        views = tuple(self._stored(view) for view in snapshot.frozen_views if view.size)
        self._settings = msgspec.structs.replace(self._settings, engine=self.builder.engine.name)
        manifest = Manifest(self._settings, views, number, self._next_number)
        write_manifest(self.folder, manifest)
        self._rewrites = False
        _sweep(self.folder, manifest)

    def _stored(self, view: View) -> StoredView:
        file = self._files.get(view.segment)
        if file is None:
            file = _segment_name(self._next_number)
            self._next_number += 1
            write_segment(self.folder / file, view.segment)
            self._files[view.segment] = file
        alive = view.alive()
        gone = _NO_PLACES if alive is None else np.flatnonzero(alive == 0).astype(np.int32)
        return StoredView(file, gone)

    def stats(self) -> dict[str, Any]:
        """The directory, and the size of its files by kind."""
        sizes = {"manifest": 0, "segment": 0, "log": 0}
        for path in self.folder.iterdir():
            kind = path.name.partition("-")[0].lower()
            # A writer may take a file away at any moment.
            with suppress(FileNotFoundError):
                if kind in sizes:
                    sizes[kind] += path.stat().st_size
        return {"path": str(self.folder), "stored_bytes": sizes}

    # --- Reading ---

    def refreshed(self) -> State | None:
        """What a writer has made of the directory since; None if nothing has changed."""
        seen = self._look()
        if not self.read_only or seen == self._seen:
            return None
        loaded = self._load({file: segment for segment, file in self._files.items()}, False)
        self._take(loaded, seen)
        return loaded.state

    def _look(self) -> tuple[object, ...]:
        """Something that differs whenever the directory does."""
        seen: list[object] = []
        for name in (MANIFEST, *map(_log_name, sorted(_log_numbers(self.folder)))):
            with suppress(FileNotFoundError):
                found = (self.folder / name).stat()
                seen.append((name, found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(seen)

    def _load(self, known: Mapping[str, Segment], verify: bool) -> _Loaded:
        """Read all of it; what a writer changes under a reader's eyes is looked at again."""
        tries = _TRIES if self.read_only else 1
        for number in range(1, tries + 1):
            try:
                return self._load_once(known, verify)
            except (MissingFileError, _TornBeforeOthersError) as error:
                if number == tries:
                    raise CorruptFileError(error.message, path=error.path) from error
                time.sleep(0.001 * number)
        raise AssertionError("the last try returns or raises")

    def _load_once(self, known: Mapping[str, Segment], verify: bool) -> _Loaded:
        manifest = _manifest(self.folder)
        views: list[View] = []
        segments: dict[str, Segment] = {}
        unverified: list[tuple[Segment, Sections]] = []
        for file, removed in manifest.views:
            segment = known.get(file)
            if segment is None:
                stored = map_segment(self.folder / file, self.builder, verify)
                segment, removed = stored.segment, stored.places(removed)
                if stored.is_as_stored:
                    segments[file] = segment
                if not verify:
                    unverified.append((segment, stored.sections))
            else:
                segments[file] = segment
            views.append(_view(segment, removed, self.folder / file))
        entries, logs = self._entries(manifest)
        state = _replayed(State(tuple(views), NO_TAIL), entries, self.builder, self.folder)
        return _Loaded(manifest, state, segments, unverified, logs)

    def _entries(self, manifest: Manifest) -> tuple[list[Entry], list[_ReadLog]]:
        """The entries of all logs that are to be replayed."""
        entries: list[Entry] = []
        logs: list[_ReadLog] = []
        numbers = {manifest.log, *_log_numbers(self.folder)}
        for number in sorted(number for number in numbers if number >= manifest.log):
            path = self.folder / _log_name(number)
            content = read_log(path)
            # A log may be torn by a crash just when the next one was made.
            torn = [log.path for log in logs if log.is_torn]
            if content.entries and torn:
                raise _TornBeforeOthersError(
                    "the log is damaged: it ends within a record, and others follow it",
                    path=str(torn[0]),
                )
            entries += content.entries
            logs.append(_ReadLog(path, number, content.length, content.is_torn))
        return entries, logs


class _TornBeforeOthersError(CorruptFileError):
    """A log is torn, although there are records in a later one."""


def _view(segment: Segment, removed: NDArray[np.int32], path: Path) -> View:
    if not len(removed):
        return View(segment)
    if removed.min() < 0 or removed.max() >= len(segment):
        raise CorruptFileError("the manifest removes rules that are not in it", path=str(path))
    marks = np.ones(len(segment), np.uint8)
    marks[removed] = 0
    return View(segment, marks)


def _replayed(state: State, entries: Iterable[Entry], maker: Maker, folder: Path) -> State:
    """The state after these changes."""
    coming: dict[RuleId, Row] = {}
    going: dict[RuleId, None] = {}
    for entry in entries:
        if isinstance(entry, Added):
            if entry.clears:
                state, coming, going = State((), NO_TAIL), {}, {}
            refused = frozenset(entry.refused)
            for row in (row for rows in entry.rows for row in _decode_rows(rows)):
                if row.id not in refused:
                    coming.pop(row.id, None)
                    coming[row.id] = row
                    going[row.id] = None
        else:
            for id in entry.ids:
                coming.pop(id, None)
                going[id] = None
    state = without(state, located(state, going))
    try:
        prepared = maker.prepare([row.rule() for row in coming.values()], None)
    except (RuleError, SchemaError) as error:
        raise StorageError(f"a stored rule is refused: {error}", path=str(folder)) from error
    return appended(state, prepared, frozenset())[0]


def _sweep(folder: Path, manifest: Manifest) -> None:
    """Remove files that the manifest makes superfluous, and unfinished ones."""
    kept = {view.file for view in manifest.views}
    for path in folder.iterdir():
        found = _OURS.fullmatch(path.name)
        if found is None or path.name in kept:
            continue
        if found[1] == "log" and not found[3] and int(found[2]) >= manifest.log:
            continue
        # A reader may hold it; where a name cannot be removed, it is only in the way.
        with suppress(OSError):
            path.unlink()


def _log_numbers(folder: Path) -> list[int]:
    found = (_OURS.fullmatch(path.name) for path in folder.iterdir())
    return [int(f[2]) for f in found if f is not None and f[1] == "log" and not f[3]]


def _segment_name(number: int) -> str:
    return f"segment-{number:08d}"


def _log_name(number: int) -> str:
    return f"log-{number:08d}"


_NO_PLACES = np.empty(0, np.int32)
