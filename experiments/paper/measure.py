"""Measures the engines side by side on a workload, for all experiments.

A time is that of the engine alone on encoded events, because the papers measure the online part
only. It is CPU time of one thread, so waiting for other processes does not count. A call matches a
batch of events, so that what a call costs by itself is no part of it. Engines take turns, batch by
batch, so a busy machine slows all of them alike. Each batch is matched in two rounds and the faster
one counts; a figure shows the mean over events. Build times are CPU times, too.

A name that ends in `-listed` is an engine over rules whose ranges list all their values, as the
papers' k-index and SIFT have them. `scan-trees` walks the trees of rules, as the papers' SCAN does.

A workload that several figures need is measured once in a run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from time import process_time, thread_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.paper.tree_scan import TreeScan
from tamis.encode.arrays import RANGE, SET, AtomArrays, Events, rows_between
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import BUFFER, Engine
from tamis.engines.registry import load_engine
from tamis.engines.tiles import Tiles
from tamis.expr.model import Logic
from tamis.expr.text.grammar import parse
from tamis.expr.weights import RuleWeights

Row = dict[str, Any]

_ROUNDS = 2
BATCH = 20
"""How many events one call matches."""
_FEWEST = 2
"""The least number of batches to match, however long it takes."""

LISTED = "-listed"
"""The end of the name of an engine over listed ranges."""

TREES = TreeScan.name
"""SCAN over the trees of rules."""


class Settings(NamedTuple):
    """How much to measure."""

    rules: int = 200_000
    """Replaces the paper's million where a figure needs several workloads."""
    most: int = 1_000_000
    """As many rules as in the paper, for construction and scalability."""
    events: int = 200
    seconds: float = 20
    """The approximate time budget for matching on one workload."""


QUICK = Settings(600, 800, 5, 0.1)
"""For a trial run."""


@lru_cache(maxsize=1)
def encode_rules(workload: Any, logic: Logic, weighted: bool = False) -> tuple[EncodedRules, float]:
    """Encode the rules of a workload; also return the seconds it took to read and encode them."""
    encoder = RuleEncoder()
    seconds = 0.0
    rules = workload.weighted_rules() if weighted else ((*rule, None) for rule in workload.rules())
    for _, text, weights in rules:
        start = process_time()
        if weights is None:
            encoder.add_text(text, logic)
        else:
            tree = parse(text)
            encoder.add(tree, logic, RuleWeights.of(weights, tree))
        seconds += process_time() - start
    start = process_time()
    return encoder.finish(), seconds + process_time() - start


@cache
def measure_matching(
    workload: Any, engines: Sequence[str], settings: Settings, logic: Logic
) -> list[Row]:
    """Measure the milliseconds of each engine, and the share of rules that an event matches."""
    rules, _ = encode_rules(workload, logic)
    encoder = EventEncoder(rules)
    events = encoder.encode_many(list(workload.events(settings.events)))
    size = len(events.start) - 1
    batches = [rows_between(events, row, min(row + BATCH, size)) for row in range(0, size, BATCH)]
    built = [build_engine(name, rules) for name in engines]
    calls = [match_call(engine) for engine in built]
    taken, found = time_in_turns(calls, batches, settings.seconds)
    matched = min(BATCH * len(found), size)
    return [
        {
            "engine": name,
            "matches": float(found.mean() / rules.size),
            **summarize(times),
            "events": matched,
        }
        for name, times in zip(engines, taken, strict=True)
    ]


def measure_construction(
    workload: Any, engines: Sequence[str], logic: Logic
) -> Iterator[tuple[Engine, Row]]:
    """Build each engine, and measure its build time and size."""
    rules, seconds = encode_rules(workload, logic)
    for name in engines:
        gc.collect()
        start = process_time()
        engine = build_engine(name, rules)
        built = process_time() - start
        yield (
            engine,
            {
                "engine": name,
                "rules": rules.size,
                "conjunctions": len(rules.forms.conjunction_start) - 1,
                "programs": len(rules.forms.program_rule),
                "encode_s": seconds,
                "build_s": built,
                "all_mb": engine.nbytes / 1e6,
            },
        )


def build_engine(name: str, rules: EncodedRules) -> Engine:
    """Build an engine; see LISTED and TREES."""
    if name == TREES:
        return TreeScan(rules)
    if name.endswith(LISTED):
        return load_engine(name.removesuffix(LISTED))(list_ranges(rules))
    return load_engine(name)(rules)


def list_ranges(rules: EncodedRules) -> EncodedRules:
    """`rules` with a list of codes in place of every range, except for IS NOT NULL."""
    table, codes = rules.atoms.table.copy(), [rules.atoms.codes]
    size = len(rules.atoms.codes)
    whole = np.diff(rules.dictionary.base)[table[:, 0]] - 1
    is_range = (table[:, 1] & 3 == RANGE) & ~((table[:, 2] == 1) & (table[:, 3] == whole))
    for atom in np.flatnonzero(is_range & (table[:, 2] <= table[:, 3])).tolist():
        listed = np.arange(table[atom, 2], table[atom, 3] + 1, dtype=np.int32)
        table[atom, 1] += SET - RANGE
        table[atom, 2:] = size, size + len(listed)
        size += len(listed)
        codes.append(listed)
    return rules._replace(atoms=AtomArrays(table, np.concatenate(codes)))


def summarize(taken: NDArray[np.float64]) -> Row:
    """Summarize the milliseconds of all events for a figure."""
    return {
        "ms": float(taken.mean()),
        "ms_median": float(np.median(taken)),
        "events": len(taken),
    }


def match_call(engine: Engine) -> Callable[[Events], int]:
    """Return a call that matches events and gives the number of matching rules of all of them."""
    scratch, all_of = engine.new_scratch(), engine.all_rules
    wide = isinstance(engine, Tiles)
    out: NDArray[Any] = np.empty(engine.rules.size + BUFFER, np.int64 if wide else np.int32)
    counts = np.zeros(BATCH, np.int64)

    def match(events: Events) -> int:
        row, last = 0, len(events.start) - 1
        while row < last:
            row = engine.run(events, row, last, all_of, scratch, out, counts)
        return int(counts[:last].sum())

    return match


def time_in_turns(
    calls: Sequence[Callable[[Events], int]], events: Sequence[Events], seconds: float
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Measure the milliseconds an event of each call on each batch, and count the matching rules.

    Both are an event's, on average. Takes as many batches as the budget allows, and a few in any
    case. Raises if the calls find different numbers of rules, because then they cannot be compared;
    -1 means that a call does not count.
    """
    for call in calls:
        call(events[0])
    rows: list[list[float]] = []
    found: list[float] = []
    begin = process_time()
    for event in events:
        best, size = [np.inf] * len(calls), len(event.start) - 1
        counts = set()
        for _ in range(_ROUNDS):
            for at, call in enumerate(calls):
                start = thread_time()
                counts.add(call(event))
                best[at] = min(best[at], 1e3 * (thread_time() - start) / size)
        counts.discard(-1)
        if len(counts) != 1:
            raise RuntimeError(f"engines find different numbers of rules: {sorted(counts)}")
        rows.append(best)
        found += [count / size for count in counts]
        if process_time() - begin > seconds and len(rows) >= _FEWEST:
            break
    return list(np.array(rows).T), np.array(found)
