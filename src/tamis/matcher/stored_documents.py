"""Connects the documents of a matcher with the directory in which it is stored."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable

from tamis.errors import StorageError
from tamis.joins.ages import UNKNOWN
from tamis.joins.document_store import DocumentStore
from tamis.matcher.storage.document_file import DocumentFile, DocumentState, read_documents
from tamis.matcher.storage.store import Store

__all__ = ["StoredDocuments"]


class StoredDocuments:
    """Restores the documents of a directory, and writes or follows their changes.

    A writer appends every change to the directory's document file. A reader sees the documents
    as they were when it opened the directory, or at its last `refresh`.

    Parameters
    ----------
    documents
        The documents in memory; still empty.
    store
        The directory.
    """

    def __init__(self, documents: DocumentStore, store: Store) -> None:
        self._documents = documents
        self._store = store
        self._file: DocumentFile | None = None
        self._seen: tuple[int, int] | None = None
        """The number of the file that was read last, and its length at that time."""
        documents.check_writable = _make_check(store)
        if store.read_only:
            self.refresh()
            return
        state = read_documents(store.folder, accept_loss=not store.verify)
        if state is not None:
            self._restore(state)
        self._file = DocumentFile(store.folder, documents, state)
        documents.attach_journal(self._file)
        store.close_documents = weakref.WeakMethod(self.close)

    def refresh(self) -> bool:
        """Read the documents again if a writer has changed them; returns whether it has."""
        if not self._store.read_only:
            return False
        state = read_documents(self._store.folder, accept_loss=not self._store.verify)
        if state is None or (state.number, state.length) == self._seen:
            return False
        self._seen = (state.number, state.length)
        self._restore(state)
        return True

    def _restore(self, state: DocumentState) -> None:
        stored, newest = list(state.documents.values()), -math.inf
        retention = self._documents.retention
        if retention.by_events:
            if state.retention is not None and state.retention.by == retention.by:
                newest = state.newest
            else:  # the clock said when they came, and now the time is that of the events
                stored = [document._replace(came=UNKNOWN) for document in stored]
        self._documents.restore(stored, state.following, newest)

    def close(self) -> None:
        """Flush the document file to the disk and close it."""
        if self._file is not None:
            with self._documents.lock:
                self._documents.complete()
                self._file.close()


def _make_check(store: Store) -> Callable[[], None]:
    """Make a function that raises if the directory cannot be written.

    It does not keep the store alive. Documents are part of reference cycles, and the lock of a
    matcher that goes out of use has to be released before the garbage collector finds these.
    """
    reference, path = weakref.ref(store), str(store.folder)

    def check_writable() -> None:
        alive = reference()
        if alive is None:
            raise StorageError("nothing can be changed: it was closed", path=path)
        alive.check_writable()

    return check_writable
