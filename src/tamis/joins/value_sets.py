"""Sets of values: disjoint spans of ordered values, for each kind.

A *cut* lies between values: right below one, right above one, or below or above all. A span goes
from a cut to a higher one. So there are no open and closed ends to distinguish, and union,
intersection and complement need no special cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from tamis.expr.event import Kind, kind_of
from tamis.expr.model import Op, Predicate, Value

__all__ = [
    "EVERYTHING",
    "HIGHEST",
    "LOWEST",
    "NOTHING",
    "Cut",
    "Span",
    "ValueSet",
    "above",
    "below",
    "values_satisfying",
    "values_satisfying_any",
    "values_satisfying_predicate",
]

Cut: TypeAlias = tuple[Any, ...]
"""``(0, value, 0)`` below a value, ``(0, value, 1)`` above it, `LOWEST` or `HIGHEST`."""

LOWEST: Final[Cut] = (-1,)
HIGHEST: Final[Cut] = (1,)

Span: TypeAlias = tuple[Cut, Cut]
"""The values between two cuts."""


def below(value: Value) -> Cut:
    """The cut right below a value."""
    return 0, value, 0


def above(value: Value) -> Cut:
    """The cut right above a value."""
    return 0, value, 1


class ValueSet:
    """An immutable set of values; sets of the same values are equal.

    Parameters
    ----------
    by_kind
        The spans of each kind, disjoint and rising, with a gap between any two.
    """

    __slots__ = ("by_kind",)

    def __init__(self, by_kind: Mapping[Kind, tuple[Span, ...]]) -> None:
        self.by_kind = {kind: spans for kind, spans in by_kind.items() if spans}

    @classmethod
    def of(cls, spans: Iterable[tuple[Kind, Span]]) -> ValueSet:
        """The union of spans, in any order."""
        by_kind: dict[Kind, list[Span]] = {}
        for kind, span in spans:
            if span[0] < span[1]:
                by_kind.setdefault(kind, []).append(span)
        return cls({kind: _merge_spans(unsorted) for kind, unsorted in by_kind.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueSet) and self.by_kind == other.by_kind

    def __hash__(self) -> int:
        return hash(frozenset(self.by_kind.items()))

    def __bool__(self) -> bool:
        return bool(self.by_kind)

    def __iter__(self) -> Iterator[tuple[Kind, Span]]:
        for kind, spans in self.by_kind.items():
            for span in spans:
                yield kind, span

    def __repr__(self) -> str:
        return f"ValueSet({self.by_kind})"

    def __contains__(self, value: Value) -> bool:
        spans = self.by_kind.get(kind_of(value), ())
        return any(low <= below(value) and above(value) <= high for low, high in spans)

    def __or__(self, other: ValueSet) -> ValueSet:
        return ValueSet.of([*self, *other])

    def __invert__(self) -> ValueSet:
        return ValueSet({kind: _gaps(self.by_kind.get(kind, ())) for kind in Kind})

    def __and__(self, other: ValueSet) -> ValueSet:
        return ~(~self | ~other)

    def at_most(self, count: int) -> ValueSet:
        """A superset with no more than `count` spans of a kind."""
        if all(len(spans) <= count for spans in self.by_kind.values()):
            return self
        return ValueSet({k: ((s[0][0], s[-1][1]),) for k, s in self.by_kind.items()})


def _merge_spans(spans: list[Span]) -> tuple[Span, ...]:
    spans.sort()
    merged = [spans[0]]
    for low, high in spans[1:]:
        if low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return tuple(merged)


def _gaps(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    ends = [LOWEST, *(cut for span in spans for cut in span), HIGHEST]
    return tuple(span for span in list(pairwise(ends))[::2] if span[0] < span[1])


NOTHING: Final = ValueSet({})
EVERYTHING: Final = ~NOTHING


def values_satisfying(op: Op, value: Value) -> ValueSet:
    """The values v for which ``v OP value`` holds."""
    kind = kind_of(value)
    match op:
        case Op.EQ:
            return ValueSet({kind: ((below(value), above(value)),)})
        case Op.LT:
            return ValueSet({kind: ((LOWEST, below(value)),)})
        case Op.LE:
            return ValueSet({kind: ((LOWEST, above(value)),)})
        case Op.GT:
            return ValueSet({kind: ((above(value), HIGHEST),)})
        case Op.GE:
            return ValueSet({kind: ((below(value), HIGHEST),)})
        case _:
            raise ValueError(f"{op} is not a comparison")


def values_satisfying_any(op: Op, others: Sequence[Value]) -> ValueSet:
    """The values v for which ``v OP other`` holds with one of `others`."""
    if len(others) == 1:
        return values_satisfying(op, others[0])
    return ValueSet.of(span for other in others for span in values_satisfying(op, other))


def values_satisfying_predicate(predicate: Predicate) -> ValueSet | None:
    """The values that satisfy `predicate` on their own; None where no order decides it."""
    found: ValueSet
    if predicate.op.is_text:
        return None
    if predicate.op is Op.PRESENT:
        found = EVERYTHING
    elif predicate.op is Op.IN:
        found = values_satisfying_any(Op.EQ, predicate.values)
    elif predicate.op is Op.BETWEEN:
        low, high = predicate.values
        found = values_satisfying(Op.GE, low) & values_satisfying(Op.LE, high)
    else:
        found = values_satisfying(predicate.op, predicate.values[0])
    return ~found if predicate.negated else found
