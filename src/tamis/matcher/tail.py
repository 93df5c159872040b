"""The tail: the rules added last, which are in no segment yet.

They stand in append-only *buffers*, in the order in which they were added. All snapshots taken
while a buffer grew share it: each sees a *slice* of it, from one rule to another, without those
that were removed. Once a segment was built from the beginning of a buffer, nothing more is appended
to it; the next rule begins a new buffer.

A buffer may have a BE-Tree (`tamis.engines.betree.live_tree`) that finds its oldest rules. The
others *wait*, and are evaluated one by one, which takes longer from a few dozen rules on. A rule
takes ten times as long to insert as to evaluate, so rules are inserted only once events are
searched for: what is added while nobody searches becomes a segment without having been in a tree.

The background thread has the trees adapt to the events that they match, and removes rules from
them that no snapshot sees any more (`Tail.adapt`). It also frees buffers of which no snapshot sees
a part (`Remains`).

Trees need kernels that take a second to load, and a minute to compile where none are cached. So
there are none before a call of `warm_up`: the background thread calls it once many rules have come
one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple
from weakref import WeakSet

import msgspec

from tamis.engines.betree.live_tree import LiveTree
from tamis.expr.evaluate import evaluate_flat, refuse_unreadable_in
from tamis.expr.event import Event, FlatEvent, has_unreadable
from tamis.expr.model import Atom, Expr, Op, Predicate
from tamis.expr.weights import RuleWeights
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema
from tamis.matcher.write.responsive import (
    Container,
    age_objects,
    clear_in_steps,
    keep_responsive,
)

__all__ = ["NO_TAIL", "LazyEvent", "Remains", "Tail", "TailRule", "is_warm", "warm_up"]

MOST_WITHOUT_TREE = 64
"""How many rules may wait in buffers without trees."""

RIPE_WITHOUT_TREE = 32
"""From so many rules on, the background thread freezes a tail without trees: one by one, each
would become a segment that every search looks into."""

RIPE = 4096
"""From this size on, the background thread freezes a tail with trees although more rules come."""

MOST = 16_384
"""A writer freezes a tail of this size before it adds more rules."""


_INSERTED_AT_ONCE: Final = 16
"""How many waiting rules an addition inserts into the tree, where events are searched for."""

_LIVELY: Final = 4_096
"""How many additions after a search insert into the tree: there may be another one soon."""

MOST_WAITING = 1024
"""When this number of rules waits, additions insert them although there are no searches."""


class TailRule(msgspec.Struct, frozen=True, gc=False):
    """A rule that is in no segment yet."""

    rule: Rule
    tree: Expr
    """The rule in negation normal form, adapted to the schema."""
    weights: RuleWeights
    has_joins: bool = False
    """Whether it holds join predicates."""


class LazyEvent:
    """An event that is flattened when first needed.

    Parameters
    ----------
    event, schema
        The event, and the declared attributes.
    flat
        The event's values by attribute, if they are known already.
    """

    __slots__ = ("_flat", "_has_unreadable", "_schema", "event")

    def __init__(self, event: Event, schema: Schema, flat: FlatEvent | None = None) -> None:
        self.event = event
        self._schema = schema
        self._flat = flat
        self._has_unreadable = flat is not None and has_unreadable(flat)

    @property
    def flat(self) -> FlatEvent:
        """The event's values by attribute."""
        if self._flat is None:
            self._flat = self._schema.read(self.event)
            self._has_unreadable = has_unreadable(self._flat)
        return self._flat

    def satisfies(self, entry: TailRule) -> bool:
        """Whether the event satisfies a rule."""
        flat = self.flat
        if self._has_unreadable:
            refuse_unreadable_in(entry.tree, flat)
        return bool(evaluate_flat(entry.tree, flat, entry.rule.logic))

    def find_in(self, tree: LiveTree) -> list[int]:
        """The numbers of the rules that the tree finds; doubtful ones have to be evaluated."""
        if self._schema or self._flat is not None:
            return tree.match(tree.encoder.encode_flat([self.flat]))
        return tree.match(tree.encoder.encode(self.event))


_is_warm = False


def is_warm() -> bool:
    """Whether new buffers have trees."""
    return _is_warm


def warm_up() -> None:
    """Load or compile the kernels of trees. From then on new buffers have trees."""
    global _is_warm
    tree = LiveTree()
    tree.add(0, Atom(Predicate("x", Op.IN, (1, "a")), negated=False, if_absent=False))
    for _ in range(16):
        tree.match(tree.encoder.encode({"x": 1}))
    tree.adapt(least=1)
    tree.remove([0])
    _is_warm = True


