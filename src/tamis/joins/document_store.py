"""Documents in the order they came, with ordered indexes and the evaluation of join predicates."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from tamis.deadline import check_time
from tamis.errors import EventError, UnknownDocumentError
from tamis.expr.event import FlatEvent, require_readable
from tamis.expr.joins.predicate import Join
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Value, is_unicode
from tamis.expr.names import RECEIVED_BY
from tamis.expr.numbers import LongDecimal
from tamis.forks import call_in_child, hold_during_forks
from tamis.joins.ages import Ages
from tamis.joins.evaluate import JoinEvaluator, condition_of, list_selections
from tamis.joins.ordered_index import AttributeIndex
from tamis.joins.prefilter import JoinUsage, Prefilter
from tamis.joins.retention import Retention
from tamis.joins.selected_documents import Selections, Tests
from tamis.joins.windows import Windows

__all__ = [
    "DocumentId",
    "DocumentJournal",
    "DocumentListener",
    "DocumentStore",
    "JoinAttributes",
    "StoredDocument",
    "decode_flat",
    "encode_flat",
]

DocumentId: TypeAlias = str | int
"""A string given by the user, or a number given by Tamis."""


JoinAttributes: TypeAlias = dict[str, list[Value]]
"""Join attributes with their values: true or false, or the value of an aggregate."""

_Evaluate: TypeAlias = Callable[[FlatEvent], Any]
"""The truth of a join predicate or the values of an aggregate; None where it is unknown."""

_AS_VALUES: tuple[list[Value], list[Value]] = ([False], [True])
"""A truth as the values of an attribute; shared, so never changed."""


class StoredDocument(NamedTuple):
    """A document as it is stored."""

    number: int
    came: float
    """When it came, in seconds since 1970."""
    id: str | None
    """The user's id, if there is one."""
    encoded: bytes
    """Its attributes in MessagePack."""


class DocumentJournal(Protocol):
    """Makes changes of a `DocumentStore` durable."""

    def record_added(self, document: StoredDocument, removed: list[int]) -> None:
        """Record a new document and the numbers of those that are removed, maybe its own.

        If it raises, nothing changes.
        """

    def record_changed(self, documents: Sequence[StoredDocument]) -> None:
        """Record that documents have other times."""

    def record_removed(self, numbers: list[int]) -> None:
        """Record that documents were removed."""

    def confirm(self) -> None:
        """Keep the last record. Without this call the next record takes its place."""

    def sync(self) -> None:
        """Return once everything recorded survives a crash of the machine."""


class DocumentListener(Protocol):
    """Is told about all documents, with the lock."""

    def fill(self, index: Callable[[str], AttributeIndex]) -> None:
        """Begin anew, with the documents of these indexes."""

    def count_ruled_out(self) -> int:
        """How many rules no event can satisfy now."""

    def add(self, document: FlatEvent) -> None:
        """Take note of a new document."""

    def remove(self, document: FlatEvent) -> None:
        """Take note that a document was removed."""


class _Change(NamedTuple):
    """What a change removes and adds."""

    removed: list[int]
    added: StoredDocument | None
    following: int
    """The next number then."""
    documents: tuple[StoredDocument, ...] | None = None
    """All documents then, where they have to be inserted anew."""


