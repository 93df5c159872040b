"""Measures the algorithms of this paper, in its logic and with its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from experiments.paper import measure
from experiments.paper.measure import (
    Row,
    Settings,
    encode_rules,
    match_call,
    summarize,
    time_in_turns,
)
from tamis.encode.arrays import Events
from tamis.encode.events import EventEncoder
from tamis.engines.base import Engine
from tamis.engines.registry import load_engine
from tamis.expr.event import flatten
from tamis.expr.model import Logic
from tamis.expr.weights import EventWeights
from tamis.workloads.ads import Workload

DNF = ("kindex", "propagation", "sift", "scan", "scan-trees", "tiles")
CNF = ("kindex-cnf", "pscan", "scan", "scan-trees", "tiles")
RANKED = {"dnf": ("kindex", "tiles"), "cnf": ("kindex-cnf", "tiles")}
BEST = 5
"""How many rules the ranking algorithms return."""

LOGIC: Logic = "weak"
"""The paper's ∉ holds where the attribute is absent."""


def measure_matching(workload: Workload, engines: Sequence[str], settings: Settings) -> list[Row]:
    """Measure the milliseconds of each engine, and the share of rules that an event matches."""
    return measure.measure_matching(workload, engines, settings, LOGIC)


@cache
def measure_ranking(workload: Workload, engines: Sequence[str], settings: Settings) -> list[Row]:
    """Measure the milliseconds of each engine to match and to rank weighted rules and events."""
    rules, _ = encode_rules(workload, LOGIC, weighted=True)
    encoder = EventEncoder(rules)
    events = [
        encoder.encode_weighted(flatten(event), EventWeights.of(weights))
        for event, weights in workload.weighted_events(settings.events)
    ]
    built = [load_engine(name).choose(rules)(rules) for name in engines]
    calls = [call for engine in built for call in (match_call(engine), _rank_call(engine))]
    taken, found = time_in_turns(calls, events, settings.seconds)
    rows = []
    for at, name in enumerate(engines):
        for ranked in (False, True):
            times = summarize(taken[2 * at + ranked])
            share = float(found.mean() / rules.size)
            rows.append({"engine": name, "ranked": ranked, "matches": share, **times})
    return rows


def _rank_call(engine: Engine) -> Callable[[Events], int]:
    """Return a call that finds the best rules of an event; it gives -1 instead of a count."""

    def rank(events: Events) -> int:
        engine.top_one(events, BEST)
        return -1

    return rank


def measure_construction(workload: Workload, engines: Sequence[str]) -> Iterator[Row]:
    """Measure the build time of each engine, its size and that of its lists."""
    for engine, row in measure.measure_construction(workload, engines, LOGIC):
        arrays: Any = engine.arrays
        postings = getattr(arrays, "postings", None)
        lists = None if postings is None else _bytes(postings) / 1e6
        yield {"form": workload.form, **row, "index_mb": lists}


def _bytes(arrays: Iterable[Any]) -> int:
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