class _Buffer:
    """An append-only list of rules. One thread may append while others read."""

    def __init__(self) -> None:
        self.entries: list[TailRule] = []
        self.join_places: list[int] = []
        self.tree = LiveTree() if _is_warm else None
        self.inserted = 0
        """How many rules, the oldest ones, are in the tree."""
        self.lively = 0
        """How many more additions insert into the tree; see `_LIVELY`."""
        self._last_place: dict[RuleId, int] = {}
        self._earlier_place: dict[int, int] = {}
        """For a place, the one where the last rule of the same id stood before."""
        self.tails: WeakSet[Tail] = WeakSet()
        """The tails that see a part of it."""
        self._purged: set[int] = set()

    def append(self, entry: TailRule) -> None:
        # If this fails half-way, the buffer is longer than any slice: none grows any more.
        place = len(self.entries)
        self.entries.append(entry)
        if entry.has_joins:
            self.join_places.append(place)
        earlier = self._last_place.get(entry.rule.id)
        if earlier is not None:
            self._earlier_place[place] = earlier
        self._last_place[entry.rule.id] = place
        if self.lively or place - self.inserted >= MOST_WAITING:
            self.lively = max(self.lively - 1, 0)
            self.insert_waiting(_INSERTED_AT_ONCE)

    def insert_waiting(self, most: int) -> None:
        """Insert waiting rules into the tree, if there is one, but no more than `most`."""
        tree, first = self.tree, self.inserted
        if tree is not None:
            for place in range(first, min(first + most, len(self.entries))):
                tree.add(place, self.entries[place].tree)
                self.inserted = place + 1

    def knows(self, id: RuleId) -> bool:
        """Whether a rule with this id was ever added."""
        return id in self._last_place

    def places_of(self, id: RuleId) -> Iterator[int]:
        """The places of all rules with this id, the last one first."""
        place = self._last_place.get(id)
        while place is not None:
            yield place
            place = self._earlier_place.get(place)

    def purge(self, removed: frozenset[int]) -> bool:
        """Remove rules from the tree that no tail sees any more, among `removed`.

        Returns whether there were any.
        """
        if self.tree is None or removed <= self._purged:
            return False
        try:
            tails = list(self.tails)
        except RuntimeError:
            # A writer has just added a tail; there is a next time.
            return False
        dead = [
            place
            for place in removed - self._purged
            if place < self.inserted and not any(tail.sees(self, place) for tail in tails)
        ]
        self._purged.update(dead)
        self.tree.remove(dead)
        return bool(dead)

    def clear_in_steps(self) -> None:
        """Free all rules; nothing else may use the buffer any more."""
        size = len(self.entries)
        containers: list[Container] = [self.entries, self._last_place, self._earlier_place]
        with keep_responsive():
            clear_in_steps(containers if self.tree is None else containers + self.tree.containers())
            age_objects(size)

    def after_fork(self) -> None:
        """In a forked child: replace a tree that a thread of the parent was using."""
        if self.tree is not None and self.tree.is_busy():
            self.tree, self.inserted = LiveTree(), 0


class _Slice(NamedTuple):
    """The part of a buffer that a snapshot sees. It never changes."""

    buffer: _Buffer
    first: int
    last: int
    """Up to, not including."""
    removed: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """How many rules are alive."""
        return self.last - self.first - len(self.removed)

    def entries(self) -> Iterator[TailRule]:
        """The living rules, oldest first."""
        entries, removed = self.buffer.entries, self.removed
        for place in range(self.first, self.last):
            if place not in removed:
                yield entries[place]

    def join_rules(self) -> Iterator[TailRule]:
        """The living rules that hold join predicates."""
        for place in self.buffer.join_places:
            if self.first <= place < self.last and place not in self.removed:
                yield self.buffer.entries[place]

    def place_of(self, id: RuleId) -> int | None:
        """The place of the living rule `id`."""
        for place in self.buffer.places_of(id):
            if self.first <= place < self.last and place not in self.removed:
                return place
        return None

    def match(self, event: LazyEvent) -> list[TailRule]:
        """The living rules that an event satisfies, oldest first."""
        buffer, first, last, removed = self
        # Those inserted from now on are found in the tree, too, and would be found twice.
        entries, tree, waiting = buffer.entries, buffer.tree, max(first, buffer.inserted)
        buffer.lively = _LIVELY
        found: list[TailRule] = []
        if tree is not None and waiting > first:
            end, doubtful = min(waiting, last), tree.doubtful
            found = [
                entries[place]
                for place in event.find_in(tree)
                if first <= place < end
                and place not in removed
                and (place not in doubtful or event.satisfies(entries[place]))
            ]
        found += [
            entries[place]
            for place in range(waiting, last)
            if place not in removed and event.satisfies(entries[place])
        ]
        return found

    def can_grow(self) -> bool:
        """Whether it is the whole buffer, and the buffer has a tree if it may have one."""
        is_whole = self.first == 0 and self.last == len(self.buffer.entries)
        return is_whole and (self.buffer.tree is not None) == _is_warm


