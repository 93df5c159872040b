"""The documents seen before, in a file of a directory of rules.

The file is a log (`log.py`) of documents that were added and removed. Once most of it concerns
removed documents, the others are written to a new file with a higher number, and the old file is
removed; so of several files the one with the highest number counts. Without documents there is no
file.

When a call returns, the operating system has the document, so it survives the end of the process.
It is on the disk after `Documents.sync`, or once the directory is closed: a publisher does not
wait.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.joins.document_store import DocumentStore, StoredDocument
from tamis.joins.retention import Retention
from tamis.matcher.storage.atomic import MissingFileError
from tamis.matcher.storage.directory import open_manifest
from tamis.matcher.storage.file_names import DOCUMENTS, file_name, newest_number, remove_files
from tamis.matcher.storage.log import Log, create_log, read_log, report_torn

__all__ = ["DocumentFile", "DocumentState", "read_documents", "write_documents"]

_DOCUMENTS_PER_FRAME: Final = 1024
"""In a new file."""

_TRIES: Final = 20
"""How often a file is looked for that a writer may be replacing."""

_REWRITE_BYTES = 4 << 20
"""A file shorter than this is not rewritten."""


class _Added(msgspec.Struct, frozen=True, tag="came"):
    documents: tuple[StoredDocument, ...]
    """New ones, or old ones with another time."""
    removed: tuple[int, ...] = ()
    """The numbers of documents that were removed at the same time, maybe of new ones."""


class _Removed(msgspec.Struct, frozen=True, tag="went"):
    numbers: tuple[int, ...]


class _Settings(msgspec.Struct, frozen=True, tag="settings"):
    following: int
    """The number of the next document."""
    count: int | None = None
    age: float | None = None
    by: str | None = None
    newest: float = -math.inf
    """The newest time so far."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Added | _Removed | _Settings).decode


class DocumentState(NamedTuple):
    """The content of a file of documents."""

    path: Path
    number: int
    length: int
    """Where its last whole frame ends."""
    documents: dict[int, StoredDocument]
    following: int
    """The number of the next document."""
    newest: float
    """The newest time of documents so far, of removed ones too."""
    retention: Retention | None
    """The stored one, if there is any."""
    is_torn: bool
    """Whether a torn frame follows the last whole one."""


def read_documents(folder: Path, accept_loss: bool = False) -> DocumentState | None:
    """Read the documents of a directory; None if it has no file of them.

    Parameters
    ----------
    folder
        The directory.
    accept_loss
        Whether to go on with a warning if documents are missing from the end of the file.

    Raises
    ------
    CorruptFileError
        The file is damaged or missing.
    """
    for number in range(1, _TRIES + 1):
        try:
            return _read_newest(folder, accept_loss)
        except MissingFileError as error:
            # A writer may just have replaced it.
            if number == _TRIES:
                raise CorruptFileError(error.message, path=error.path) from error
            time.sleep(0.001 * number)
    raise AssertionError("the last try returns or raises")


def _read_newest(folder: Path, accept_loss: bool) -> DocumentState | None:
    least = open_manifest(folder).documents
    number = newest_number(folder, DOCUMENTS)
    if number < least:
        path = folder / file_name(DOCUMENTS, least)
        raise MissingFileError("the file is missing", path=str(path))
    if not number:
        return None
    path = folder / file_name(DOCUMENTS, number)
    content = read_log(path, _decode, accept_loss)
    documents: dict[int, StoredDocument] = {}
    following, newest, retention = 0, -math.inf, None
    for entry in content.records:
        match entry:
            case _Added():
                documents.update((document.number, document) for document in entry.documents)
                _forget(documents, entry.removed)
                newest = max(newest, *(d.came for d in entry.documents), -math.inf)
                following = max(following, *(d.number + 1 for d in entry.documents), 0)
            case _Removed():
                _forget(documents, entry.numbers)
            case _Settings():
                following = max(following, entry.following)
                newest = max(newest, entry.newest)
                retention = Retention(entry.count, entry.age, entry.by)
    return DocumentState(
        path, number, content.length, documents, following, newest, retention, content.is_torn
    )


def _forget(documents: dict[int, StoredDocument], numbers: Iterable[int]) -> None:
    for number in numbers:
        documents.pop(number, None)


def write_documents(folder: Path, documents: DocumentStore) -> None:
    """Replace the documents of a directory by a copy of these."""
    number = newest_number(folder, DOCUMENTS)
    is_default = not _differs(None, documents.retention)
    if not number and not len(documents) and not documents.next and is_default:
        return
    _write(folder / file_name(DOCUMENTS, number + 1), documents)
    _remove_old_files(folder)


