"""Nested rules: trees of AND, OR and NOT over the attributes and events of BEGen.

No paper has such rules, so the shapes of the trees are random too. A shape is an AND at the root,
OR below it, AND below that and so on, with `shallowest` to `deepest` such levels and occasional
NOTs. A rule combines a shape with a base event of `begen`. From the root down, each node gets a
truth value that it must have on that event: the children of an AND that must hold must all hold,
one child of an OR must, and NOT inverts it. So a leaf must hold, must fail, or is free. A leaf that
must hold is a predicate that the event satisfies, one that must fail is the NOT of such a
predicate, and a free one has any attribute and value.

**How many rules match.** As in BEGen, a rule always matches its own base, and there are
``round(1 / match_probability)`` bases. The root has two leaves that must hold, so accidental
matches are rare: less than 1 in 100,000 rules. That is in the strong logic; in the weak one, where
an absent attribute satisfies a NOT, it is 1 in 100.

A share `large` of the rules has shapes whose DNF has over 256 conjunctions, more than Tamis
expands; all others have at most 64. A leaf that must hold or fail takes the next of the event's
attributes, in an order of the rule's own; a rule with more such leaves than the event has
attributes repeats some.

A seed gives the same workload on any machine; see `portable_random`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import prod
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.workloads import begen
from tamis.workloads.base import ChunkedWorkload, check_parameters
from tamis.workloads.portable_random import Ints, PortableRandom
from tamis.workloads.predicates import Operator

__all__ = ["Workload"]

_SHAPES = 64
"""The number of shapes of each kind, ordinary and large."""

_MOST_CONJUNCTIONS = 64
"""The most conjunctions in the DNF of an ordinary shape."""


class _Stream(IntEnum):
    """The independent streams of random numbers of a workload."""

    # begen uses the streams 0 to 3.
    SHAPES = 10
    RULES = 11


class _Must(IntEnum):
    """The truth value that a node must have on the event its rule is derived from."""

    HOLD = 0
    FAIL = 1
    FREE = 2

    def negate(self) -> _Must:
        """The requirement under a NOT."""
        return {_Must.HOLD: _Must.FAIL, _Must.FAIL: _Must.HOLD, _Must.FREE: _Must.FREE}[self]


class _Node(NamedTuple):
    """A tree without predicates."""

    kind: Literal["and", "or", "not", "leaf"]
    children: tuple[_Node, ...] = ()


_Piece: TypeAlias = str | _Must
"""A piece of a rule's text: fixed text, or a leaf to fill in."""


