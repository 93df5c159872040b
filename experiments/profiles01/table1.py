"""Table 1: how evaluations grow with the number of profiles, at best and at worst.

*apart*: intervals side by side, which every index can split, and a document in one of them.
*nested*: intervals inside one another, which no endpoint splits, and a document in the innermost
one. *alike*: one interval that all profiles share, so that an Interval Index stops at its root.

Usage: python -m experiments.profiles01.table1 [--quick]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings
from experiments.profiles01.measure import BASELINES, INDEXES, measure_evaluations
from experiments.profiles01.page import PAPER
from experiments.profiles01.profiles import ATTRIBUTES

SIZES = (100, 1_000, 10_000)
QUICK_SIZES = (30, 300)
WORST = {
    "cluster": ("nested", "n"),
    "interval": ("apart", "log n"),
    "hybrid": ("apart", "log n"),
    "segment": ("apart", "log n"),
    "interval-tree": ("nested", "n"),
}
BEST = {**dict.fromkeys(INDEXES, ("apart", "log n")), "interval": ("alike", "1")}
"""The profiles on which an index is at its worst and at its best, with the paper's growth there."""


@dataclass(frozen=True)
class Apart:
    """Intervals side by side."""

    size: int

    def rules(self) -> Iterator[tuple[int, str]]:
        for number in range(self.size):
            low = 10 * number
            yield number, " AND ".join(f"{n} BETWEEN {low} AND {low + 4}" for n in ATTRIBUTES)

    def events(self, count: int) -> list[dict[str, int]]:
        last = 10 * (self.size - 1) + 2
        return [dict.fromkeys(ATTRIBUTES, last) for _ in range(count)]


@dataclass(frozen=True)
class Alike:
    """The same interval in all profiles, each with another equality, and documents in it."""

    size: int

    def rules(self) -> Iterator[tuple[int, str]]:
        for number in range(self.size):
            alike = " AND ".join(f"{name} BETWEEN 0 AND 9" for name in ATTRIBUTES)
            yield number, f"{alike} AND other = {number}"

    def events(self, count: int) -> list[dict[str, int]]:
        return [dict.fromkeys(ATTRIBUTES, 5) for _ in range(count)]


@dataclass(frozen=True)
class Nested:
    """Intervals inside one another, with documents in all of them."""

    size: int

    def rules(self) -> Iterator[tuple[int, str]]:
        for number in range(1, self.size + 1):
            interval = f"BETWEEN {-number} AND {number}"
            yield number, " AND ".join(f"{name} {interval}" for name in ATTRIBUTES)

    def events(self, count: int) -> list[dict[str, int]]:
        return [dict.fromkeys(ATTRIBUTES, 0) for _ in range(count)]


def make(settings: Settings) -> Figure:
    sizes = QUICK_SIZES if settings.rules < 1_000 else SIZES
    rows: list[Row] = []
    for size in sizes:
        for name, workload in (
            ("apart", Apart(size)),
            ("alike", Alike(size)),
            ("nested", Nested(size)),
        ):
            found = measure_evaluations(workload, INDEXES + BASELINES, 1)
            rows += [{"profiles": name, "n": size, **row} for row in found]
    claims = [
        claim_growth(rows, *cases[name], name, sizes, what)
        for what, cases in (("at worst", WORST), ("at best", BEST))
        for name in INDEXES
    ]
    return Figure("table1", "Table 1: growth of evaluations", "", "", rows, claims, y="evaluations")


def claim_growth(
    rows: list[Row], where: str, paper: str, name: str, sizes: tuple[int, ...], what: str
) -> Claim:
    """The growth from the fewest to the most profiles, beside that of n and log n."""
    counts = [r["evaluations"] for r in rows if r["profiles"] == where and r["engine"] == name]
    most, fewest = sizes[-1], sizes[0]
    by_log = math.log2(most) / math.log2(fewest)
    shown = f"{counts[-1] / counts[0]:.2g} × (log n: {by_log:.2g}, n: {most / fewest:,.0f})"
    return Claim(f"{name} {what} ({where}): growth of the evaluations", paper, shown)


if __name__ == "__main__":
    run(make, PAPER)
