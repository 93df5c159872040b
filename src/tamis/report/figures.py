"""The numbers that a report shows.

Plots and quantiles only need to know how many rules had 1, 2, 3, … matches. That table is small:
`k` different numbers of matches need at least ``k * k / 2`` matches, so a billion matches have at
most 45,000 of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bar", "BusyRule", "Distribution", "Figures", "SilentRule"]


class Bar(NamedTuple):
    """How many things occur from `low` to `high` times, both included."""

    low: int
    high: int
    things: int

    @property
    def label(self) -> str:
        """The bounds as text."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}–{self.high:,}"


class Distribution(NamedTuple):
    """How many things (rules or events) occur how often."""

    times: NDArray[np.int64]
    """The numbers of occurrences, above 0 and ascending."""
    things: NDArray[np.int64]
    """For each of them, how many things occur that often."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Self:
        """Build from (occurrences, item count) pairs in any order."""
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    @property
    def size(self) -> int:
        """How many things occur at least once."""
        return int(self.things.sum())

    @property
    def total(self) -> int:
        """How many occurrences there are in all."""
        return int(self.times @ self.things)

    def quantile(self, share: float) -> int:
        """The times that a `share` of the things does not exceed; 0 if there are no things."""
        if not self.size:
            return 0
        rank = max(1, int(np.ceil(share * self.size)))
        return int(self.times[np.searchsorted(self.things.cumsum(), rank)])

    def share_of_top(self, share: float) -> float:
        """The share of all occurrences that the busiest `share` of the things has."""
        things, occurrences = self._sum_from_top()
        if not occurrences[-1]:
            return 0.0
        return float(np.interp(share * self.size, things, occurrences) / occurrences[-1])

    def _sum_from_top(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many occurrences the busiest 0, …, all things have together."""
        things = np.concatenate([[0], self.things[::-1].cumsum()])
        return things, np.concatenate([[0], (self.times * self.things)[::-1].cumsum()])

    def bars(self) -> list[Bar]:
        """Count the things that occur 1, 2 to 3, 4 to 7, … times, up to the most frequent."""
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
    """The figures of a set of matches.

    Parameters
    ----------
    matches_by_rule
        How many rules had how many matches.
    rules_by_event
        How many events matched how many rules.
    rules, events
        How many there are, with or without a match; None if unknown.
    busiest
        The rules with the most matches, busiest first.
    silent_rules
        How many rules have no match; None if unknown.
    silent
        Some of them.
    partitions
        How many matches each partition has.
    seconds
        The time of each stage: ``{"build": 12.5, "match": 40.2}``. For the stage build, the report
        shows rules per second; for the stage match, events and matches per second.
    facts
        Further facts by name: where the rules came from, which version of the index.
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
        """How many events match nothing; None if unknown."""
        return None if self.events is None else max(0, self.events - self.rules_by_event.size)

    def rates(self, stage: str) -> dict[str, float]:
        """How many things of each kind a stage handled per second."""
        seconds = self.seconds[stage]
        done: dict[str, int | None] = {}
        if stage == "build":
            done = {"rules": self.rules}
        elif stage == "match":
            done = {"events": self.events, "matches": self.matches}
        return {what: n / seconds for what, n in done.items() if n is not None and seconds > 0}
