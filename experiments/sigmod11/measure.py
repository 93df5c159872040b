"""Measures the workloads of this paper in both distributions, and states who gains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.paper import measure
from experiments.paper.figure import Claim
from experiments.paper.measure import Row, Settings
from tamis.expr.model import Logic
from tamis.workloads.begen import Workload

MEASURED = (
    "betree",
    "betree-batch",
    "kindex",
    "propagation",
    "gryphon",
    "sift",
    "scan",
    "tiles",
)
"""The paper's algorithms, and our default."""

AS_WRITTEN = ("kindex-listed", "sift-listed", "scan-trees")
"""The rivals as the paper has them: in the k-index and SIFT a range lists all of its values, and
SCAN evaluates the predicates of a rule as they are written."""

RIVALS = ("kindex", "propagation", "gryphon", "sift", "scan")
"""The paper's algorithms other than the BE-Tree."""

LOGIC: Logic = "strong"
"""As in the paper: a rule matches only events that have all of its attributes."""

DISTRIBUTIONS = ("uniform", "zipf")


def measure_matching(workload: Any, settings: Settings) -> list[Row]:
    """Measure the milliseconds of each engine, and the share of rules that an event matches."""
    return measure.measure_matching(workload, MEASURED, settings, LOGIC)


def measure_all(workload: Any, settings: Settings) -> list[Row]:
    """As `measure_matching`, with the rivals as the paper has them."""
    return measure.measure_matching(workload, (*MEASURED, *AS_WRITTEN), settings, LOGIC)


def measure_variants(
    settings: Settings,
    places: Iterable[dict[str, Any]],
    show: Callable[[dict[str, Any]], Row],
    measure_place: Callable[[Any, Settings], list[Row]] = measure_matching,
) -> list[Row]:
    """Measure `begen` with some of its parameters varied, in both distributions.

    `show` turns the parameters of a place into the columns of its rows.
    """
    rows: list[Row] = []
    listed = list(places)
    for distribution in DISTRIBUTIONS:
        for place in listed:
            workload = Workload(**{"size": settings.rules, "distribution": distribution, **place})
            about = {"distribution": distribution, **show(place)}
            rows += [about | row for row in measure_place(workload, settings)]
    return rows


def select_rows(rows: Sequence[Row], **where: Any) -> list[Row]:
    """Select the rows whose columns have the given values."""
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def claim_saving(
    rows: Sequence[Row], engine: str, other: str, what: str, paper: str, **where: Any
) -> list[Claim]:
    """The share of `other`'s time that `engine` saves, as the paper counts it.

    There is no claim where one of the two was not measured.
    """
    times = {
        name: [row["ms"] for row in select_rows(rows, engine=name, **where)]
        for name in (engine, other)
    }
    if not times[engine] or not times[other]:
        return []
    shares = [1 - a / b for a, b in zip(times[engine], times[other], strict=True)]
    low, high = min(shares), max(shares)
    ours = f"{low:.0%}" if low == high else f"{low:.0%} to {high:.0%}"
    return [Claim(f"{what}: time that {engine} saves against {other}", paper, ours)]


def claim_saving_over_best(
    rows: Sequence[Row], engine: str, what: str, paper: str, **where: Any
) -> list[Claim]:
    """The share of the time of the paper's next best that `engine` saves, at each place."""
    own = [row["ms"] for row in select_rows(rows, engine=engine, **where)]
    rivals = [[row["ms"] for row in select_rows(rows, engine=name, **where)] for name in RIVALS]
    shares = [1 - mine / min(others) for mine, *others in zip(own, *rivals, strict=True)]
    ours = f"{min(shares):.0%} to {max(shares):.0%}"
    return [Claim(f"{what}: time that {engine} saves against the next best", paper, ours)]


def claim_growth(
    rows: Sequence[Row], engine: str, what: str, paper: str, **where: Any
) -> list[Claim]:
    """The growth of the time from the first place to the last."""
    times = [row["ms"] for row in select_rows(rows, engine=engine, **where)]
    return [
        Claim(f"{what}: growth of the time of {engine}", paper, f"{times[-1] / times[0]:.2g} ×")
    ]
