"""The rules that are in no segment yet.

They stand on *shelves*, in the order in which they came. A shelf is shared by all snapshots that
were made while it was filled: rules are only ever put behind the others, and a snapshot sees a
*stretch* of it, from a rule to another, without those that were removed. A shelf from whose
beginning a segment was made is not filled any further; the next rule begins another one.

On a shelf with a BE-Tree (`tamis.engines.betree.live_tree`) a rule is found by the tree as soon as
it stands there. Without one, each rule is evaluated by itself, which takes longer from a few dozen
rules on. Trees need kernels that take a second to load, and a minute to compile where nobody has
done so before. So there are none until somebody has called `warm_up`: the thread behind the writers
does so when it sees that many rules come one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tamis.engines.betree.live_tree import LiveTree
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import Event, FlatEvent
from tamis.expr.model import Atom, Expr, Op, Predicate
from tamis.expr.weights import RuleWeights
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema

__all__ = ["NO_TAIL", "LazyEvent", "Tail", "TailRule", "is_warm", "warm_up"]

PLAIN = 64
"""How many rules may wait on a shelf without a tree."""

RIPE = 1024
"""From how many rules on a segment is made of a shelf with a tree, although more are coming."""

MOST = 16_384
"""With how many rules in the tail a writer makes a segment of them before it brings more."""


class TailRule(NamedTuple):
    """A rule that is not in a segment yet."""

    rule: Rule
    tree: Expr
    """The rule in negation normal form."""
    weights: RuleWeights
    has_joins: bool = False
    """Whether it speaks of documents."""


class LazyEvent:
    """An event as the tail reads it: flattened only if need be.

    Parameters
    ----------
    event, schema
        The event, and what is declared about attributes.
    flat
        The event's values by attribute, if somebody has them already.
    """

    __slots__ = ("_flat", "_schema", "event")

    def __init__(self, event: Event, schema: Schema, flat: FlatEvent | None = None) -> None:
        self.event = event
        self._schema = schema
        self._flat = flat

    @property
    def flat(self) -> FlatEvent:
        """The event's values by attribute."""
        if self._flat is None:
            self._flat = self._schema.read(self.event)
        return self._flat

    def satisfies(self, entry: TailRule) -> bool:
        """Whether the event satisfies a rule."""
        return bool(evaluate_flat(entry.tree, self.flat, entry.rule.logic))

    def numbers_in(self, tree: LiveTree) -> list[int]:
        """What the event matches in a tree; some of it may be doubtful."""
        if self._schema or self._flat is not None:
            return tree.match(tree.encoder.encode_flat([self.flat]))
        return tree.match(tree.encoder.encode(self.event))


_is_warm = False


def is_warm() -> bool:
    """Whether new shelves have trees."""
    return _is_warm


def warm_up() -> None:
    """Load the kernels of trees, or compile them; from then on shelves have trees."""
    global _is_warm
    tree = LiveTree()
    tree.add(0, Atom(Predicate("x", Op.IN, (1, "a")), negated=False, if_absent=False))
    tree.match(tree.encoder.encode({"x": 1}))
    _is_warm = True


class _Shelf:
    """Where rules are put one behind the other. One thread puts; others may read meanwhile."""

    def __init__(self) -> None:
        self.entries: list[TailRule] = []
        self.join_places: list[int] = []
        """The places of rules that speak of documents."""
        self.tree = LiveTree() if _is_warm else None
        self._places: dict[RuleId, int] = {}
        self._earlier: dict[int, int] = {}
        """Where a rule of the same id stood before."""

    def put(self, entry: TailRule) -> None:
        # Should this fail half-way, the shelf is longer than any stretch, and is given up.
        place = len(self.entries)
        self.entries.append(entry)
        if entry.has_joins:
            self.join_places.append(place)
        if self.tree is not None:
            self.tree.add(place, entry.tree)
        earlier = self._places.get(entry.rule.id)
        if earlier is not None:
            self._earlier[place] = earlier
        self._places[entry.rule.id] = place

    def places_of(self, id: RuleId) -> Iterator[int]:
        """Where rules of this id stand or stood, the last one first."""
        place = self._places.get(id)
        while place is not None:
            yield place
            place = self._earlier.get(place)

    def after_fork(self) -> None:
        """In a forked child: if somebody was busy in the tree, nobody will ever finish that."""
        if self.tree is not None and self.tree.is_busy():
            self.tree = LiveTree()
            for place, entry in enumerate(self.entries):
                self.tree.add(place, entry.tree)


