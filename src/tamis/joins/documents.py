"""The documents seen before, in the order in which they came."""

from __future__ import annotations

import heapq
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from tamis.errors import EventError, UnknownDocumentError
from tamis.expr.event import Event, FlatEvent, flatten
from tamis.expr.joins.predicate import Join
from tamis.expr.model import is_unicode
from tamis.expr.names import JOINED
from tamis.expr.text.sql import join_of, parse
from tamis.joins.evaluate import Answers
from tamis.joins.ordered_index import AttributeIndex
from tamis.joins.prefilter import Demand, Watches
from tamis.joins.retention import Retention

__all__ = ["DocumentId", "DocumentJournal", "Documents", "StoredDocument"]

DocumentId: TypeAlias = str | int
"""A string that the user gave, or the number that Tamis did."""


class StoredDocument(NamedTuple):
    """A document as it is kept."""

    number: int
    came: float
    """When, in seconds since 1970."""
    id: str | None
    """The one that the user gave."""
    encoded: bytes
    """Its attributes in MessagePack."""


class DocumentJournal(Protocol):
    """Keeps documents."""

    def added(self, document: StoredDocument, removed: list[int]) -> None:
        """Keep a document, and that others went when it came; if it raises, nothing is kept."""

    def removed(self, numbers: list[int]) -> None:
        """Keep that documents went."""

    def sync(self) -> None:
        """Return when all of it is safe from the end of the machine, too."""


