"""Counts the predicates that an index evaluates for a document, as the paper does."""

from __future__ import annotations

from typing import Any

from experiments.paper.measure import Row, encode_rules
from tamis.encode.events import EventEncoder
from tamis.engines.papers.intervals.count_predicates import count_evaluations
from tamis.engines.registry import load_engine

INDEXES = ("cluster", "interval", "hybrid", "segment", "interval-tree")
BASELINES = ("naive", "lazy")
DOCUMENTS = 50
"""As many as in the paper."""


def measure_evaluations(workload: Any, engines: tuple[str, ...], documents: int) -> list[Row]:
    """Count the mean number of evaluations of each engine, one row each."""
    rules, _ = encode_rules(workload, "strong")
    events = EventEncoder(rules).encode_many(workload.events(documents))
    rows = []
    for name in engines:
        counts = count_evaluations(load_engine(name)(rules), events)  # type: ignore[arg-type]
        rows.append({"engine": name, "evaluations": float(counts.mean()), "events": len(counts)})
    return rows


def evaluations_of(rows: list[Row], engine: str) -> list[float]:
    """The evaluations of one engine, in the order of its rows."""
    return [row["evaluations"] for row in rows if row["engine"] == engine]
