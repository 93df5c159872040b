"""The documents seen before, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tamis.errors import EventError
from tamis.expr.event import Event, FlatEvent, flatten
from tamis.expr.joins.predicate import Join
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Value, is_unicode
from tamis.expr.names import JOINED, RECEIVED_BY
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.grammar import parse
from tamis.joins.document_store import DocumentId, DocumentStore
from tamis.joins.retention import Retention

__all__ = ["Documents", "check_receivers"]


class Documents:
    """The documents seen before, which the join predicates of rules compare an event with.

    Any number of threads may use it at once. A document's id is a string given by the user, or
    else a number, which rises from document to document.

    Parameters
    ----------
    retention
        Which documents expire; by default none do.
    read
        Flattens an event.
    store
        Documents to show; by default there are none at first.
    owner
        Kept alive as long as this object, such as the lock of a directory.
    """

    def __init__(
        self,
        retention: Retention | None = None,
        read: Callable[[Event], FlatEvent] = flatten,
        *,
        store: DocumentStore | None = None,
        owner: object = None,
    ) -> None:
        self._store = DocumentStore(retention) if store is None else store
        self._read = read
        self._owner = owner

    @property
    def retention(self) -> Retention:
        """Which documents expire."""
        return self._store.retention

    def add(
        self, document: Event, *, id: str | None = None, received_by: Iterable[str] = ()
    ) -> DocumentId:
        """Remember a document without matching it, and return its id.

        Parameters
        ----------
        document
            Attributes and their values.
        id
            Its id; it replaces a document of the same id. By default the document gets a number.
        received_by
            The names of the subscriptions that received it.

        Raises
        ------
        EventError
            The document, its id or the name of a subscription is refused.
        """
        flat, receivers = self._read(document), check_receivers(received_by)
        with self._store.publishing:
            return self._store.add(flat, id, receivers)

    def received_by(self, id: DocumentId) -> frozenset[str]:
        """Get the names of the subscriptions that received a document.

        Raises
        ------
        UnknownDocumentError
            There is no document of that id.
        """
        return frozenset(self._store.find_receivers(id))

    def add_many(self, documents: Iterable[Event]) -> int:
        """Remember many documents, and return how many."""
        count = 0
        for document in documents:
            self.add(document)
            count += 1
        return count

    def remove(self, id: DocumentId) -> None:
        """Forget a document.

        Raises
        ------
        UnknownDocumentError
            There is no document of that id.
        """
        with self._store.publishing:
            self._store.remove(id)

    def clear(self) -> None:
        """Forget all documents; numbers continue."""
        with self._store.publishing:
            self._store.clear()

    def expire(self) -> int:
        """Forget the documents that are past their age, and return how many.

        Answers never take them into account, so this only frees memory.
        """
        return self._store.expire()

    def bits(self, join: str, event: Event) -> list[bool]:
        """Which documents, oldest first, satisfy the condition of a join predicate.

        Parameters
        ----------
        join
            The predicate's text.
        event
            The new document.

        Raises
        ------
        EventError
            The text is not a join predicate.
        """
        return self._store.bits(_parse_join(join), self._read(event))

    def sync(self) -> None:
        """Return once all documents are on the disk, if they are stored in a directory."""
        self._store.sync()

    def stats(self) -> dict[str, int]:
        """Numbers about the documents and the evaluation of join predicates.

        ``evaluated`` counts predicates that were evaluated over documents; ``spared`` those that
        were not, since nothing depended on them; ``ruled_out`` those that no event can satisfy now,
        and ``ruled_out_rules`` the rules that no event with single values can satisfy now.
        ``clock_faults`` counts how often the clock had gone back, or a document's own time lay too
        far ahead of it.
        """
        return self._store.stats()

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, id: object) -> bool:
        return id in self._store

    def __iter__(self) -> Iterator[DocumentId]:
        """The ids of all documents, oldest first."""
        return iter(self._store.ids())

    def __getitem__(self, id: DocumentId) -> dict[str, Any]:
        """A document: its attributes, each with a value or a list of values.

        Raises
        ------
        UnknownDocumentError
            There is no document of that id.
        """
        document = self._store.find(id)
        plain = {name: [_plain(value) for value in values] for name, values in document.items()}
        plain.pop(RECEIVED_BY, None)
        return {name: v[0] if len(v) == 1 else v for name, v in plain.items()}

    def __repr__(self) -> str:
        return f"<tamis.Documents: {len(self):,}>"


def check_receivers(names: Iterable[str]) -> list[str]:
    """Check the names of subscriptions, and return them.

    Raises
    ------
    EventError
        They are not a list of non-empty strings.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise EventError(f"received_by is a list of names of subscriptions, not {names!r}")
    checked = list(names)
    for name in checked:
        if not isinstance(name, str) or not name or not is_unicode(name):
            raise EventError(f"a subscription's name is a non-empty string, not {name!r}")
    return checked


def _plain(value: Value) -> Any:
    """A value as users give it."""
    return value.decimal if isinstance(value, LongDecimal) else value


def _parse_join(text: str) -> Join:
    name = getattr(parse(text), "attribute", "")
    if not name.startswith(JOINED):
        raise EventError(
            f"{text!r} is not a join predicate: write EXISTS, or a comparison with ANY or ALL"
        )
    join = join_named(name)
    if join.received:
        raise EventError("FROM received belongs to a rule of a subscription; write FROM seen")
    return join
