"""What the experiments share: a workload in, the times of engines side by side out.

A time is that of the engine alone on an encoded event, as the paper measures the online part only:
the processor's time of the one thread, so that waiting for other processes does not count. Engines
take turns, event by event, so that a busy machine spoils all of them alike; each event has two
turns, of which the better one counts, and a figure shows the mean over events.

A workload that several figures need is measured once in a run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.engines.registry import ENGINES
from tamis.expr.event import flatten
from tamis.expr.sql import parse
from tamis.expr.weights import EventWeights, RuleWeights
from tamis.workloads.ads import Workload

Row = dict[str, Any]

DNF = ("kindex", "propagation", "sift", "scan", "tiles")
CNF = ("kindex-cnf", "pscan", "scan", "tiles")
RANKED = {"dnf": ("kindex", "tiles"), "cnf": ("kindex-cnf", "tiles")}
BEST = 5
"""How many rules the ranking algorithms return."""

LOGIC = "weak"
"""The paper's ∉ holds where the attribute is absent."""

_ROUNDS = 2
_FEWEST = 5
"""How many events are matched at least, however long it takes."""


class Settings(NamedTuple):
    """How much is measured."""

    rules: int = 200_000
    """What stands for the paper's million where a figure takes several workloads."""
    most: int = 1_000_000
    """As many as in the paper, for what grows with the rules: construction and scalability."""
    events: int = 200
    seconds: float = 20
    """What matching on one workload may take, more or less."""


QUICK = Settings(600, 800, 5, 0.5)
"""Only to see it run."""


@lru_cache(maxsize=1)
def encoded(workload: Workload, weighted: bool = False) -> tuple[EncodedRules, float]:
    """The rules of a workload, and the seconds it took to read and encode them."""
    encoder = RuleEncoder()
    seconds = 0.0
    rules = workload.weighted_rules() if weighted else ((*rule, None) for rule in workload.rules())
    for _, text, weights in rules:
        start = perf_counter()
        if weights is None:
            encoder.add_text(text, LOGIC)
        else:
            tree = parse(text)
            encoder.add(tree, LOGIC, RuleWeights.of(weights, tree))
        seconds += perf_counter() - start
    start = perf_counter()
    return encoder.finish(), seconds + perf_counter() - start


@cache
def matching(workload: Workload, engines: Sequence[str], settings: Settings) -> list[Row]:
    """The milliseconds of each engine, and how many rules an event matches."""
    rules, _ = encoded(workload)
    encoder = EventEncoder(rules)
    events = [encoder.encode(event) for event in workload.events(settings.events)]
    built = [ENGINES[name](rules) for name in engines]
    taken, found = _in_turns([_matching(engine) for engine in built], events, settings.seconds)
    return [
        {"engine": name, "matches": float(found.mean() / rules.size), **_times(times)}
        for name, times in zip(engines, taken, strict=True)
    ]


@cache
def ranking(workload: Workload, engines: Sequence[str], settings: Settings) -> list[Row]:
    """The milliseconds of each engine to match and to rank, on weighted rules and events."""
    rules, _ = encoded(workload, weighted=True)
    encoder = EventEncoder(rules)
    events = [
        encoder.encode_weighted(flatten(event), EventWeights.of(weights))
        for event, weights in workload.weighted_events(settings.events)
    ]
    built = [ENGINES[name](rules) for name in engines]
    ways = [way for engine in built for way in (_matching(engine), _ranking(engine))]
    taken, found = _in_turns(ways, events, settings.seconds)
    rows = []
    for at, name in enumerate(engines):
        for ranked in (False, True):
            times = _times(taken[2 * at + ranked])
            share = float(found.mean() / rules.size)
            rows.append({"engine": name, "ranked": ranked, "matches": share, **times})
    return rows


def construction(workload: Workload, engines: Sequence[str]) -> Iterator[Row]:
    """What it takes to build each engine, and how large it is."""
    rules, seconds = encoded(workload)
    conjunctions = len(rules.forms.conjunction_start) - 1
    for name in engines:
        gc.collect()
        start = perf_counter()
        engine = ENGINES[name](rules)
        built = perf_counter() - start
        arrays: Any = engine.arrays
        postings = getattr(arrays, "postings", None)
        yield {
            "engine": name,
            "form": workload.form,
            "rules": rules.size,
            "conjunctions": conjunctions,
            "programs": len(rules.forms.program_rule),
            "encode_s": seconds,
            "build_s": built,
            "index_mb": None if postings is None else _bytes(postings) / 1e6,
            "all_mb": engine.nbytes / 1e6,
        }


def _bytes(arrays: Iterable[Any]) -> int:
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def _times(taken: NDArray[np.float64]) -> Row:
    return {
        "ms": float(taken.mean()),
        "ms_median": float(np.median(taken)),
        "events": len(taken),
    }


def _matching(engine: Engine) -> Callable[[Events], int]:
    """A call that matches an event and says how many rules it matches."""
    scratch, all_of = engine.new_scratch(), engine._all
    out, counts = np.empty(engine.rules.size, np.int32), np.zeros(1, np.int64)

    def match(events: Events) -> int:
        engine.run(events, 0, 1, all_of, scratch, out, counts)
        return int(counts[0])

    return match


def _ranking(engine: Engine) -> Callable[[Events], int]:
    """A call that finds the best rules of an event; -1, since it does not say how many match."""

    def rank(events: Events) -> int:
        engine.top_one(events, BEST)
        return -1

    return rank


def _in_turns(
    calls: Sequence[Callable[[Events], int]], events: Sequence[Events], seconds: float
) -> tuple[list[NDArray[np.float64]], NDArray[np.int64]]:
    """The milliseconds of each call on each event, and how many rules events match.

    As many events as the budget allows, and a few in any case. Calls that find different numbers of
    rules cannot be compared, and raise.
    """
    for call in calls:
        call(events[0])
    rows: list[list[float]] = []
    found: list[int] = []
    begin = perf_counter()
    for event in events:
        best = [np.inf] * len(calls)
        counts = set()
        for _ in range(_ROUNDS):
            for at, call in enumerate(calls):
                start = thread_time()
                counts.add(call(event))
                best[at] = min(best[at], 1e3 * (thread_time() - start))
        counts.discard(-1)
        if len(counts) != 1:
            raise RuntimeError(f"engines find different numbers of rules: {sorted(counts)}")
        rows.append(best)
        found += counts
        if perf_counter() - begin > seconds and len(rows) >= _FEWEST:
            break
    return list(np.array(rows).T), np.array(found)
