"""The paper's measure: how many predicates an index evaluates for a document."""

from __future__ import annotations

from typing import Any

from experiments.paper.measuring import Row, encoded
from tamis.encode.events import EventEncoder
from tamis.engines.papers.intervals.count_predicates import count_evaluations
from tamis.engines.registry import load_engine

INDEXES = ("cluster", "interval", "hybrid", "segment", "interval-tree")
BASELINES = ("naive", "lazy")
DOCUMENTS = 50
"""The paper's."""


def evaluations(workload: Any, engines: tuple[str, ...], documents: int) -> list[Row]:
    """The mean number of evaluations of each engine, a row each."""
    rules, _ = encoded(workload, "strong")
    events = EventEncoder(rules).encode_many(workload.events(documents))
    rows = []
    for name in engines:
        counts = count_evaluations(load_engine(name)(rules), events)  # type: ignore[arg-type]
        rows.append({"engine": name, "evaluations": float(counts.mean()), "events": len(counts)})
    return rows


def of(rows: list[Row], engine: str) -> list[float]:
    """The numbers of one engine, in order."""
    return [row["evaluations"] for row in rows if row["engine"] == engine]
