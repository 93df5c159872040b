"""The paper's profiles and documents: two attributes, closed intervals, dispersed by Zipf's law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

ATTRIBUTES = ("x", "y")
DOMAIN = 50_000
"""Values go from 0 to this."""


@dataclass(frozen=True)
class Profiles:
    """A workload whose rules are profiles and whose events are documents.

    An interval begins at some distance from the middle, to the left or to the right. The paper says
    that distances follow Zipf's law and that the skew sets how dispersed profiles are, but not how
    far they go; here they go to the ends.
    """

    size: int
    width: int = 10
    skew: float = 0.3
    seed: int = 1

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """The lower end of the interval of each profile on each attribute."""
        random = np.random.default_rng(self.seed)
        most = DOMAIN // 2
        chance = np.arange(1, most + 1) ** -self.skew
        shape = (self.size, len(ATTRIBUTES))
        distance = random.choice(np.arange(most), shape, p=chance / chance.sum())
        begins: NDArray[np.int64] = most + random.choice([-1, 1], shape) * distance
        return begins

    @property
    def overlap(self) -> float:
        """The mean share of an interval that other intervals cover as well."""
        shares = [self._covered_share(column) for column in self.begins.T]
        return float(np.mean(shares))

    def _covered_share(self, begins: NDArray[np.int64]) -> float:
        ends = begins + self.width + 1
        changes = np.zeros(DOMAIN + self.width + 2, np.int64)
        np.add.at(changes, begins, 1)
        np.add.at(changes, ends, -1)
        covered_twice = np.concatenate([[0], np.cumsum(np.cumsum(changes) > 1)])
        return float(np.mean(covered_twice[ends] - covered_twice[begins]) / (self.width + 1))

    @property
    def overlapping_pairs(self) -> float:
        """The share of all pairs of intervals on an attribute that have a value in common."""
        columns = np.sort(self.begins, axis=0).T
        after = [np.searchsorted(c, c + self.width, side="right").sum() for c in columns]
        pairs = self.size * (self.size - 1) / 2
        return float((np.mean(after) - self.size * (self.size + 1) / 2) / pairs)

    def rules(self) -> Iterator[tuple[int, str]]:
        for number, begins in enumerate(self.begins.tolist()):
            intervals = zip(ATTRIBUTES, begins, strict=True)
            yield (
                number,
                " AND ".join(f"{n} BETWEEN {a} AND {a + self.width}" for n, a in intervals),
            )

    def events(self, count: int) -> list[dict[str, int]]:
        random = np.random.default_rng(self.seed + 1)
        drawn = random.integers(0, DOMAIN, (count, len(ATTRIBUTES)), endpoint=True)
        return [dict(zip(ATTRIBUTES, values, strict=True)) for values in drawn.tolist()]