class _Stretch(NamedTuple):
    """What a snapshot sees of a shelf. It never changes."""

    shelf: _Shelf
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
        entries, removed = self.shelf.entries, self.removed
        for place in range(self.first, self.last):
            if place not in removed:
                yield entries[place]

    def join_rules(self) -> Iterator[TailRule]:
        """The living rules that speak of documents."""
        for place in self.shelf.join_places:
            if self.first <= place < self.last and place not in self.removed:
                yield self.shelf.entries[place]

    def place_of(self, id: RuleId) -> int | None:
        """Where the living rule `id` stands."""
        for place in self.shelf.places_of(id):
            if self.first <= place < self.last and place not in self.removed:
                return place
        return None

    def match(self, event: LazyEvent) -> list[TailRule]:
        """The living rules that an event satisfies, oldest first."""
        shelf, first, last, removed = self
        entries, tree = shelf.entries, shelf.tree
        if tree is None:
            return [entry for entry in self.entries() if event.satisfies(entry)]
        found = [
            place
            for place in event.numbers_in(tree)
            if first <= place < last and place not in removed
        ]
        doubtful = tree.doubtful
        return [
            entries[place]
            for place in found
            if place not in doubtful or event.satisfies(entries[place])
        ]


class Tail:
    """The rules in no segment as a snapshot sees them, oldest first. It never changes."""

    __slots__ = ("_size", "_stretches")

    def __init__(self, stretches: tuple[_Stretch, ...] = ()) -> None:
        self._stretches = stretches
        self._size = sum(stretch.size for stretch in stretches)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[TailRule]:
        for stretch in self._stretches:
            yield from stretch.entries()

    def join_rules(self) -> Iterator[TailRule]:
        """The rules that speak of documents."""
        for stretch in self._stretches:
            yield from stretch.join_rules()

    def find(self, id: RuleId) -> TailRule | None:
        """The rule `id`."""
        for stretch in self._stretches:
            place = stretch.place_of(id)
            if place is not None:
                return stretch.shelf.entries[place]
        return None

    def match(self, event: LazyEvent) -> list[TailRule]:
        """The rules that an event satisfies, oldest first."""
        found: list[TailRule] = []
        for stretch in self._stretches:
            found += stretch.match(event)
        return found

    def with_added(self, entries: Sequence[TailRule]) -> Tail:
        """The tail with more rules behind it. Only one thread at a time may add."""
        if not entries:
            return self
        stretches = self._stretches
        if not stretches or not _can_go_on(stretches[-1]):
            stretches = (*stretches, _Stretch(_Shelf(), 0, 0))
        shelf, first, last, removed = stretches[-1]
        for entry in entries:
            shelf.put(entry)
        longer = _Stretch(shelf, first, last + len(entries), removed)
        return Tail((*stretches[:-1], longer))

    def without(self, ids: Collection[RuleId]) -> Tail:
        """The tail with these rules removed."""
        left = []
        for stretch in self._stretches:
            places = [place for id in ids if (place := stretch.place_of(id)) is not None]
            if places:
                stretch = stretch._replace(removed=stretch.removed.union(places))
            if stretch.size:
                left.append(stretch)
        return Tail(tuple(left))

    def changes_since(self, earlier: Tail) -> tuple[Tail, list[int]] | None:
        """What came after an earlier state, and which of its rules are gone, counted from 0.

        None where that state is not the beginning of this one any more.
        """
        count = len(earlier._stretches)
        if count > len(self._stretches):
            return None
        rest: list[_Stretch] = []
        gone: list[int] = []
        age = 0
        for then, now in zip(earlier._stretches, self._stretches, strict=False):
            if then.shelf is not now.shelf or then.first != now.first:
                return None
            for place in range(then.first, then.last):
                if place not in then.removed:
                    if place in now.removed:
                        gone.append(age)
                    age += 1
            later = frozenset(place for place in now.removed if place >= then.last)
            rest.append(_Stretch(now.shelf, then.last, now.last, later))
        rest += self._stretches[count:]
        return Tail(tuple(stretch for stretch in rest if stretch.size)), gone

    def is_ripe(self) -> bool:
        """Whether a segment should be made of it although more rules are coming."""
        if any(stretch.shelf.tree is None for stretch in self._stretches):
            return True
        return self._length() >= RIPE

    def has_room(self, count: int) -> bool:
        """Whether so many more rules may be added."""
        is_plain = any(stretch.shelf.tree is None for stretch in self._stretches)
        return self._length() + count <= (PLAIN if is_plain or not _is_warm else MOST)

    def _length(self) -> int:
        """How many rules stand there, dead ones included."""
        return sum(stretch.last - stretch.first for stretch in self._stretches)

    def after_fork(self) -> None:
        """Make good what other threads were at when the process was forked."""
        for stretch in self._stretches:
            stretch.shelf.after_fork()


NO_TAIL = Tail()


def _can_go_on(stretch: _Stretch) -> bool:
    """Whether a stretch can get longer: it is all of its shelf, and that has the tree it may."""
    shelf = stretch.shelf
    is_whole = stretch.first == 0 and stretch.last == len(shelf.entries)
    return is_whole and (shelf.tree is not None) == _is_warm