class Documents:
    """The documents seen before, which the join predicates of rules speak of.

    Any number of threads may use it at once. A document's id is a string that the user gave, or
    else a number, which rises from document to document.

    Parameters
    ----------
    retention
        Which documents go by themselves; without it all stay.
    read
        Makes a document of an event.
    """

    def __init__(
        self,
        retention: Retention | None = None,
        read: Callable[[Event], FlatEvent] = flatten,
    ) -> None:
        self.retention = retention or Retention()
        self._read = read
        self.new_locks()
        self._journal: DocumentJournal | None = None
        self.check_writable: Callable[[], None] = _anybody_may_write
        """Raises if no document may come or go."""
        self.evaluated = 0
        """How many join predicates were evaluated."""
        self.spared = 0
        """How many were not, as no rule could match for them."""
        self._clear()

        _stores.add(self)

    def new_locks(self) -> None:
        """Have locks that nobody holds: in a forked child others may be held for ever."""
        self.lock = threading.RLock()
        """Held while something is looked up, or changed."""
        self.publishing = threading.Lock()
        """Held from the match of an event until it is remembered."""

    def _clear(self) -> None:
        self._encoded: dict[int, bytes] = {}
        self._bytes = 0
        self._came: dict[int, float] = {}
        """Of documents that are kept in a directory."""
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._indexes: dict[str, AttributeIndex] = {}
        self._by_age: list[tuple[float, int]] = []
        """A heap of times and numbers, where there is an age to reach; some of them are gone."""
        self.oldest = self.next = 0
        self._answers = Answers(self)
        self._asked: dict[str, Callable[[FlatEvent], bool | None]] = {}
        """What answers each join predicate."""
        self._watches = Watches(self)

    # --- What users call ---

    def add(self, document: Event, *, id: str | None = None) -> DocumentId:
        """Remember a document without matching it, and return its id.

        Parameters
        ----------
        document
            Attributes and their values.
        id
            Its id; a document of the same id goes. Without it, the document gets a number.
        """
        return self.remember(self._read(document), id)

    def add_many(self, documents: Iterable[Event]) -> int:
        """Remember many documents, and return how many."""
        count = 0
        for document in documents:
            self.remember(self._read(document), None)
            count += 1
        return count

    def remove(self, id: DocumentId) -> None:
        """Forget a document.

        Raises
        ------
        UnknownDocumentError
            There is no document of that id.
        """
        self.check_writable()
        with self.lock:
            number = self._number_of(id)
            if number is None:
                raise UnknownDocumentError(f"there is no document {id!r}")
            if self._journal is not None:
                self._journal.removed([number])
            self._drop(number)

    def clear(self) -> None:
        """Forget all documents; numbers go on."""
        self.check_writable()
        with self.lock:
            if self._journal is not None:
                self._journal.removed(list(self._encoded))
            following = self.next
            self._clear()
            self.oldest = self.next = following

    def expire(self) -> int:
        """Forget the documents that are too old by now, and return how many.

        Nobody needs to call it: no answer takes them into account.
        """
        with self.lock:
            expired = self._expired()
            if expired:
                if self._journal is not None:
                    self._journal.removed(expired)
                for number in expired:
                    self._drop(number)
            return len(expired)

    def bits(self, join: str, event: Event) -> list[bool]:
        """Which documents satisfy what a join predicate asks of each, in the order of their coming.

        Parameters
        ----------
        join
            The predicate's text.
        event
            The new document.
        """
        flat = self._read(event)
        with self.lock:
            self._forget_expired()
            found: list[bool] = self._answers.bits(_parsed(join), flat).tolist()
            return found

    def sync(self) -> None:
        """Return when all documents are on the disk, if they are kept in a directory."""
        with self.lock:
            if self._journal is not None:
                self._journal.sync()

    def stats(self) -> dict[str, int]:
        """Numbers about the documents, and about the join predicates that were asked.

        ``evaluated`` predicates took a look at documents; ``spared`` ones did not, since nothing
        depended on them; ``ruled_out`` are those that no event can satisfy now.
        """
        with self.lock:
            return {
                "documents": len(self._encoded),
                "indexed_attributes": len(self._indexes),
                "evaluated": self.evaluated,
                "spared": self.spared,
                "ruled_out": len(self._watches.out),
            }

    def __len__(self) -> int:
        return len(self._encoded)

    def __contains__(self, id: object) -> bool:
        return self._number_of(id) is not None

    def __iter__(self) -> Iterator[DocumentId]:
        """The ids of all documents, oldest first."""
        with self.lock:
            return iter([self._names.get(number, number) for number in self._encoded])

    def __getitem__(self, id: DocumentId) -> dict[str, Any]:
        """A document: its attributes, each with a value or a list of values."""
        with self.lock:
            number = self._number_of(id)
            if number is None:
                raise UnknownDocumentError(f"there is no document {id!r}")
            document = self.document(number)
        return {name: v[0] if len(v) == 1 else v for name, v in document.items()}

    def __repr__(self) -> str:
        return f"<tamis.Documents: {len(self):,}>"

    # --- What a Matcher calls ---

    def remember(self, document: FlatEvent, id: str | None) -> DocumentId:
        """Take a document that was read before."""
        if id is not None and not (isinstance(id, str) and is_unicode(id)):
            raise EventError(f"a document's id is a string, not {id!r}")
        self.check_writable()
        encoded = _encode(document)
        with self.lock:
            number, came = self.next, 0.0
            if self._keeps_time:
                came = self.retention.clock()
            going = self._going(id)
            if self._journal is not None:
                self._journal.added(StoredDocument(number, came, id, encoded), going)
            for gone in going:
                self._drop(gone)
            if self.retention.count != 0:
                self._take(number, came, id, encoded, document)
            self.next = number + 1
            return number if id is None else id

    def restore(self, documents: Iterable[StoredDocument], following: int) -> None:
        """Have these documents in the place of all others; `following` is the next number."""
        with self.lock:
            self._clear()
            for document in documents:
                self.oldest = document.number if not self._encoded else self.oldest
                self._take(*document, _decode(document.encoded))
                self.next = document.number + 1
            self.next = max(self.next, following)
            self.oldest = self.oldest if self._encoded else self.next

    def keep_in(self, journal: DocumentJournal) -> None:
        """Have all changes from now on kept by `journal`."""
        self._journal = journal
        self.expire()

    def stored(self) -> list[StoredDocument]:
        """All documents as they are kept."""
        with self.lock:
            now = self.retention.clock()
            return [
                StoredDocument(number, self._came.get(number, now), self._names.get(number), code)
                for number, code in self._encoded.items()
            ]

    def truth(self, name: str, event: FlatEvent) -> bool | None:
        """What the attribute of a join predicate is for an event; None where it is unknown."""
        self.evaluated += 1
        return (self._asked.get(name) or self._ask(name))(event)

    def _ask(self, name: str) -> Callable[[FlatEvent], bool | None]:
        ask = self._asked[name] = self._answers.compiled(join_of(name))
        return ask

    def joined(self, names: Iterable[str], event: FlatEvent) -> dict[str, bool]:
        """The attributes of join predicates for an event, but for those that are unknown."""
        with self.lock:
            self._forget_expired()
            found = {name: self.truth(name, event) for name in names}
        return {name: truth for name, truth in found.items() if truth is not None}

    def demanded(
        self, names: Iterable[str], demands: Mapping[str, Demand], event: FlatEvent
    ) -> dict[str, bool]:
        """As `joined`, for predicates of which it is known what rules make of them.

        One that the pre-filter rules out is false, or as good as that.
        """
        found: dict[str, bool] = {}
        with self.lock:
            self._forget_expired()
            # Others may have been watched since.
            asked = self._asked
            is_watched = demands is self._watches.demands and self._watches.out
            for name in names:
                if is_watched and self._watches.rules_out(name, event):
                    self.spared += 1
                    found[name] = False
                    continue
                self.evaluated += 1
                truth = (asked.get(name) or self._ask(name))(event)
                if truth is not None:
                    found[name] = truth
        return found

    def watch(self, demands: Mapping[str, Demand]) -> None:
        """Keep the pre-filter up to date for these, and for no others."""
        with self.lock:
            self._watches.watch(demands)

    @property
    def stored_bytes(self) -> int:
        """About how many bytes the documents take in a file."""
        return self._bytes + _OVERHEAD * len(self._encoded)

    # --- What answers are made from ---

    def index(self, attribute: str) -> AttributeIndex:
        """The index of an attribute, which is made when it is first asked for."""
        found = self._indexes.get(attribute)
        if found is None:
            found = AttributeIndex()
            having = ((number, self.document(number)) for number in self._encoded)
            found.fill((n, flat[attribute]) for n, flat in having if attribute in flat)
            self._indexes[attribute] = found
        return found

    def document(self, number: int) -> FlatEvent:
        """The document of that number."""
        return _decode(self._encoded[number])

    def numbers(self) -> Iterator[int]:
        """The numbers of all documents, rising."""
        return iter(self._encoded)

    # --- Coming and going ---

    @property
    def _keeps_time(self) -> bool:
        """Whether it is of interest when documents came."""
        return self._journal is not None or self.retention.age is not None

    def _take(
        self, number: int, came: float, id: str | None, encoded: bytes, document: FlatEvent
    ) -> None:
        self._encoded[number] = encoded
        self._bytes += len(encoded)
        if self._keeps_time:
            self._came[number] = came
        if id is not None:
            self._names[number] = id
            self._numbers[id] = number
        for attribute, index in self._indexes.items():
            values = document.get(attribute)
            if values is not None:
                index.add(number, values)
        self._watches.added(number, document)
        if self.retention.age is not None:
            moment = self.retention.moment(document, came)
            heapq.heappush(self._by_age, (moment, number))

    def _drop(self, number: int) -> None:
        encoded = self._encoded.pop(number)
        self._bytes -= len(encoded)
        self._came.pop(number, None)
        name = self._names.pop(number, None)
        if name is not None:
            del self._numbers[name]
        if self._indexes:
            document = _decode(encoded)
            for attribute, index in self._indexes.items():
                values = document.get(attribute)
                if values is not None:
                    index.remove(number, values)
        while self.oldest < self.next and self.oldest not in self._encoded:
            self.oldest += 1
        self._watches.removed(number)

    def _going(self, id: str | None) -> list[int]:
        """The documents that go when one of that id comes."""
        if id is None and self.retention.count is None and self.retention.age is None:
            return []
        going = dict.fromkeys(self._expired())
        if id is not None and id in self._numbers:
            going[self._numbers[id]] = None
        count = self.retention.count
        if count is not None:
            number = self.oldest
            while len(self._encoded) - len(going) >= max(count, 1):
                if number in self._encoded:
                    going[number] = None
                number += 1
        return list(going)

    def _expired(self) -> list[int]:
        if self.retention.age is None:
            return []
        horizon = self.retention.clock() - self.retention.age
        expired = []
        while self._by_age and self._by_age[0][0] < horizon:
            _, number = heapq.heappop(self._by_age)
            if number in self._encoded:
                expired.append(number)
        return expired

    def _forget_expired(self) -> None:
        if self.retention.age is not None:
            self.expire()

    def _number_of(self, id: object) -> int | None:
        if isinstance(id, str):
            return self._numbers.get(id)
        is_number = isinstance(id, int) and not isinstance(id, bool) and id not in self._names
        return id if is_number and id in self._encoded else None


def _anybody_may_write() -> None:
    """What is in memory may be changed."""


_OVERHEAD = 48
"""About how many bytes a document takes in a file besides its attributes."""

_encode = msgspec.msgpack.encode
_decode: Callable[[bytes], FlatEvent] = msgspec.msgpack.decode


def _parsed(text: str) -> Join:
    read = parse(text)
    name = getattr(read, "attribute", "")
    if not name.startswith(JOINED):
        raise EventError(f"{text!r} is no join predicate: EXISTS, or a comparison with ANY or ALL")
    return join_of(name)


_stores: weakref.WeakSet[Documents] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.new_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
