"""How the matching rules change while one value of an event changes.

Two values between the same neighbours that rules mention satisfy the same predicates, so there are
as many different answers as there are mentioned values and gaps between them: one search for each
tells everything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tamis.errors import EventError
from tamis.expr.event import FlatEvent, Kind, kind_of
from tamis.expr.model import Value
from tamis.expr.value_order import LINES, Line
from tamis.matcher.analysis.hard_events import to_event
from tamis.matcher.analysis.vocabulary import Mentioned
from tamis.matcher.rule import RuleId

__all__ = ["Boundaries", "Stretch", "find_boundaries"]

_LINE_OF = {line.kind: line for line in LINES}


class Stretch(NamedTuple):
    """Neighbouring values of an attribute for which the same rules match."""

    low: Value | None
    """The mentioned value at its lower end; None if it has none."""
    high: Value | None
    """The mentioned value at its upper end; None if it has none. Equal to `low` for a stretch that
    is this value alone; otherwise both ends are outside."""
    value: Value
    """A value in it."""
    matches: int
    """How many rules match."""
    gained: tuple[RuleId, ...]
    """The rules that match here, and not in the stretch before."""
    lost: tuple[RuleId, ...]
    """The rules that match in the stretch before, and not here."""


class Boundaries(NamedTuple):
    """How the matching rules change along the values of an attribute."""

    attribute: str
    kind: str
    """``"number"``, ``"timestamp"``, ``"string"`` or ``"boolean"``."""
    stretches: tuple[Stretch, ...]
    """In rising order; the first has no gained or lost rules."""
    current: int | None
    """The stretch of the event's own value; None if the event has none of this kind."""
    cuts_below: int
    cuts_above: int
    """How many mentioned values lie below and above those that are shown."""
    is_complete: bool
    """Whether the rules can change at no other value; see `Mentioned`."""


def find_boundaries(
    event: FlatEvent,
    mentioned: Mentioned,
    match: Callable[[Sequence[Mapping[str, Any]]], list[list[RuleId]]],
    limit: int,
) -> Boundaries:
    """Find how the matching rules change when an attribute of an event changes.

    Parameters
    ----------
    event
        The event. If the attribute has a value, the values around it are looked at.
    mentioned
        The values of the attribute that rules mention.
    match
        Finds the rules that each of some events satisfies.
    limit
        How many mentioned values to look at, at most.

    Raises
    ------
    EventError
        No rule compares the attribute with a value.
    """
    line, own = _choose_line(event, mentioned)
    cuts = mentioned.values[line.kind]
    first = _choose_first(cuts, own, limit)
    chosen = cuts[first : first + limit]
    spans = list(_list_spans(line, chosen, is_first=first == 0))
    # As a user would write them: an attribute that is declared as one value takes no list.
    events = [to_event({**event, mentioned.attribute: [value]}) for _, _, value in spans]
    answers = match(events)
    stretches: list[Stretch] = []
    before: list[RuleId] = answers[0] if answers else []
    for (low, high, value), rules in zip(spans, answers, strict=True):
        gained = tuple(id for id in rules if id not in frozenset(before))
        lost = tuple(id for id in before if id not in frozenset(rules))
        stretches.append(Stretch(low, high, value, len(rules), gained, lost))
        before = rules
    return Boundaries(
        mentioned.attribute,
        line.kind.name.lower(),
        tuple(stretches),
        None if own is None else _find_current(stretches, own),
        first,
        len(cuts) - first - len(chosen),
        mentioned.is_complete,
    )


def _choose_line(event: FlatEvent, mentioned: Mentioned) -> tuple[Line, Any]:
    """The line of the event's value, or the one with the most mentioned values; and the value."""
    for value in event.get(mentioned.attribute, ()):
        kind = kind_of(value)
        if mentioned.values[kind]:
            return _LINE_OF[kind], value
    kind = max(
        mentioned.values, key=lambda kind: len(mentioned.values[kind]) * (kind != Kind.BOOLEAN)
    )
    if not mentioned.values[kind]:
        raise EventError(f"no rule compares {mentioned.attribute!r} with a value")
    return _LINE_OF[kind], None


def _choose_first(cuts: Sequence[Any], own: Any, limit: int) -> int:
    """Where to begin, so that the event's own value is in the middle."""
    at = 0 if own is None else bisect_left(cuts, own)
    return max(0, min(at - limit // 2, len(cuts) - limit))


def _list_spans(
    line: Line, cuts: Sequence[Value], *, is_first: bool
) -> Iterator[tuple[Value | None, Value | None, Value]]:
    """The stretches between and at these values: lower end, upper end, and a value inside."""
    if line.kind is Kind.BOOLEAN:
        yield from ((value, value, value) for value in cuts)
        return
    if cuts and is_first:
        below = _value_below(line, cuts[0])
        if below is not None:
            yield None, cuts[0], below
    for number, cut in enumerate(cuts):
        yield cut, cut, cut
        above = cuts[number + 1] if number + 1 < len(cuts) else None
        inside = _value_between(line, cut, above)
        if inside is not None:
            yield cut, above, inside


def _value_below(line: Line, cut: Any) -> Value | None:
    """A plain value below the lowest mentioned one."""
    if line.kind is Kind.NUMBER and isinstance(cut, int | float):
        return cut - 1 if abs(cut) < 2**52 else line.least
    return line.least if line.least < cut else None


def _value_between(line: Line, low: Any, high: Any) -> Value | None:
    """A value above `low` and, if there is one, below `high`; a plain one where possible."""
    if line.kind is Kind.NUMBER and isinstance(low, int | float) and abs(low) < 2**52:
        middle = (
            low + 1 if high is None else (low + high) / 2 if isinstance(high, int | float) else None
        )
        if middle is not None and low < middle and (high is None or middle < high):
            is_small = abs(middle) < 2**53
            return int(middle) if is_small and float(middle).is_integer() else middle
    after = line.after(low)
    return after if after is not None and (high is None or after < high) else None


def _find_current(stretches: Sequence[Stretch], own: Any) -> int | None:
    for number, stretch in enumerate(stretches):
        if stretch.low == stretch.high:
            if own == stretch.low:
                return number
        elif (stretch.low is None or stretch.low < own) and (
            stretch.high is None or own < stretch.high
        ):
            return number
    return None
