"""What a report shows, as small numbers.

How many rules had 0, 1, 2, … matches is all that plots and quantiles need, and it is small: `k`
different numbers of matches need at least ``k * k / 2`` matches, so a billion matches have at most
45,000 of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bar", "BusyRule", "Distribution", "Figures", "SilentRule"]


class Bar(NamedTuple):
    """Things that occur from `low` up to `high` times, both included."""

    low: int
    high: int
    things: int

    @property
    def label(self) -> str:
        """The bounds for people."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}–{self.high:,}"


class Distribution(NamedTuple):
    """How many things (rules, events) occur how often."""

    times: NDArray[np.int64]
    """The numbers of occurrences that there are, above 0 and ascending."""
    things: NDArray[np.int64]
    """How many things occur so often."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Self:
        """From pairs of times and things, in any order."""
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    @property
    def size(self) -> int:
        """How many things occur at all."""
        return int(self.things.sum())

    @property
    def total(self) -> int:
        """How many occurrences there are."""
        return int(self.times @ self.things)

    def quantile(self, share: float) -> int:
        """The times that a `share` of the things does not exceed; 0 if there are no things."""
        if not self.size:
            return 0
        wanted = max(1, int(np.ceil(share * self.size)))
        return int(self.times[np.searchsorted(self.things.cumsum(), wanted)])

    def share_of_top(self, share: float) -> float:
        """The share of occurrences that the busiest `share` of the things has."""
        things, occurrences = self.from_the_top()
        if not occurrences[-1]:
            return 0.0
        return float(np.interp(share * self.size, things, occurrences) / occurrences[-1])

    def from_the_top(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many occurrences the busiest 0, …, all things have together."""
        things = np.concatenate([[0], self.things[::-1].cumsum()])
        return things, np.concatenate([[0], (self.times * self.things)[::-1].cumsum()])

    def bars(self) -> list[Bar]:
        """The things that occur 1, 2 to 3, 4 to 7, … times, up to the most frequent."""
        bars = []
        low = 1
        while self.size and low <= self.times[-1]:
            first, last = np.searchsorted(self.times, [low, 2 * low])
            bars.append(Bar(low, 2 * low - 1, int(self.things[first:last].sum())))
            low *= 2
        return bars


class BusyRule(NamedTuple):
    """A rule with many matches."""

    id: str
    matches: int
    text: str | None


class SilentRule(NamedTuple):
    """A rule without a match."""

    id: str
    text: str | None


@dataclass(frozen=True)
class Figures:
    """What is known of a set of matches.

    Parameters
    ----------
    matches_by_rule
        How many rules had how many matches.
    rules_by_event
        How many events matched how many rules.
    rules, events
        How many there are, those without a match too; None if that is not known.
    busiest
        The rules with the most matches, busiest first.
    silent_rules
        How many rules have no match; None if that is not known.
    silent
        Some of them.
    partitions
        How many matches each partition holds.
    seconds
        What the stages took: ``{"build": 12.5, "match": 40.2}``. Where a stage is called build,
        rules a second are shown; where it is called match, events and matches a second.
    facts
        What else a reader should know, by its name: where the rules came from, which version.
    """

    matches_by_rule: Distribution
    rules_by_event: Distribution
    rules: int | None = None
    events: int | None = None
    busiest: tuple[BusyRule, ...] = ()
    silent_rules: int | None = None
    silent: tuple[SilentRule, ...] = ()
    partitions: tuple[int, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def matches(self) -> int:
        """How many matches there are."""
        return self.matches_by_rule.total

    @property
    def events_without(self) -> int | None:
        """How many events match nothing; None if that is not known."""
        return None if self.events is None else max(0, self.events - self.rules_by_event.size)

    def rates(self, stage: str) -> dict[str, float]:
        """What a stage did in a second, by what was done."""
        seconds = self.seconds[stage]
        done: dict[str, int | None] = {}
        if stage == "build":
            done = {"rules": self.rules}
        elif stage == "match":
            done = {"events": self.events, "matches": self.matches}
        return {what: n / seconds for what, n in done.items() if n is not None and seconds > 0}
