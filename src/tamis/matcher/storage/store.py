"""The journal of a matcher that is stored in a directory: log, checkpoints, and reading it all."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.encode.checks import ArrayError, check_numbers, check_type
from tamis.errors import CorruptFileError, RuleError, SchemaError, StorageError
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import View
from tamis.matcher.storage.atomic import MissingFileError, storage_errors
from tamis.matcher.storage.directory import (
    lock_directory,
    open_manifest,
    remove_abandoned_folders,
    remove_superfluous_files,
)
from tamis.matcher.storage.file_names import (
    DOCUMENTS,
    LOG,
    MANIFEST,
    SEGMENT,
    file_name,
    file_numbers,
    newest_number,
)
from tamis.matcher.storage.log import EMPTY_LENGTH, Log, create_log, read_log, report_torn
from tamis.matcher.storage.manifest import (
    Manifest,
    Settings,
    StoredView,
    draw_identity,
    write_manifest,
)
from tamis.matcher.storage.segment_file import map_segment, write_segment
from tamis.matcher.tail import NO_TAIL
from tamis.matcher.write.builder import SegmentBuilder
from tamis.matcher.write.changes import Change, decode_changes, encode_changes
from tamis.matcher.write.journal import TakeSnapshot
from tamis.matcher.write.replay import replay
from tamis.matcher.write.state import State

__all__ = ["Store"]

_CHECKPOINT_BYTES = 4 << 20
"""A log longer than this calls for a checkpoint."""

_TRIES: Final = 20
"""How often a reader tries again when a writer replaces files while it reads."""


Stamp: TypeAlias = tuple[int, int, int, int]
"""Device, inode, time and size of a file. A file that is mapped keeps its inode."""


class _ReplayedLog(NamedTuple):
    """A log that was read."""

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
    """By file, those that are in memory as they are stored."""
    stamps: dict[str, Stamp]
    """Which file it was, for each of them."""
    logs: list[_ReplayedLog]
    revision: int


class Store:
    """A directory as the journal of a matcher (`tamis.matcher.write.journal.Journal`).

    Parameters
    ----------
    folder
        A directory of rules.
    builder
        Builds segments.
    read_only
        Whether to leave the directory as it is. Then other processes may write to it.
    sync
        Whether changes are on the disk when they are acknowledged. Otherwise the operating system
        has them then.
    verify
        Whether to verify all files that are read. Otherwise they are trusted.
    """

    def __init__(
        self, folder: Path, builder: SegmentBuilder, *, read_only: bool, sync: bool, verify: bool
    ) -> None:
        self.folder = folder
        self.read_only = read_only
        self.builder = builder
        self._sync = sync
        self.verify = verify
        self._pid = os.getpid()
        self._is_closed = False
        self._stamps: dict[str, Stamp] = {}
        self._lock = None if read_only else lock_directory(folder)
        self._log: Log | None = None
        self.close_documents: weakref.WeakMethod[Callable[[], None]] | None = None
        """Closes the file of documents, which must not change once the lock is released."""
        try:
            fingerprint = self._fingerprint()
            loaded = self._load({})
            self._remember(loaded, fingerprint)
            if not read_only:
                for log in loaded.logs:
                    if log.is_torn:
                        report_torn(log.path, log.length)
                for log in loaded.logs[:-1]:
                    Log(log.path, log.length, sync).close()
                self._log = Log(loaded.logs[-1].path, loaded.logs[-1].length, sync)
                remove_superfluous_files(folder, loaded.manifest)
                remove_abandoned_folders(folder)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self._first_state: State | None = loaded.state

    def take_state(self) -> State:
        """The rules that were in the directory when it was opened; may be called once."""
        state, self._first_state = self._first_state, None
        assert state is not None
        return state

    def _remember(self, loaded: _Loaded, fingerprint: tuple[object, ...]) -> None:
        self.revision = loaded.revision
        """The number of the last change that was read."""
        self.identity = loaded.manifest.identity
        """That of the directory; empty if an older Tamis created it."""
        self._manifest = loaded.manifest
        self._settings = loaded.manifest.settings
        self._documents = loaded.manifest.documents
        """As in the manifest: no file of documents with a lower number is the newest."""
        self._has_other_engine = self._settings.engine != self.builder.engine.name
        """Whether the segment files are those of another engine."""
        self._next_number = max(
            loaded.manifest.next_number, *(log.number + 1 for log in loaded.logs)
        )
        self._files = weakref.WeakKeyDictionary(
            {segment: file for file, segment in loaded.segments.items()}
        )
        self._stamps = loaded.stamps
        self._last_fingerprint = fingerprint

    # --- The journal ---

    def check_writable(self) -> None:
        """Raise `StorageError` if no change can be recorded."""
        if self.read_only:
            reason = "it was opened read-only"
        elif self._is_closed:
            reason = "it was closed"
        elif os.getpid() != self._pid:
            reason = f"it belongs to process {self._pid}, of which this one is a fork; open it here"
        elif self._lock is not None and not self._lock.is_held():
            reason = "it was removed, moved or replaced while it was open; open it again"
        else:
            return
        raise StorageError(f"nothing can be changed: {reason}", path=str(self.folder))

    def append(self, changes: Sequence[Change]) -> None:
        """Write changes to the log. They are safe when it returns, and count once confirmed."""
        self.check_writable()
        assert self._log is not None
        self._log.append(encode_changes(changes))
        # In the meantime it may have been removed, and the changes with it.
        self.check_writable()

    def confirm(self) -> None:
        """Keep the changes that were appended last."""
        if self._log is not None:
            self._log.confirm()

    def undo(self) -> None:
        """Drop the changes that were appended last, unless they are confirmed."""
        if self._log is not None:
            self._log.undo()

    def needs_maintenance(self) -> bool:
        """Whether a checkpoint is due."""
        return self._log is not None and (
            self._has_other_engine or self._log.length > _CHECKPOINT_BYTES
        )

    def maintain(self, take_snapshot: TakeSnapshot) -> None:
        """Make a checkpoint, if one is due."""
        if self.needs_maintenance():
            self._checkpoint(take_snapshot)

    def close(self, take_snapshot: TakeSnapshot | None) -> None:
        """Make a last checkpoint, if there is something to store, and release the lock.

        Without `take_snapshot` the directory is left as it is.
        """
        try:
            if take_snapshot is not None and self._has_news():
                self._checkpoint(take_snapshot)
        finally:
            self._is_closed = True
            # A call that was interrupted here may be repeated: all do nothing the second time.
            try:
                close_documents = self.close_documents and self.close_documents()
                if close_documents is not None:
                    close_documents()
            finally:
                if self._log is not None:
                    self._log.close()
                if self._lock is not None:
                    self._lock.release()

    def _has_news(self) -> bool:
        if self._is_closed or self._log is None or os.getpid() != self._pid:
            return False
        if self._has_other_engine or not self._log.is_empty:
            return True
        return not self._documents and newest_number(self.folder, DOCUMENTS) > 0

    def _checkpoint(self, take_snapshot: TakeSnapshot) -> None:
        """Store all rules in segment files, so that the logs up to now become superfluous."""
        self.check_writable()
        number = self._next_number
        self._next_number += 1
        path = self.folder / file_name(LOG, number)
        create_log(path)
        next_log, last_log = Log(path, EMPTY_LENGTH, self._sync), self._log
        assert last_log is not None

        def switch_log() -> None:
            self._log = next_log

        snapshot = take_snapshot(switch_log)
        last_log.name_successor(number)
        last_log.close()
        views = tuple(self._store_view(view) for view in snapshot.frozen_views if view.size)
        self._settings = msgspec.structs.replace(self._settings, engine=self.builder.engine.name)
        documents = max(self._documents, newest_number(self.folder, DOCUMENTS))
        identity = self.identity or draw_identity()
        manifest = Manifest(
            self._settings, views, number, self._next_number, documents, snapshot.revision, identity
        )
        self.check_writable()
        write_manifest(self.folder, manifest)
        self.identity = identity
        self._has_other_engine = False
        self._documents = documents
        remove_superfluous_files(self.folder, manifest)

    def draw_identity(self) -> None:
        """Give the directory of an older Tamis an identity, before its rules change."""
        if self.identity or self.read_only:
            return
        # Without one it is what it was: a full disk keeps nobody from reading rules.
        with suppress(StorageError):
            self.check_writable()
            manifest = self._manifest._replace(identity=draw_identity())
            write_manifest(self.folder, manifest)
            self.identity = manifest.identity

    def _store_view(self, view: View) -> StoredView:
        """Write the segment of a view, unless a file holds it already."""
        file = self._files.get(view.segment)
        if file is None:
            file = file_name(SEGMENT, self._next_number)
            self._next_number += 1
            write_segment(self.folder / file, view.segment)
            self._files[view.segment] = file
        alive = view.alive()
        removed = np.empty(0, np.int64) if alive is None else np.flatnonzero(alive == 0)
        return StoredView(file, removed.astype(np.int32))

    def stats(self) -> dict[str, Any]:
        """The directory, and the size of its files by kind."""
        sizes = {MANIFEST.lower(): 0, SEGMENT: 0, LOG: 0}
        for path in self.folder.iterdir():
            kind = path.name.partition("-")[0].lower()
            # A writer may remove a file at any moment.
            with suppress(FileNotFoundError):
                if kind in sizes:
                    sizes[kind] += path.stat().st_size
        return {"path": str(self.folder), "stored_bytes": sizes}

    # --- Reading ---

    def refresh(self) -> State | None:
        """Read what a writer has changed; None if nothing has, or if this is the writer."""
        fingerprint = self._fingerprint()
        if not self.read_only or fingerprint == self._last_fingerprint:
            return None
        loaded = self._load({file: segment for segment, file in self._files.items()})
        self._check_same_kind(loaded.manifest.settings)
        self._remember(loaded, fingerprint)
        return loaded.state

    def _check_same_kind(self, settings: Settings) -> None:
        """Refuse a directory of other rules that has taken the place of this one."""
        # Each rule has its own logic, and any engine can read it.
        if settings.schema != self._settings.schema:
            raise StorageError(
                "it was replaced by one with another schema; open it again",
                path=str(self.folder),
            )

    def _fingerprint(self) -> tuple[object, ...]:
        """A value that differs whenever the directory does."""
        files: list[object] = []
        logs = (file_name(LOG, number) for number in file_numbers(self.folder, LOG))
        for name in (MANIFEST, *logs):
            with suppress(FileNotFoundError):
                found = (self.folder / name).stat()
                files.append((name, found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(files)

    def _load(self, known: Mapping[str, Segment]) -> _Loaded:
        """Read the directory; try again if a writer replaces files meanwhile."""
        tries = _TRIES if self.read_only else 1
        for number in range(1, tries + 1):
            try:
                return self._load_once(known)
            except (MissingFileError, _TornBeforeOthersError, _GrownError) as error:
                if number == tries:
                    raise CorruptFileError(error.message, path=error.path) from error
                time.sleep(0.001 * number)
        raise AssertionError("the last try returns or raises")

    def _load_once(self, known: Mapping[str, Segment]) -> _Loaded:
        """Map the segments that the manifest names, and replay the logs on top of them.

        Segments in memory, which are `known` by file, are not mapped again, unless another file has
        got that name: the directory may have been replaced.
        """
        manifest = open_manifest(self.folder)
        views: list[View] = []
        segments: dict[str, Segment] = {}
        stamps: dict[str, Stamp] = {}
        for file, removed in manifest.views:
            path = self.folder / file
            stamps[file] = stamp = _stamp(path)
            segment = known.get(file) if stamp == self._stamps.get(file) else None
            if segment is None:
                stored = map_segment(path, self.builder.engine, self.builder.schema, self.verify)
                _check_removed(removed, len(stored.segment), path)
                segment, removed = stored.segment, stored.places(removed)
                if stored.is_as_stored:
                    segments[file] = segment
            else:
                _check_removed(removed, len(segment), path)
                segments[file] = segment
            views.append(_view(segment, removed))
        changes, logs = self._read_logs(manifest)
        try:
            state = replay(State(tuple(views), NO_TAIL), changes, self.builder)
        except (RuleError, SchemaError) as error:
            raise StorageError(
                f"a stored rule is refused: {error}", path=str(self.folder)
            ) from error
        return _Loaded(manifest, state, segments, stamps, logs, manifest.revision + len(changes))

    def _read_logs(self, manifest: Manifest) -> tuple[list[Change], list[_ReplayedLog]]:
        """The changes in all logs that the manifest does not make superfluous."""
        changes: list[Change] = []
        logs: list[_ReplayedLog] = []
        numbers = {manifest.log, *file_numbers(self.folder, LOG)}
        successors: set[int] = set()
        for number in sorted(number for number in numbers if number >= manifest.log):
            path = self.folder / file_name(LOG, number)
            content = read_log(path, decode_changes, accept_loss=not self.verify)
            if content.statement is not None and content.statement.successor:
                successors.add(content.statement.successor)
            # A crash may tear a log just after a checkpoint has created the next one.
            torn = [log.path for log in logs if log.is_torn]
            if content.records and torn:
                raise _TornBeforeOthersError(
                    "the log is damaged: it ends within a record, and others follow it",
                    path=str(torn[0]),
                )
            if content.records:
                _refuse_grown(logs)
            changes += chain.from_iterable(content.records)
            logs.append(_ReplayedLog(path, number, content.length, content.is_torn))
        for number in successors - {log.number for log in logs}:
            path = self.folder / file_name(LOG, number)
            raise MissingFileError("the file is missing", path=str(path))
        return changes, logs


class _TornBeforeOthersError(CorruptFileError):
    """A log is torn, although a later one has records."""


class _GrownError(CorruptFileError):
    """A log has got more records since it was read, although a later one has records."""


def _refuse_grown(logs: Sequence[_ReplayedLog]) -> None:
    """Refuse what was read of logs that a writer has continued meanwhile.

    A checkpoint creates the next log before it leaves the last one. So a reader may see the first
    records of the new log, and miss the last ones of the old.
    """
    for log in logs:
        with storage_errors(log.path):
            size = log.path.stat().st_size
        if size > log.length and not log.is_torn:
            raise _GrownError("the log grew while it was read", path=str(log.path))


def _check_removed(removed: NDArray[np.int32], size: int, path: Path) -> None:
    try:
        check_type("removed", removed, np.int32)
        check_numbers("removed", removed, 0, size)
    except ArrayError as error:
        raise CorruptFileError(
            "the manifest removes rules that are not in it", path=str(path)
        ) from error


def _stamp(path: Path) -> Stamp:
    with storage_errors(path):
        found = path.stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _view(segment: Segment, removed: NDArray[np.int32]) -> View:
    if not len(removed):
        return View(segment)
    marks = np.ones(len(segment), np.uint8)
    marks[removed] = 0
    return View(segment, marks)
