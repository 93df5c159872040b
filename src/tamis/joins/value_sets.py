"""Sets of values, as disjoint spans of each kind's line.

A *cut* lies between values: right below one, right above one, or at an end of the line. A span goes
from a cut to a higher one. So there are no open and closed ends to tell apart, and union,
intersection and complement need no cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    "Spans",
    "above",
    "below",
    "compared",
    "of_predicate",
]

Cut: TypeAlias = tuple[Any, ...]
"""``(0, value, 0)`` below a value, ``(0, value, 1)`` above it, and the two ends."""

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


class Spans:
    """A set of values. It never changes, and equal sets are equal.

    Parameters
    ----------
    by_kind
        For each kind its spans, disjoint and rising, with a gap between any two.
    """

    __slots__ = ("by_kind",)

    def __init__(self, by_kind: Mapping[Kind, tuple[Span, ...]]) -> None:
        self.by_kind = {kind: spans for kind, spans in by_kind.items() if spans}

    @classmethod
    def of(cls, spans: Iterable[tuple[Kind, Span]]) -> Spans:
        """The union of spans, in any order."""
        by_kind: dict[Kind, list[Span]] = {}
        for kind, span in spans:
            if span[0] < span[1]:
                by_kind.setdefault(kind, []).append(span)
        return cls({kind: _merged(found) for kind, found in by_kind.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and self.by_kind == other.by_kind

    def __hash__(self) -> int:
        return hash(frozenset(self.by_kind.items()))

    def __bool__(self) -> bool:
        return bool(self.by_kind)

    def __iter__(self) -> Iterator[tuple[Kind, Span]]:
        for kind, spans in self.by_kind.items():
            for span in spans:
                yield kind, span

    def __repr__(self) -> str:
        return f"Spans({self.by_kind})"

    def __contains__(self, value: Value) -> bool:
        spans = self.by_kind.get(kind_of(value), ())
        return any(low <= below(value) and above(value) <= high for low, high in spans)

    def __or__(self, other: Spans) -> Spans:
        return Spans.of([*self, *other])

    def __invert__(self) -> Spans:
        return Spans({kind: _gaps(self.by_kind.get(kind, ())) for kind in Kind})

    def __and__(self, other: Spans) -> Spans:
        return ~(~self | ~other)

    def at_most(self, count: int) -> Spans:
        """A set that holds this one and has no more than `count` spans of a kind."""
        if all(len(spans) <= count for spans in self.by_kind.values()):
            return self
        return Spans({k: ((s[0][0], s[-1][1]),) for k, s in self.by_kind.items()})


def _merged(spans: list[Span]) -> tuple[Span, ...]:
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


NOTHING: Final = Spans({})
EVERYTHING: Final = ~NOTHING


def compared(op: Op, value: Value) -> Spans:
    """The values that compare with `value` as `op` says."""
    kind = kind_of(value)
    match op:
        case Op.EQ:
            return Spans({kind: ((below(value), above(value)),)})
        case Op.LT:
            return Spans({kind: ((LOWEST, below(value)),)})
        case Op.LE:
            return Spans({kind: ((LOWEST, above(value)),)})
        case Op.GT:
            return Spans({kind: ((above(value), HIGHEST),)})
        case Op.GE:
            return Spans({kind: ((below(value), HIGHEST),)})
        case _:
            raise ValueError(f"{op} is no comparison")


def of_predicate(predicate: Predicate) -> Spans | None:
    """The single values that satisfy `predicate`; None where no order of values decides it."""
    spans: Spans
    if predicate.op.is_text:
        return None
    if predicate.op is Op.PRESENT:
        spans = EVERYTHING
    elif predicate.op is Op.IN:
        spans = Spans.of(span for value in predicate.values for span in compared(Op.EQ, value))
    elif predicate.op is Op.BETWEEN:
        low, high = predicate.values
        spans = compared(Op.GE, low) & compared(Op.LE, high)
    else:
        spans = compared(predicate.op, predicate.values[0])
    return ~spans if predicate.negated else spans
