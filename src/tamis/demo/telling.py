"""What the demo's report tells: alerts by day and kind, overlaps, a flight, and a query by hand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tamis.report import Baseline, Costs, Example, Overlap, SlowRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    import tamis

__all__ = [
    "count_kinds",
    "count_weeks",
    "describe_flight",
    "explain_flight",
    "find_overlaps",
    "measure_costs",
    "run_by_hand",
]

_BY_HAND: Final = 25
"""How many rules the query by hand has, each a condition of one statement."""
_BUSY: Final = 24
_COSTED: Final = 50
"""How many flights to measure the costs of rules with."""
_OVERLAPS: Final = 6
_LEAST_SHARE: Final = 0.1


def count_kinds(alerts: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """How many rules and alerts each kind has."""
    rules = Counter(rule.rpartition("-")[0] for rule in alerts)
    fired: Counter[str] = Counter()
    for rule, count in alerts.items():
        fired[rule.rpartition("-")[0]] += count
    return {kind: (rules[kind], fired[kind]) for kind in rules}


def count_weeks(matches: Path, event: str, flights: pa.Table) -> list[tuple[str, int]]:
    """How many alerts the flights of each week have."""
    per_flight = ds.dataset(matches).to_table([event])[event].value_counts()
    rows, counts = per_flight.field("values").to_numpy(), per_flight.field("counts").to_numpy()
    days = flights["time_hour"].cast(pa.timestamp("s")).to_numpy().astype("datetime64[D]")
    first = days.min()
    weeks = ((days - first).astype(np.int64) // 7)[rows]
    sums = np.bincount(weeks, weights=counts)
    begin = first + np.arange(0, 7 * len(sums), 7).astype("timedelta64[D]")
    return [(f"week of {day}", int(total)) for day, total in zip(begin, sums, strict=True)]


def find_overlaps(matches: Path, event: str, alerts: Mapping[str, int]) -> list[Overlap]:
    """Of the busiest rules, the pairs that share the most flights."""
    busy = sorted(alerts, key=lambda rule: -alerts[rule])[:_BUSY]
    found = ds.dataset(matches).to_table(
        ["rule", event], filter=pc.field("rule").isin(pa.array(busy))
    )
    flights: dict[str, set[int]] = {rule: set() for rule in busy}
    for rule, flight in zip(found["rule"].to_pylist(), found[event].to_pylist(), strict=True):
        flights[rule].add(flight)
    pairs = []
    for one, other in combinations(busy, 2):
        shared = len(flights[one] & flights[other])
        share = shared / max(1, len(flights[one] | flights[other]))
        if share >= _LEAST_SHARE:
            pairs.append(Overlap((one, other), shared, share))
    return sorted(pairs, key=lambda pair: -pair.share)[:_OVERLAPS]


def describe_flight(matcher: tamis.Matcher, flight: dict[str, Any]) -> str:
    """Say which flight it is, and how many alerts it raised."""
    day = f"{date(flight['year'], flight['month'], flight['day']):%d %B}".lstrip("0")
    return (
        f"{flight['airline']} {flight['flight']} from {flight['origin']} to "
        f"{flight['destination'] or flight['dest']} on {day} raised the most alerts: "
        f"{len(matcher.match(flight)):,}."
    )


def explain_flight(matcher: tamis.Matcher, flight: dict[str, Any]) -> Example | None:
    """The flight, and why its rule with the highest score fired."""
    best = matcher.top(flight, n=1)
    if not best:
        return None
    title = f"{describe_flight(matcher, flight)} Why {best[0][0]} is one of them:"
    return Example(title, str(matcher.explain(best[0][0], flight)))


def measure_costs(matcher: tamis.Matcher, flights: pa.Table) -> Costs:
    """What a flight takes, and the rules that take longest."""
    found = matcher.costs(flights.slice(0, _COSTED).to_pylist())
    slowest = [SlowRule(str(each.rule), each.text, each.microseconds) for each in found.slowest]
    return Costs(found.microseconds, found.rules, found.measured, found.typical, slowest)


def run_by_hand(flights: DataFrame, texts: Mapping[str, str], count: int) -> Baseline | None:
    """Count the alerts of some rules by one Spark query, as one would write it without Tamis."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    step = max(1, len(texts) // _BY_HAND)
    chosen = list(texts.values())[::step][:_BY_HAND]
    started = time.perf_counter()
    try:
        flights.select(*(F.count_if(F.expr(text)) for text in chosen)).collect()
    except PySparkException:  # A dialect of Spark that reads a rule differently.
        return None
    seconds = time.perf_counter() - started
    return Baseline("a hand-written Spark query", len(chosen), count, seconds)