class Tail:
    """The rules in no segment as a snapshot sees them, oldest first. It never changes."""

    __slots__ = ("__weakref__", "_lacks_tree", "_length", "_size", "_slices")

    def __init__(self, slices: tuple[_Slice, ...] = ()) -> None:
        self._slices = slices
        self._length = 0
        """How many rules there are, dead ones included."""
        self._lacks_tree = False
        dead = 0
        for buffer, first, last, removed in slices:
            self._length += last - first
            self._lacks_tree |= buffer.tree is None
            dead += len(removed)
            buffer.tails.add(self)
        self._size = self._length - dead

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[TailRule]:
        for part in self._slices:
            yield from part.entries()

    def join_rules(self) -> Iterator[TailRule]:
        """The rules that hold join predicates."""
        for part in self._slices:
            yield from part.join_rules()

    def find(self, id: RuleId) -> TailRule | None:
        """The rule `id`."""
        for part in self._slices:
            if part.buffer.knows(id) and (place := part.place_of(id)) is not None:
                return part.buffer.entries[place]
        return None

    def match(self, event: LazyEvent) -> list[TailRule]:
        """The rules that an event satisfies, oldest first."""
        found: list[TailRule] = []
        for part in self._slices:
            found += part.match(event)
        return found

    def with_added(self, entries: Sequence[TailRule]) -> Tail:
        """The tail with rules appended. Only one thread at a time may add."""
        if not entries:
            return self
        slices = self._slices
        if not slices or not slices[-1].can_grow():
            slices = (*slices, _Slice(_Buffer(), 0, 0))
        buffer, first, last, removed = slices[-1]
        for entry in entries:
            buffer.append(entry)
        return Tail((*slices[:-1], _Slice(buffer, first, last + len(entries), removed)))

    def without(self, ids: Collection[RuleId]) -> Tail:
        """The tail with these rules removed."""
        left = []
        for part in self._slices:
            places = [place for id in ids if (place := part.place_of(id)) is not None]
            if places:
                part = part._replace(removed=part.removed.union(places))
            if part.size:
                left.append(part)
        return Tail(tuple(left))

    def changes_since(self, earlier: Tail) -> tuple[Tail, list[int]] | None:
        """What has changed since an earlier tail.

        Returns
        -------
        tuple or None
            The rules added since, and the numbers of the earlier tail's rules that were removed
            since, counted from 0; None if this tail does not begin with the earlier one.
        """
        count = len(earlier._slices)
        if count > len(self._slices):
            return None
        rest: list[_Slice] = []
        removed: list[int] = []
        age = 0
        for then, now in zip(earlier._slices, self._slices, strict=False):
            if then.buffer is not now.buffer or then.first != now.first:
                return None
            for place in range(then.first, then.last):
                if place not in then.removed:
                    if place in now.removed:
                        removed.append(age)
                    age += 1
            later = frozenset(place for place in now.removed if place >= then.last)
            rest.append(_Slice(now.buffer, then.last, now.last, later))
        rest += self._slices[count:]
        return Tail(tuple(part for part in rest if part.size)), removed

    def sees(self, buffer: _Buffer, place: int) -> bool:
        """Whether the rule at a place of a buffer is in this tail."""
        return any(
            part.buffer is buffer and part.first <= place < part.last and place not in part.removed
            for part in self._slices
        )

    def adapt(self) -> bool:
        """Have the trees adapt to the events that they matched; returns whether there was work.

        Only one thread at a time may call this; others may read and write.
        """
        worked = False
        for part in self._slices:
            if part.buffer.tree is not None:
                worked |= part.buffer.tree.adapt()
            worked |= part.buffer.purge(part.removed)
        return worked

    def is_ripe(self) -> bool:
        """Whether to build a segment from it although more rules are coming."""
        return self._length >= (RIPE_WITHOUT_TREE if self._lacks_tree else RIPE)

    def has_room(self, count: int) -> bool:
        """Whether `count` more rules may be added."""
        has_trees = _is_warm and not self._lacks_tree
        return self._length + count <= (MOST if has_trees else MOST_WITHOUT_TREE)

    def after_fork(self) -> None:
        """In a forked child: repair what threads of the parent were using."""
        for part in self._slices:
            part.buffer.after_fork()


class Remains:
    """Frees the rules of buffers that no tail sees any more, a little at a time.

    The last one to drop a tail is often a reader, which would wait while all its rules are freed.
    One thread at a time may use it.
    """

    def __init__(self) -> None:
        self._buffers: list[_Buffer] = []

    def free(self, tail: Tail, quiet: bool) -> None:
        """Free the buffers of earlier calls that no tail sees, and remember those of `tail`.

        In quiet times others may be left to their readers: there may be no more calls.
        """
        newest = [part.buffer for part in tail._slices]
        earlier = [buffer for buffer in self._buffers if buffer not in newest]
        for buffer in earlier:
            if not buffer.tails:
                buffer.clear_in_steps()
        self._buffers = newest if quiet else newest + [b for b in earlier if b.tails]


NO_TAIL: Final = Tail()