class DocumentStore:
    """Documents by number, with ordered indexes and the evaluation of join predicates.

    Any number of threads may use it at once. Numbers rise from document to document.

    Parameters
    ----------
    retention
        Which documents expire; by default none do.

    Attributes
    ----------
    oldest, next
        No document has a number below `oldest`; the next one gets `next`.
    check_writable
        Raises if documents may not be added or removed.
    evaluated
        How many join predicates were evaluated.
    spared
        How many were not, because no rule could match by them.
    """

    def __init__(self, retention: Retention | None = None) -> None:
        self._ages = Ages(retention or Retention())
        self.check_writable: Callable[[], None] = lambda: None
        self.evaluated = 0
        self.spared = 0
        self._journal: DocumentJournal | None = None
        self._load: Callable[[], tuple[Iterable[StoredDocument], int]] | None = None
        """Loads the documents when they are first needed; None once they are here."""
        self._change: _Change | None = None
        """A change that the journal has recorded, and that memory may have in part."""
        self._create_locks()
        self._reset()
        _stores.add(self)

    @property
    def retention(self) -> Retention:
        """Which documents expire."""
        return self._ages.retention

    @retention.setter
    def retention(self, retention: Retention) -> None:
        self._ages.retention = retention

    @property
    def newest(self) -> float:
        """The newest time so far, where documents have an age."""
        return self._ages.newest

    @property
    def clock_faults(self) -> int:
        """How many times a clock had gone back, or a document's own time was not believed."""
        return self._ages.faults

    def _create_locks(self) -> None:
        self.lock = threading.RLock()
        """Held during each look-up and each change."""
        hold_during_forks(self.lock, rank=1)
        self.publishing = threading.RLock()
        """Held from the match of an event until it is added, and by all changes of documents: none
        comes between the two."""

    def _reset(self) -> None:
        self._encoded: dict[int, bytes] = {}
        self._bytes = 0
        self._ids: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._indexes: dict[str, AttributeIndex] = {}
        self._ages.clear()
        self.oldest = self.next = 0
        self._evaluator = JoinEvaluator(self)
        self._evaluators: dict[str, _Evaluate] = {}
        """By join attribute."""
        self._prefilter = Prefilter(self)
        self._listeners: tuple[DocumentListener, ...] = ()
        self._selections = Selections(self)
        self._windows = Windows(self)

    # --- Documents come and go ---

    def add(
        self, document: FlatEvent, id: str | None = None, received_by: Iterable[str] = ()
    ) -> DocumentId:
        """Add a document and return its id.

        Parameters
        ----------
        document
            The flattened document.
        id
            The user's id; it replaces a document of the same id.
        received_by
            The subscriptions that receive it.
        """
        if id is not None and not (isinstance(id, str) and is_unicode(id)):
            raise EventError(f"a document's id must be a string, not {id!r}")
        self.check_writable()
        encoded = encode_flat(document, received_by)
        with self.lock:
            self.complete()
            number, came = self.next, 0.0
            if self._keeps_time:
                self._ages.note_event(document)
                came = self._ages.read_clock()
            self._append(StoredDocument(number, came, id, encoded))
            return number if id is None else id

    def append(self, added: StoredDocument) -> None:
        """Add a document that is stored elsewhere; its number is not below `next`."""
        with self.lock:
            self.complete()
            self._append(added)

    def _append(self, added: StoredDocument) -> None:
        document = decode_flat(added.encoded)
        if self.retention.age is not None:
            self._ages.judge(document, added.came)
            added = added._replace(came=self._ages.stamp(document, added.came))
        is_kept, removed = self._find_displaced(added, document)
        if self._journal is not None:
            self._journal.record_added(added, removed if is_kept else [*removed, added.number])
        following = added.number + 1
        self._change = _Change(removed, added if is_kept else None, following)
        self._drop_all(removed)
        if is_kept:
            self._insert(*added, document)
        self.next = following
        self._confirm()

    def note_event(self, event: FlatEvent) -> None:
        """Take note of the time of an event before it is matched, because it is being published."""
        if self.retention.by_events:
            with self.lock:
                self.complete()
                self._ages.note_event(event)

    def remove(self, id: DocumentId) -> None:
        """Remove a document, or raise UnknownDocumentError."""
        self.check_writable()
        with self.lock:
            self.complete()
            self._remove([self._find_number(id)])

    def clear(self) -> None:
        """Remove all documents; numbers continue."""
        self.check_writable()
        with self.lock:
            self.complete()
            self._record_removed(list(self._encoded))
            self._rebuild((), self.next)
            self._confirm()

    def expire(self) -> int:
        """Remove the documents that retention no longer keeps, and return how many."""
        with self.lock:
            self.complete()
            expired: dict[int, None] = dict.fromkeys(self._find_past())
            self._leave(expired, self.retention.count)
            if expired:
                self._remove(list(expired))
            return len(expired)

    def forget_before(self, number: int) -> None:
        """Remove the documents below a number, unless none are loaded yet."""
        with self.lock:
            if self._load is None:
                self.complete()
                old = [known for known in self._encoded if known < number]
                if old:
                    self._remove(old)

    def _remove(self, numbers: list[int]) -> None:
        self._record_removed(numbers)
        self._drop_all(numbers)
        self._confirm()

    def _record_removed(self, numbers: list[int]) -> None:
        if self._journal is not None:
            self._journal.record_removed(numbers)
        self._change = _Change(numbers, None, self.next)

    def _confirm(self) -> None:
        """Have the journal keep the record of the change, which is complete."""
        if self._journal is not None:
            self._journal.confirm()
        self._change = None

    def complete(self) -> None:
        """Complete a change that an exception interrupted, whatever is half done.

        An exception may come at any line, such as KeyboardInterrupt. Until a change is recorded it
        has no effect, and from then on it has its whole effect: the next user of the documents
        calls this first, with the lock.
        """
        if self._load is not None:
            documents, following = self._load()
            self._ages.newest = -math.inf
            self._change = _Change([], None, following, tuple(documents))
            self._load = None
        change = self._change
        if change is None:
            return
        if change.documents is None:
            # Before anything is forgotten, because this may be interrupted, too.
            change = self._change = change._replace(documents=self._list_documents_after(change))
        assert change.documents is not None
        self._rebuild(change.documents, change.following)
        self._confirm()

    def _list_documents_after(self, change: _Change) -> tuple[StoredDocument, ...]:
        """All documents as they are once a change is complete."""
        added = () if change.added is None else (change.added,)
        gone = {*change.removed, *(document.number for document in added)}
        others = (self._stored(number) for number in self._encoded if number not in gone)
        return (*others, *added)

    def restore(
        self, documents: Iterable[StoredDocument], following: int, newest: float = -math.inf
    ) -> None:
        """Replace all documents.

        Parameters
        ----------
        documents, following
            The documents, and the number of the next one.
        newest
            The newest time of earlier documents, if it is known.
        """
        with self.lock:
            self._ages.newest = newest
            self._change = _Change([], None, following, tuple(documents))
            self.complete()

    def load_later(self, load: Callable[[], tuple[Iterable[StoredDocument], int]]) -> None:
        """Forget all documents; `load` returns them and the next number when they are needed."""
        with self.lock:
            self._change = None
            self._load = load

    @property
    def is_loaded(self) -> bool:
        """Whether the documents are in memory; see `load_later`."""
        return self._load is None

    def _rebuild(self, documents: Iterable[StoredDocument], following: int) -> None:
        """Forget everything, and insert these documents."""
        self._reset()
        for document in documents:
            self._insert(*document, decode_flat(document.encoded))
        self.next = max(self.next, following)
        self.oldest = self.oldest if self._encoded else self.next

    def attach_journal(self, journal: DocumentJournal) -> None:
        """Record all changes from now on in `journal`."""
        self._journal = journal
        self.expire()

    def sync(self) -> None:
        """Return once all changes are on the disk, if there is a journal."""
        with self.lock:
            if self._journal is not None:
                self._journal.sync()

    # --- Look-ups ---

    def __len__(self) -> int:
        with self.lock:
            self.complete()
            return len(self._encoded)

    def __contains__(self, id: object) -> bool:
        with self.lock:
            self.complete()
            return self._number_of(id) is not None

    def ids(self) -> list[DocumentId]:
        """The ids of all documents, oldest first."""
        with self.lock:
            self.complete()
            return [self._ids.get(number, number) for number in self._encoded]

    def find(self, id: DocumentId) -> FlatEvent:
        """The document of that id, or UnknownDocumentError."""
        with self.lock:
            self.complete()
            return self.document(self._find_number(id))

    def find_receivers(self, id: DocumentId) -> list[str]:
        """The subscriptions that received the document of that id, or UnknownDocumentError."""
        return [str(name) for name in self.find(id).get(RECEIVED_BY, ())]

    def stored_documents(self) -> list[StoredDocument]:
        """All documents as they are stored, oldest first."""
        with self.lock:
            self.complete()
            now = self._ages.read_clock()
            return [self._stored(number, now) for number in self._encoded]

    def _stored(self, number: int, now: float = 0.0) -> StoredDocument:
        """A document as it is stored; it comes now if nothing needed to know when it came."""
        came = self._ages.came.get(number, now)
        return StoredDocument(number, came, self._ids.get(number), self._encoded[number])

    @property
    def stored_bytes(self) -> int:
        """About how many bytes the documents take in a file."""
        return self._bytes + _OVERHEAD * len(self._encoded)

    def stats(self) -> dict[str, int]:
        """See `Documents.stats`."""
        with self.lock:
            self.complete()
            return {
                "documents": len(self._encoded),
                "indexed_attributes": len(self._indexes),
                "evaluated": self.evaluated,
                "spared": self.spared,
                "ruled_out": len(self._prefilter.ruled_out),
                "ruled_out_rules": sum(some.count_ruled_out() for some in self._listeners),
                "clock_faults": self.clock_faults,
            }

    # --- What the evaluator and the pre-filter read ---

    def index(self, attribute: str) -> AttributeIndex:
        """The index of an attribute, built at the first call."""
        index = self._indexes.get(attribute)
        if index is None:
            index = AttributeIndex()
            documents = ((number, self.document(number)) for number in self._encoded)
            index.fill((n, flat[attribute]) for n, flat in documents if attribute in flat)
            self._indexes[attribute] = index
        return index

    def document(self, number: int) -> FlatEvent:
        """The document of that number."""
        return decode_flat(self._encoded[number])

    def numbers(self) -> Iterator[int]:
        """The numbers of all documents, rising."""
        return iter(self._encoded)

    def select(self, tests: Tests) -> JoinEvaluator | None:
        """The evaluator over the documents that satisfy `tests`, if there is room for it."""
        return self._selections.find(tests, self._evaluator)

    # --- Join predicates ---

    def _compile(self, name: str) -> _Evaluate:
        join = join_named(name)
        compiled: _Evaluate
        if join.aggregate is None:
            compiled = self._evaluator.compile(join)
        else:
            compiled = self._windows.compile(join, self._evaluator)
        self._evaluators[name] = compiled
        return compiled

    def evaluate_joins(self, names: Iterable[str], event: FlatEvent) -> JoinAttributes:
        """The values of join attributes, without those that are unknown."""
        return self.evaluate_used_joins(names, {}, event)

    def evaluate_used_joins(
        self, names: Iterable[str], usages: Mapping[str, JoinUsage], event: FlatEvent
    ) -> JoinAttributes:
        """As `evaluate_joins`, for join predicates whose use in the rules is known.

        A predicate that the pre-filter rules out counts as false: no rule matches by it.
        """
        found: JoinAttributes = {}
        with self.lock:
            self.complete()
            self._forget_expired()
            evaluators = self._evaluators
            # Another thread may have watched others since.
            is_watched = usages is self._prefilter.usages and self._prefilter.ruled_out
            for name in names:
                if is_watched and self._prefilter.rules_out(name, event):
                    self.spared += 1
                    found[name] = _AS_VALUES[False]
                    continue
                self.evaluated += 1
                check_time()
                answer = (evaluators.get(name) or self._compile(name))(event)
                if answer is not None:
                    is_truth = answer is True or answer is False
                    found[name] = _AS_VALUES[answer] if is_truth else answer
        return found

    def listen(self, listeners: Sequence[DocumentListener]) -> None:
        """Keep these listeners up to date, and no others."""
        with self.lock:
            self.complete()
            for listener in listeners:
                if all(listener is not known for known in self._listeners):
                    listener.fill(self.index)
            self._listeners = tuple(listeners)

    def is_heard_by(self, listener: DocumentListener) -> bool:
        """Whether a listener is up to date; call it with the lock."""
        return any(listener is known for known in self._listeners)

    def watch(self, usages: Mapping[str, JoinUsage]) -> None:
        """Keep the pre-filter up to date for these join predicates, and for no others."""
        with self.lock:
            self.complete()
            self._prefilter.watch(usages)
            if self._selections:
                used = chain.from_iterable(list_selections(join_named(name)) for name in usages)
                self._selections.keep(set(used))
            if self._windows:
                self._windows.keep(join_named(name) for name in usages)

    def bits(self, join: Join, event: FlatEvent) -> list[bool]:
        """Whether each document, oldest first, satisfies the condition of a join predicate."""
        with self.lock:
            self.complete()
            self._forget_expired()
            bits: list[bool] = self._evaluator.bits(join, event).tolist()
            return bits

    def find_counted(self, join: Join, event: FlatEvent) -> list[DocumentId]:
        """The ids of the documents that satisfy the condition of a join predicate."""
        with self.lock:
            self.complete()
            self._forget_expired()
            numbers = self._evaluator.find_numbers(condition_of(join), event)
            return [self._ids.get(number, number) for number in numbers]

    @contextmanager
    def held(self) -> Iterator[None]:
        """No documents come or go meanwhile, and no time passes for them."""
        with self.lock:
            self.complete()
            self._forget_expired()
            try:
                self._ages.fix(True)
                yield
            finally:
                self._ages.fix(False)

    def copy_documents(self, most: int) -> list[bytes] | None:
        """All documents as they are, for `decode_flat`; None if there are more than `most`."""
        with self.lock:
            self.complete()
            self._forget_expired()
            return list(self._encoded.values()) if len(self._encoded) <= most else None

    # --- Inside ---

    @property
    def _keeps_time(self) -> bool:
        return self._journal is not None or self.retention.age is not None

    def _insert(
        self, number: int, came: float, id: str | None, encoded: bytes, document: FlatEvent
    ) -> None:
        if not self._encoded:
            self.oldest = number
        self.next = number + 1
        self._encoded[number] = encoded
        self._bytes += len(encoded)
        if self._keeps_time:
            self._ages.add(number, came, document)
        if id is not None:
            self._ids[number] = id
            self._numbers[id] = number
        for attribute, index in self._indexes.items():
            values = document.get(attribute)
            if values is not None:
                index.add(number, values)
        self._selections.add(number, document)
        self._windows.add(number, document)
        for listener in self._listeners:
            listener.add(document)
        self._prefilter.add(number, document)

    def _drop_all(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._drop(number)

    def _drop(self, number: int) -> None:
        encoded = self._encoded.pop(number)
        self._bytes -= len(encoded)
        self._ages.remove(number)
        id = self._ids.pop(number, None)
        if id is not None:
            del self._numbers[id]
        if self._indexes or self._windows or self._listeners:
            document = decode_flat(encoded)
            for attribute, index in self._indexes.items():
                values = document.get(attribute)
                if values is not None:
                    index.remove(number, values)
            self._selections.remove(number, document)
            self._windows.remove(number, document)
            for listener in self._listeners:
                listener.remove(document)
        while self.oldest < self.next and self.oldest not in self._encoded:
            self.oldest += 1
        self._prefilter.remove(number)

    def _find_displaced(self, added: StoredDocument, document: FlatEvent) -> tuple[bool, list[int]]:
        """Whether a new document stays, and the documents that it removes."""
        id, count = added.id, self.retention.count
        if id is None and count is None and self.retention.age is None:
            return True, []
        removed = dict.fromkeys(self._find_past())
        if id is not None and id in self._numbers:
            removed[self._numbers[id]] = None
        is_past = self._ages.is_past(self._ages.read_clock(), added.came, document)
        is_kept = count != 0 and not is_past
        self._leave(removed, None if count is None else count - is_kept)
        return is_kept, list(removed)

    def _leave(self, removed: dict[int, None], most: int | None) -> None:
        """Add to the removed documents the oldest of the others, until `most` are left."""
        if most is None:
            return
        excess = len(self._encoded) - len(removed) - most
        for number in range(self.oldest, self.next):
            if excess <= 0:
                return
            if number in self._encoded and number not in removed:
                removed[number] = None
                excess -= 1

    def _find_past(self) -> list[int]:
        """The documents past their age, oldest first."""
        ages = self._ages
        if self.retention.age is None:
            return []
        now = ages.read_clock()
        if ages.has_gone_back(now):
            later = ages.find_later(now)
            if self._journal is not None:
                changed = [self._stored(number)._replace(came=now) for number in later]
                self._journal.record_changed(changed)
                self._journal.confirm()
            ages.set_back(now, later, map(self.document, ages.came))
        return ages.find_past(now)

    def _forget_expired(self) -> None:
        count = self.retention.count
        if self.retention.age is not None or (count is not None and len(self._encoded) > count):
            self.expire()

    def _number_of(self, id: object) -> int | None:
        if isinstance(id, str):
            return self._numbers.get(id)
        is_number = isinstance(id, int) and not isinstance(id, bool) and id not in self._ids
        return id if is_number and id in self._encoded else None

    def _find_number(self, id: DocumentId) -> int:
        number = self._number_of(id)
        if number is None:
            raise UnknownDocumentError(f"there is no document {id!r}")
        return number


_OVERHEAD = 48
"""About how many bytes a document takes in a file besides its attributes."""

_DECIMAL = 1
"""The code of a decimal in MessagePack, which has none."""


def _write_decimal(value: object) -> msgspec.msgpack.Ext:
    assert isinstance(value, LongDecimal)
    return msgspec.msgpack.Ext(_DECIMAL, str(value.decimal).encode())


def _read_decimal(code: int, text: memoryview[int]) -> LongDecimal:
    if code != _DECIMAL:
        raise msgspec.DecodeError(f"unknown extension {code}")
    return LongDecimal(Decimal(text.tobytes().decode()))


def encode_flat(event: FlatEvent, received_by: Iterable[str] = ()) -> bytes:
    """The attributes of a document in MessagePack, as `StoredDocument.encoded` has them.

    Parameters
    ----------
    event
        The flattened document.
    received_by
        The subscriptions that receive it.

    Raises
    ------
    EventError
        A value is one that no kind can hold.
    """
    require_readable(event)
    receivers: list[Value] = list(dict.fromkeys(received_by))
    return _encode({**event, RECEIVED_BY: receivers} if receivers else event)


_encode = msgspec.msgpack.Encoder(enc_hook=_write_decimal).encode
decode_flat: Callable[[bytes], FlatEvent] = msgspec.msgpack.Decoder(ext_hook=_read_decimal).decode
"""The document that `encode_flat` has encoded, with `RECEIVED_BY` as an attribute."""

_stores: weakref.WeakSet[DocumentStore] = weakref.WeakSet()


def _after_fork() -> None:
    """Replace all locks: those that other threads held at the fork are never released here."""
    for store in list(_stores):
        store._create_locks()


call_in_child(_after_fork)