@dataclass(frozen=True)
class Workload(ChunkedWorkload):
    """Nested rules, and the events of BEGen.

    Parameters
    ----------
    size
        How many rules.
    shallowest, deepest
        The least and the most levels of AND and OR in a rule.
    large
        The share of rules whose DNF has over 256 conjunctions.
    match_probability
        The share of the rules that an event matches.
    dimensions, cardinality, event_size
        As in `begen`: the number of attributes, of values of an attribute, and of attributes
        of an event.
    seed
        Workloads with the same parameters and seed are the same, on any machine.
    """

    rules_per_chunk: ClassVar[int] = 1 << 16
    events_per_chunk: ClassVar[int] = begen.Workload.events_per_chunk
    size: int = 100_000
    shallowest: int = 3
    deepest: int = 5
    large: float = 0.02
    match_probability: float = 0.01
    dimensions: int = 400
    cardinality: int = 48
    event_size: int = 15
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        required = {
            "shallowest is at least 2 and at most at deepest": 2 <= self.shallowest <= self.deepest,
            "deepest is at most 6": self.deepest <= 6,
            "large lies between 0 and 1": 0 <= self.large <= 1,
        }
        check_parameters(required, self)
        # Checks the other parameters.
        _ = self._begen

    def events(self, n: int) -> list[dict[str, int]]:
        """`n` events; fewer are a prefix of more."""
        return self._begen.events(n)

    def _events(self, start: int, count: int) -> pa.Table:
        return self._begen._events(start, count)

    @cached_property
    def _begen(self) -> begen.Workload:
        """The workload whose bases the rules are derived from."""
        return begen.Workload(
            size=self.size,
            dimensions=self.dimensions,
            cardinality=self.cardinality,
            rule_size=1,
            event_size=self.event_size,
            operators="high",
            match_probability=self.match_probability,
            seed=self.seed,
        )

    @cached_property
    def _shapes(self) -> list[list[_Piece]]:
        """The ordinary shapes, and then the large ones."""
        rng = PortableRandom(self.seed, _Stream.SHAPES)
        ordinary: list[_Node] = []
        while len(ordinary) < _SHAPES:
            depth = self.shallowest + _draw_below(self.deepest - self.shallowest + 1, rng)
            shape = _draw_ordinary(depth, rng)
            if _count_conjunctions(shape) <= _MOST_CONJUNCTIONS:
                ordinary.append(shape)
        large = [_draw_large(rng) for _ in range(_SHAPES)]
        return [list(_cut_pieces(shape, _Must.HOLD, rng)) for shape in ordinary + large]

    def _texts(self, start: int) -> pa.StringArray:
        """The texts of the chunk of rules from `start` on."""
        rng = PortableRandom(self.seed, _Stream.RULES, start // self.rules_per_chunk)
        owners = self._begen.owners[start : start + self.rules_per_chunk]
        shape = rng.below(_SHAPES, owners.size)
        shape += _SHAPES * rng.chance(self.large, owners.size)
        places = [np.flatnonzero(shape == number) for number in range(len(self._shapes))]
        leaves = [
            self._draw_leaves(pieces, owners[place], rng)
            for pieces, place in zip(self._shapes, places, strict=True)
        ]
        attribute, value = (np.concatenate(column) for column in zip(*leaves, strict=True))
        texts = self._draw_predicates(attribute, value, rng)
        parts: list[pa.StringArray] = []
        first = 0
        for pieces, place, (filled, _) in zip(self._shapes, places, leaves, strict=True):
            if place.size:
                parts.append(_fill_leaves(pieces, texts.slice(first, filled.size), place.size))
            first += filled.size
        back = np.argsort(np.concatenate(places))
        return pa.concat_arrays(parts).take(pa.array(back))

    def _draw_leaves(
        self, pieces: list[_Piece], owners: Ints, rng: PortableRandom
    ) -> tuple[Ints, Ints]:
        """The attributes and values of the leaves of rules of one shape, leaf by leaf."""
        bases = self._begen.bases
        # Each rule takes the base's attributes in another order.
        order = rng.permutations(owners.size, self.event_size).T
        attributes: list[Ints] = []
        values: list[Ints] = []
        bound = 0
        for piece in pieces:
            if piece is _Must.FREE:
                attributes.append(rng.below(self.dimensions, owners.size))
                values.append(rng.below(self.cardinality, owners.size))
            elif isinstance(piece, _Must):
                place = order[bound % self.event_size]
                attributes.append(bases.attribute[owners, place])
                values.append(bases.value[owners, place])
                bound += 1
        return np.concatenate(attributes), np.concatenate(values)

    def _draw_predicates(self, attribute: Ints, value: Ints, rng: PortableRandom) -> pa.StringArray:
        """A predicate on each attribute, with any operator, that its value satisfies."""
        operator = rng.below(len(Operator), attribute.size)
        names = pa.array(self._begen.names).take(pa.array(attribute))
        return self._begen.values.predicates(names, operator, value, rng)


def _fill_leaves(pieces: list[_Piece], leaves: pa.StringArray, rules: int) -> pa.StringArray:
    """The texts of `rules` rules of one shape, from the texts of their leaves, leaf by leaf."""
    columns: list[str | pa.StringArray] = []
    first = 0
    for piece in pieces:
        if isinstance(piece, _Must):
            columns += ["NOT "] if piece is _Must.FAIL else []
            columns.append(leaves.slice(first, rules))
            first += rules
        else:
            columns.append(piece)
    return pc.binary_join_element_wise(*columns, "")


def _draw_below(bound: int, rng: PortableRandom) -> int:
    return int(rng.below(bound, 1)[0])


_LEAF = _Node("leaf")


def _draw_ordinary(depth: int, rng: PortableRandom) -> _Node:
    """A shape of `depth` levels: two leaves, a subtree of full depth, and perhaps another."""
    subtrees = [_draw_subtree("or", depth - 1, rng)]
    if _draw_below(2, rng):
        subtrees.append(_draw_subtree("or", 1, rng))
    return _Node("and", (_LEAF, _LEAF, *subtrees))


def _draw_subtree(kind: Literal["and", "or"], depth: int, rng: PortableRandom) -> _Node:
    """A subtree of `depth` levels, the first of which is `kind`, possibly under a NOT."""
    children = [_LEAF] * (1 + _draw_below(2, rng))
    if depth > 1:
        children.append(_draw_subtree("or" if kind == "and" else "and", depth - 1, rng))
    else:
        children.append(_LEAF)
    node = _Node(kind, tuple(children))
    return node if _draw_below(4, rng) else _Node("not", (node,))


def _draw_large(rng: PortableRandom) -> _Node:
    """Two leaves and five ORs of four: 1,024 conjunctions."""
    pair = _Node("and", (_LEAF, _LEAF))
    ors = [
        _Node("or", (_LEAF, _LEAF, _LEAF, pair if _draw_below(2, rng) else _LEAF)) for _ in range(5)
    ]
    return _Node("and", (_LEAF, _LEAF, *ors))


def _count_conjunctions(node: _Node, negated: bool = False) -> int:
    """The number of conjunctions in the DNF of a shape; `negated` if it is under a NOT."""
    if node.kind == "not":
        return _count_conjunctions(node.children[0], not negated)
    counts = [_count_conjunctions(child, negated) for child in node.children]
    if node.kind == "leaf":
        return 1
    return prod(counts) if (node.kind == "and") != negated else sum(counts)


def _cut_pieces(node: _Node, must: _Must, rng: PortableRandom) -> Iterator[_Piece]:
    """The text of a shape, with the requirement of each leaf."""
    if node.kind == "leaf":
        yield must
    elif node.kind == "not":
        yield "NOT ("
        yield from _cut_pieces(node.children[0], must.negate(), rng)
        yield ")"
    else:
        requirements = _constrain_children(node, must, rng)
        for n, (child, required) in enumerate(zip(node.children, requirements, strict=True)):
            brackets = child.kind in ("and", "or")
            yield (f" {node.kind.upper()} " if n else "") + ("(" if brackets else "")
            yield from _cut_pieces(child, required, rng)
            yield ")" if brackets else ""


def _constrain_children(node: _Node, must: _Must, rng: PortableRandom) -> list[_Must]:
    """The requirements of the children of an AND or OR: all alike, or one and the rest free."""
    deciding = _Must.FAIL if node.kind == "and" else _Must.HOLD
    if must is not deciding:
        return [must] * len(node.children)
    chosen = _draw_below(len(node.children), rng)
    return [deciding if n == chosen else _Must.FREE for n in range(len(node.children))]
