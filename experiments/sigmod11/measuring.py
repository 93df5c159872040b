"""What the figures of this paper measure: its workloads, in both distributions, and who gains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.paper import measuring
from experiments.paper.figure import Claim
from experiments.paper.measuring import Row, Settings
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

RIVALS = ("kindex", "propagation", "gryphon", "sift", "scan")
"""Those of the paper's algorithms that are no BE-Tree."""

LOGIC: Logic = "strong"
"""The paper's: a rule matches only where the event has all attributes that it asks about."""

DISTRIBUTIONS = ("uniform", "zipf")


def matching(workload: Any, settings: Settings) -> list[Row]:
    """The milliseconds of each engine, and how many rules an event matches."""
    return measuring.matching(workload, MEASURED, settings, LOGIC)


def varied(
    settings: Settings, places: Iterable[dict[str, Any]], show: Callable[[dict[str, Any]], Row]
) -> list[Row]:
    """Measure `begen` with some of its parameters varied, in both distributions.

    `show` says which columns tell where along the axis a place stands.
    """
    rows: list[Row] = []
    listed = list(places)
    for distribution in DISTRIBUTIONS:
        for place in listed:
            workload = Workload(**{"size": settings.rules, "distribution": distribution, **place})
            about = {"distribution": distribution, **show(place)}
            rows += [about | row for row in matching(workload, settings)]
    return rows


def chosen(rows: Sequence[Row], **where: Any) -> list[Row]:
    """The rows whose columns are like that."""
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def saved(
    rows: Sequence[Row], engine: str, other: str, what: str, paper: str, **where: Any
) -> list[Claim]:
    """By how much of its time `engine` beats `other`, as the paper counts; none where one lacks."""
    times = {
        name: [row["ms"] for row in chosen(rows, engine=name, **where)] for name in (engine, other)
    }
    if not times[engine] or not times[other]:
        return []
    shares = [1 - a / b for a, b in zip(times[engine], times[other], strict=True)]
    low, high = min(shares), max(shares)
    ours = f"{low:.0%}" if low == high else f"{low:.0%} to {high:.0%}"
    return [Claim(f"{what}: time that {engine} saves against {other}", paper, ours)]


def saved_best(
    rows: Sequence[Row], engine: str, what: str, paper: str, **where: Any
) -> list[Claim]:
    """By how much of its time `engine` beats the next best of the paper, place by place."""
    own = [row["ms"] for row in chosen(rows, engine=engine, **where)]
    rivals = [[row["ms"] for row in chosen(rows, engine=name, **where)] for name in RIVALS]
    shares = [1 - mine / min(others) for mine, *others in zip(own, *rivals, strict=True)]
    ours = f"{min(shares):.0%} to {max(shares):.0%}"
    return [Claim(f"{what}: time that {engine} saves against the next best", paper, ours)]


def grown(rows: Sequence[Row], engine: str, what: str, paper: str, **where: Any) -> list[Claim]:
    """By how much the time grows from the first place to the last."""
    times = [row["ms"] for row in chosen(rows, engine=engine, **where)]
    return [
        Claim(f"{what}: growth of the time of {engine}", paper, f"{times[-1] / times[0]:.2g} ×")
    ]
