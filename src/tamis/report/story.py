"""What makes a report a story: the sentence at the top, time, kinds, an example, and changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from tamis.report.figures import BusyRule, Figures

__all__ = [
    "Baseline",
    "Costs",
    "Example",
    "Overlap",
    "SlowRule",
    "Story",
    "draw_timeline",
    "fold_copies",
    "summarize",
    "tell",
]

_LARGE: Final = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")


class Baseline(NamedTuple):
    """The same question answered without Tamis, on a sample."""

    name: str
    """What answered it: ``a hand-written Spark query``."""
    rules: int
    events: int
    seconds: float


class Example(NamedTuple):
    """An event, explained."""

    title: str
    text: str


class Overlap(NamedTuple):
    """Two rules that match much the same events."""

    rules: tuple[str, str]
    shared: int
    """How many events both match."""
    share: float
    """Their part of the events that either matches."""


class SlowRule(NamedTuple):
    """A rule that takes long, measured alone."""

    id: str
    text: str
    microseconds: float


class Costs(NamedTuple):
    """What one process takes for an event; :meth:`tamis.Matcher.costs` measures it."""

    microseconds: float
    """With all rules."""
    rules: int
    measured: int
    """How many rules were measured alone."""
    typical: float
    """The median of these."""
    slowest: Sequence[SlowRule] = ()
    """Those that take clearly longer, the slowest first."""


class Story(NamedTuple):
    """What a report tells beside its figures. Every part may be missing."""

    kinds: Mapping[str, tuple[int, int]] = {}
    """For each kind of rules how many rules and matches it has."""
    timeline: Sequence[tuple[str, int]] = ()
    """Matches by time: the name of a period, and how many events matched in it."""
    overlaps: Sequence[Overlap] = ()
    example: Example | None = None
    baseline: Baseline | None = None
    costs: Costs | None = None
    previous: Mapping[str, float] = {}
    """Figures of the last run, by the names that `summarize` gives them."""


def summarize(figures: Figures) -> dict[str, float]:
    """The figures that the next report compares with."""
    return {
        "matches": figures.matches,
        "rules that matched": figures.matches_by_rule.size,
        "rules that never fired": figures.silent_rules or 0,
        "events with a match": figures.rules_by_event.size,
        **{f"seconds: {stage}": seconds for stage, seconds in figures.seconds.items()},
    }


def tell(figures: Figures, baseline: Baseline | None) -> str:
    """The sentence at the top: how many pairs were decided in which time; empty if unknown."""
    seconds = figures.seconds.get("match", 0.0)
    if not figures.rules or not figures.events or seconds <= 0:
        return ""
    pairs = figures.rules * figures.events
    words = (
        f"{_say(pairs)} pairs of events and rules decided in {_say_seconds(seconds)}: "
        f"{_say(pairs / seconds)} a second."
    )
    if baseline is None or baseline.seconds <= 0:
        return words
    whole = pairs / (baseline.rules * baseline.events) * baseline.seconds
    name = baseline.name[:1].upper() + baseline.name[1:]
    return (
        f"{words} {name} took {_say_seconds(baseline.seconds)} for {baseline.rules:,} of the rules,"
        f" measured in the same run; at that rate all of them would take {_say_seconds(whole)}."
    )


def fold_copies(busiest: Sequence[BusyRule]) -> list[list[BusyRule]]:
    """Put rules together that differ only in numbers, in the order of the first of each."""
    groups: dict[str, list[BusyRule]] = {}
    for rule in busiest:
        shape = rule.id if rule.text is None else _NUMBER.sub("#", rule.text)
        groups.setdefault(shape, []).append(rule)
    return list(groups.values())


def draw_timeline(timeline: Sequence[tuple[str, int]]) -> str:
    """Bars over time, drawn with the colours of the page."""
    most = max([1, *(count for _, count in timeline)])
    step = 100 / len(timeline)
    bars = "".join(
        f'<rect x="{number * step + step * 0.08:.3f}" y="{40 - 40 * count / most:.3f}" '
        f'width="{step * 0.84:.3f}" height="{40 * count / most:.3f}">'
        f"<title>{escape(name)}: {count:,}</title></rect>"
        for number, (name, count) in enumerate(timeline)
    )
    peak = max(timeline, key=lambda each: each[1])
    label = f"Matches from {timeline[0][0]} to {timeline[-1][0]}; most in {peak[0]}: {peak[1]:,}."
    return (
        f'<svg class="timeline" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{bars}</svg>'
    )


def _say(number: float) -> str:
    for size, name in _LARGE:
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,.0f}"


def _say_seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} seconds"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3_600:.0f} hours" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
