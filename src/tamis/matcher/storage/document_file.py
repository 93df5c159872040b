"""The documents seen before, as a file of a directory of rules.

It is a log (`log.py`) of documents that came and went. Once most of it is about documents that are
gone, what is left is written to a new file of a higher number, and the old one goes; so of several
files the one with the highest number counts. There is none until there are documents.

A document is with the system when the call returns, so it survives the end of the process. It is on
the disk after `Documents.sync`, or once the directory is closed: a publisher does not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tamis.errors import CorruptFileError, StorageError
from tamis.joins.document_store import DocumentStore, StoredDocument
from tamis.joins.retention import Retention
from tamis.matcher.storage.atomic import ASIDE, storing
from tamis.matcher.storage.log import Log, create_log, read_frames

__all__ = ["DocumentFile", "DocumentState", "read_documents", "write_documents"]

_NAME: Final = re.compile(rf"documents-(\d{{8,}})({re.escape(ASIDE)})?")
_AT_ONCE: Final = 1024
"""How many documents are written in one frame when all are."""

_MOST_BYTES: Final = 4 << 20
"""From what size on it is worth while to leave out what is gone."""


class _Came(msgspec.Struct, frozen=True, tag="came"):
    documents: tuple[StoredDocument, ...]
    removed: tuple[int, ...] = ()
    """The numbers of documents that went at the same time."""


class _Went(msgspec.Struct, frozen=True, tag="went"):
    numbers: tuple[int, ...]


class _Settings(msgspec.Struct, frozen=True, tag="settings"):
    following: int
    """The number of the next document."""
    count: int | None = None
    age: float | None = None
    by: str | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Came | _Went | _Settings).decode


class DocumentState(NamedTuple):
    """What a file of documents holds."""

    path: Path
    number: int
    length: int
    """Where its last whole frame ends."""
    documents: dict[int, StoredDocument]
    following: int
    """The number of the next document."""
    retention: Retention | None
    """What was said about it, if anything was."""


def read_documents(folder: Path) -> DocumentState | None:
    """The documents of a directory; None where it has no file of them.

    Raises
    ------
    CorruptFileError
        The file is not as it was written.
    """
    numbers = _numbers(folder)
    if not numbers:
        return None
    path = folder / _name(max(numbers))
    frames = read_frames(path)
    documents: dict[int, StoredDocument] = {}
    following, retention = 0, None
    for content in frames.contents:
        try:
            entry = _decode(content)
        except msgspec.MsgspecError as error:
            raise CorruptFileError(
                f"a record is not to be read: {error}", path=str(path)
            ) from error
        match entry:
            case _Came():
                _forget(documents, entry.removed)
                documents.update((document.number, document) for document in entry.documents)
                following = max(following, *(d.number + 1 for d in entry.documents), 0)
            case _Went():
                _forget(documents, entry.numbers)
            case _Settings():
                following = max(following, entry.following)
                retention = Retention(entry.count, entry.age, entry.by)
    return DocumentState(path, max(numbers), frames.length, documents, following, retention)


def _forget(documents: dict[int, StoredDocument], numbers: Iterable[int]) -> None:
    for number in numbers:
        documents.pop(number, None)


def write_documents(folder: Path, documents: DocumentStore) -> None:
    """Have a copy of documents in a directory, in the place of those that are there."""
    numbers = _numbers(folder)
    if not numbers and not len(documents) and not documents.next:
        return
    _write(folder / _name(max(numbers, default=0) + 1), documents)
    _sweep(folder)


def _write(path: Path, documents: DocumentStore) -> int:
    """Write a file of documents, all of it or nothing, and return its length."""
    create_log(path, _contents(documents))
    return path.stat().st_size


def _contents(documents: DocumentStore) -> Iterator[bytes]:
    yield _encode(_settings(documents))
    stored = documents.stored_documents()
    for start in range(0, len(stored), _AT_ONCE):
        yield _encode(_Came(tuple(stored[start : start + _AT_ONCE])))


def _settings(documents: DocumentStore) -> _Settings:
    retention = documents.retention
    return _Settings(documents.next, retention.count, retention.age, retention.by)


class DocumentFile:
    """Keeps the documents of a Matcher in its directory.

    Parameters
    ----------
    folder
        The directory, which nobody else writes to.
    documents
        The documents, as the directory has them.
    state
        The file that is there, if one is.
    """

    def __init__(
        self,
        folder: Path,
        documents: DocumentStore,
        state: DocumentState | None,
    ) -> None:
        self._folder = folder
        self._documents = documents
        self._log: Log | None = None
        self._number = 0
        if state is not None:
            self._number = state.number
            self._log = Log(state.path, state.length, sync=False)
            if _differs(state.retention, documents.retention):
                self._log.append_frame(_encode(_settings(documents)))
        _sweep(folder)

    def record_added(self, document: StoredDocument, removed: list[int]) -> None:
        """Keep a document, and that others went when it came."""
        self._append(_Came((document,), tuple(removed)))

    def record_removed(self, numbers: list[int]) -> None:
        """Keep that documents went."""
        self._append(_Went(tuple(numbers)))

    def sync(self) -> None:
        """Return when all of it is on the disk."""
        if self._log is not None:
            self._log.sync()

    def close(self) -> None:
        """Keep no more documents."""
        if self._log is not None:
            self._log.sync()
            self._log.close()

    def _append(self, entry: _Came | _Went) -> None:
        if self._log is None or self._is_worn():
            self._renew()
        assert self._log is not None
        self._log.append_frame(_encode(entry))

    def _is_worn(self) -> bool:
        """Whether most of the file is about documents that are gone."""
        assert self._log is not None
        length = self._log.length
        return length > _MOST_BYTES and length > 2 * self._documents.stored_bytes

    def _renew(self) -> None:
        """Write what is there to a new file."""
        self._number += 1
        path = self._folder / _name(self._number)
        length = _write(path, self._documents)
        if self._log is not None:
            self._log.close()
        self._log = Log(path, length, sync=False)
        _sweep(self._folder)


def _differs(stored: Retention | None, now: Retention) -> bool:
    before = stored or Retention()
    return (before.count, before.age, before.by) != (now.count, now.age, now.by)


def _sweep(folder: Path) -> None:
    """Remove files that another makes superfluous, and unfinished ones."""
    newest = max(_numbers(folder), default=0)
    for path in folder.iterdir():
        found = _NAME.fullmatch(path.name)
        if found is not None and (found[2] or int(found[1]) < newest):
            # A reader may hold it; where a name cannot be removed, it is only in the way.
            with suppress(OSError):
                path.unlink()


def _numbers(folder: Path) -> list[int]:
    try:
        with storing(folder):
            found = (_NAME.fullmatch(path.name) for path in folder.iterdir())
            return [int(f[1]) for f in found if f is not None and not f[2]]
    except StorageError:
        return []


def _name(number: int) -> str:
    return f"documents-{number:08d}"