def _write(path: Path, documents: DocumentStore) -> int:
    """Write a file of documents atomically, and return its length."""
    create_log(path, _contents(documents))
    return path.stat().st_size


def _contents(documents: DocumentStore) -> Iterator[bytes]:
    yield _encode(_settings(documents))
    stored = documents.stored_documents()
    for start in range(0, len(stored), _DOCUMENTS_PER_FRAME):
        yield _encode(_Added(tuple(stored[start : start + _DOCUMENTS_PER_FRAME])))


def _settings(documents: DocumentStore) -> _Settings:
    retention = documents.retention
    newest = documents.newest if retention.by_events else -math.inf
    return _Settings(documents.next, retention.count, retention.age, retention.by, newest)


class DocumentFile:
    """Records the documents of a matcher in its directory.

    Parameters
    ----------
    folder
        The directory, which is locked.
    documents
        The documents, as the directory has them.
    state
        The content of the directory's file, if there is one.
    """

    def __init__(
        self,
        folder: Path,
        documents: DocumentStore,
        state: DocumentState | None,
    ) -> None:
        self._folder = folder
        self._documents = documents
        self._pid = os.getpid()
        self._is_closed = False
        self._log: Log | None = None
        self._is_newest = False
        """Whether no file has a higher number than that of the log."""
        self._number = 0
        if state is not None:
            self._number = state.number
            if state.is_torn:
                report_torn(state.path, state.length)
            self._log = Log(state.path, state.length, sync=False)
            self._is_newest = True
            if _differs(state.retention, documents.retention):
                self._rewrite()  # documents may have other times now
        elif _differs(None, documents.retention):
            self._rewrite()  # so that the retention is known before any document comes
        _remove_old_files(folder)

    def record_added(self, document: StoredDocument, removed: list[int]) -> None:
        """Record a new document, and the numbers of those that were removed, maybe its own."""
        if self._is_closed:
            raise StorageError("nothing can be changed: it was closed", path=str(self._folder))
        self._append(_Added((document,), tuple(removed)))

    def record_changed(self, documents: Sequence[StoredDocument]) -> None:
        """Record that documents have other times."""
        self._append(_Added(tuple(documents)))

    def record_removed(self, numbers: list[int]) -> None:
        """Record that documents were removed."""
        self._append(_Removed(tuple(numbers)))

    def confirm(self) -> None:
        """Keep the last record. Without this call the next record takes its place."""
        if self._log is not None:
            self._log.confirm()

    def sync(self) -> None:
        """Return when all documents are on the disk."""
        if self._log is not None and not self._is_closed:
            self._log.sync()

    def close(self) -> None:
        """Record no more documents."""
        if self._log is not None and not self._is_closed:
            self._log.undo()
            self._log.sync()
            self._is_closed = True
            self._log.close()

    def _append(self, entry: _Added | _Removed) -> None:
        if self._is_closed or os.getpid() != self._pid:
            # A reader removes documents past their age from memory. The file is another's.
            return
        if self._log is None or not self._is_newest or self._is_mostly_stale():
            self._rewrite()
        assert self._log is not None
        self._log.append(_encode(entry))

    def _is_mostly_stale(self) -> bool:
        """Whether most of the file concerns removed documents."""
        assert self._log is not None
        length = self._log.length
        return length > _REWRITE_BYTES and length > 2 * self._documents.stored_bytes

    def _rewrite(self) -> None:
        """Write the documents that are left to a new file."""
        # An exception may come when the new file is there and the log is still the old one. What is
        # appended to the old one then would be lost: it is written anew first.
        self._is_newest = False
        self._number += 1
        path = self._folder / file_name(DOCUMENTS, self._number)
        length = _write(path, self._documents)
        last_log = self._log
        self._log = Log(path, length, sync=False)
        self._is_newest = True
        if last_log is not None:
            last_log.close()
        _remove_old_files(self._folder)


def _differs(stored: Retention | None, now: Retention) -> bool:
    before = stored or Retention()
    return (before.count, before.age, before.by) != (now.count, now.age, now.by)


def _remove_old_files(folder: Path) -> None:
    """Remove all files but the newest, and unfinished ones."""
    newest = newest_number(folder, DOCUMENTS)
    remove_files(folder, DOCUMENTS, lambda file: file.number == newest)
