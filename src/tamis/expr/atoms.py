"""Implication, union and intersection of atoms on one attribute.

A positive atom holds if some value of the attribute is in the predicate's set of values, a negated
one if none is. So the answers are right for attributes with several values, too; only
:func:`intersect` assumes at most one value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tamis.expr.event import Kind, kind_of, value_key
from tamis.expr.model import Atom, Op, Predicate, Value
from tamis.expr.satisfy import satisfies

__all__ = ["implies", "intersect", "unite", "value_test"]

_FINITE = frozenset({Op.EQ, Op.IN})
_RANGES = frozenset({Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN})


def implies(a: Atom, b: Atom) -> bool:
    """Whether `b` certainly holds on every event on which `a` holds."""
    if a.if_absent and not b.if_absent:
        return False
    match a.negated, b.negated:
        case False, False:
            return _within(a.predicate, b.predicate)
        case True, True:
            return _within(b.predicate, a.predicate)
        case True, False:
            return b.predicate.op is Op.PRESENT
        case _:
            return False


def unite(atoms: list[Atom], negated: bool) -> list[Atom]:
    """`atoms` with their lists of values united into one list.

    Positive ones in an OR (`x = 1 OR x IN (2, 3)`) become `x IN (1, 2, 3)`; negated ones in an AND
    (`x <> 1 AND x NOT IN (2, 3)`) become its negation.
    """
    lists: dict[bool, list[Atom]] = {}
    for atom in atoms:
        if atom.negated is negated and atom.predicate.op in _FINITE:
            lists.setdefault(atom.if_absent, []).append(atom)
    united = {if_absent: _union(group) for if_absent, group in lists.items() if len(group) > 1}
    if not united:
        return atoms
    merged = {id(atom) for if_absent in united for atom in lists[if_absent]}
    return [*united.values(), *(atom for atom in atoms if id(atom) not in merged)]


def _union(group: list[Atom]) -> Atom:
    values = {value_key(v): v for atom in group for v in atom.predicate.values}
    first = group[0]
    predicate = Predicate(first.predicate.attribute, Op.IN, tuple(values.values()))
    return Atom(predicate, first.negated, first.if_absent)


def intersect(atoms: list[Atom]) -> list[Atom] | None:
    """The AND of `atoms` on an attribute with at most one value; None if it is FALSE."""
    positive = [a for a in atoms if not a.negated]
    if positive and any(a.negated and a.predicate.op is Op.PRESENT for a in atoms):
        return None
    lists = [a.predicate for a in positive if a.predicate.op in _FINITE]
    if lists:
        smallest = min(lists, key=lambda p: len(p.values))
        tests = [value_test(a) for a in atoms]
        kept = tuple(v for v in smallest.values if all(test(v) for test in tests))
        return [Atom(_list_of(smallest.attribute, kept), False, False)] if kept else None
    ranges = [r for a in positive if (r := _range(a.predicate)) is not None]
    return None if len(ranges) <= _MAX_RANGES and _disjoint(ranges) else atoms


def value_test(atom: Atom) -> Callable[[Value], bool]:
    """A test whether `atom` holds if its attribute has one given value."""
    predicate, negated = atom.predicate, atom.negated
    if predicate.op in _FINITE:
        listed = {value_key(v) for v in predicate.values}
        return lambda value: (value_key(value) in listed) != negated
    return lambda value: satisfies(predicate, value) != negated


def _list_of(attribute: str, values: tuple[Value, ...]) -> Predicate:
    return Predicate(attribute, Op.EQ if len(values) == 1 else Op.IN, values)


def _within(a: Predicate, b: Predicate) -> bool:
    """Whether every value that satisfies `a` certainly satisfies `b`."""
    if b.op is Op.PRESENT or a == b:
        return True
    if a.op in _FINITE:
        return len(a.values) * len(b.values) <= _MAX_COMPARISONS and all(
            satisfies(b, value) for value in a.values
        )
    inner, outer = _range(a), _range(b)
    return inner is not None and outer is not None and _contains(outer, inner)


_MAX_COMPARISONS = 10_000
_MAX_RANGES = 16
"""Larger sets are not compared: a missed simplification costs less than finding it."""


class _Range(NamedTuple):
    """An interval of one kind of values; None is an infinite end."""

    kind: Kind
    low: Value | None
    low_open: bool
    high: Value | None
    high_open: bool


def _range(predicate: Predicate) -> _Range | None:
    """The interval of a comparison; None for other predicates and for ends that differ in kind."""
    if predicate.op not in _RANGES:
        return None
    first, last = predicate.values[0], predicate.values[-1]
    kind = kind_of(first)
    if kind is not kind_of(last):
        return None
    match predicate.op:
        case Op.LT | Op.LE:
            return _Range(kind, None, True, first, predicate.op is Op.LT)
        case Op.GT | Op.GE:
            return _Range(kind, first, predicate.op is Op.GT, None, True)
        case _:
            return _Range(kind, first, False, last, False)


def _contains(outer: _Range, inner: _Range) -> bool:
    return (
        outer.kind is inner.kind
        and _no_higher(outer.low, outer.low_open, inner.low, inner.low_open)
        and _no_lower(outer.high, outer.high_open, inner.high, inner.high_open)
    )


def _no_higher(a: Value | None, a_open: bool, b: Value | None, b_open: bool) -> bool:
    """Whether the low end `a` admits every value that the low end `b` admits."""
    if a is None or b is None:
        return a is None
    return b_open or not a_open if a == b else a < b  # type: ignore[operator]  # one kind


def _no_lower(a: Value | None, a_open: bool, b: Value | None, b_open: bool) -> bool:
    """Whether the high end `a` admits every value that the high end `b` admits."""
    if a is None or b is None:
        return a is None
    return b_open or not a_open if a == b else a > b  # type: ignore[operator]  # one kind


def _disjoint(ranges: list[_Range]) -> bool:
    """Whether two of the ranges certainly share no value."""
    return any(
        a.kind is not b.kind or _all_below(a, b) or _all_below(b, a)
        for i, a in enumerate(ranges)
        for b in ranges[i:]
    )


def _all_below(a: _Range, b: _Range) -> bool:
    if a.high is None or b.low is None:
        return False
    if a.high == b.low:
        return a.high_open or b.low_open
    return a.high < b.low  # type: ignore[operator]  # one kind
