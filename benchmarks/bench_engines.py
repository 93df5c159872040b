"""The engines on the BE-Tree paper's default workload, at 10K, 100K and 1M conjunctions.

400 attributes of 48 values, 7 predicates a rule, 15 attributes an event; an event matches 1 %
of the rules, or the share that --match names. Everything is measured in one run, so that ratios
between engines mean something where times, on a busy machine, may not. Each pair of engine and size
has a process of its own, whose kernels are compiled before anything is measured:

- *in*: seconds from an Arrow table of rule texts to a matcher that has answered an event, and
  rules per second by that; *memory* is what the process grew by meanwhile, *index* what the
  engine says it holds;
- *single*: microseconds of one `match_array` (ids as an array) and one `match` (ids as a list)
  after another, on events as dicts; mean, median and 99th percentile of the array;
- *batch*: events per second of one `match_many` and one `count_many` over an Arrow table with a
  column an attribute. `match_many` returns all pairs of event and rule, so its rows are as
  many as give 20 million pairs, and both get fewer rows than 100,000 where an engine would
  need more than 15 seconds: the columns *rows* say how many.

Usage: python benchmarks/bench_engines.py [--quick] [--sizes N …] [--match SHARE] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from report import RESULTS, Row, resident_bytes, save, show

import tamis
from tamis.workloads.begen import Workload


class Budget(NamedTuple):
    """Seconds that each way of matching may take, more or less."""

    single: float
    batch: float


SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (500,)
QUICK = Budget(single=0.05, batch=0.05)
BATCH = 100_000
MOST_PAIRS = 20_000_000
"""What one match_many may return: some 240 MB."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of rules")
    parser.add_argument("--match", type=float, default=0.01, help="share of rules that match")
    args = parser.parse_args()
    rows = [
        measured_apart(
            engine, size, args.match, QUICK if args.quick else Budget(single=3, batch=15)
        )
        for size in (QUICK_SIZES if args.quick else args.sizes)
        for engine in tamis.engines()
    ]
    add_ratios(rows)
    show_tables(rows)
    save(
        "bench_engines",
        {"workload": "BEGen, the defaults of Table 3", "match": args.match, "rows": rows},
        args.results,
    )


def measured_apart(engine: str, size: int, match: float, budget: Budget) -> Row:
    """The figures of one engine and size, from a process of their own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(measure, engine, size, match, budget).result()


def measure(engine: str, size: int, match: float, budget: Budget) -> Row:
    """The figures of one engine and size."""
    compile_kernels(engine)
    workload = Workload(size=size, match_probability=match)
    matcher, figures = measure_in(engine, workload)
    figures |= measure_single(matcher, workload, budget.single)
    figures |= measure_batch(matcher, workload, budget.batch, figures["matches"])
    return {"engine": engine, "rules": size, **figures}


def compile_kernels(engine: str) -> None:
    workload = Workload(size=100)
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many(workload.rules_table())
    matcher.match_array(workload.events(1)[0])
    # More rows than one thread takes at a time.
    matcher.match_many(workload.events_table(5_000))
    matcher.count_many(workload.events_table(5_000))


def measure_in(engine: str, workload: Workload) -> tuple[tamis.Matcher, Row]:
    rules, event = workload.rules_table(), workload.events(1)[0]
    gc.collect()
    before = resident_bytes()
    start = perf_counter()
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many(rules)
    matcher.match_array(event)
    seconds = perf_counter() - start
    gc.collect()
    return matcher, {
        "build_s": seconds,
        "rules_per_s": workload.size / seconds,
        "memory_mb": (resident_bytes() - before) / 1e6,
        "index_mb": index_bytes(matcher) / 1e6,
    }


def index_bytes(matcher: tamis.Matcher) -> int:
    return int(matcher.stats()["bytes"])


def measure_single(matcher: tamis.Matcher, workload: Workload, budget: float) -> Row:
    events = workload.events(2_000)
    found = matcher.count_many(events[:200])["matches"].to_numpy()
    array = times(matcher.match_array, events, budget)
    as_list = times(matcher.match, events, budget)
    return {
        "matches": float(found.mean()),
        "us_mean": float(array.mean()),
        "us_p50": float(np.percentile(array, 50)),
        "us_p99": float(np.percentile(array, 99)),
        "us_list": float(as_list.mean()),
        "events": len(array),
    }


def times(match: Callable[[Any], Any], events: list[Any], budget: float) -> np.ndarray:
    """Microseconds of each call, for as many events as the budget allows, but 20 at least."""
    match(events[0])
    taken = []
    begin = perf_counter()
    for event in events:
        start = perf_counter()
        match(event)
        end = perf_counter()
        taken.append(1e6 * (end - start))
        if end - begin > budget and len(taken) >= 20:
            break
    return np.array(taken)


def measure_batch(matcher: tamis.Matcher, workload: Workload, budget: float, matches: float) -> Row:
    table = workload.events_table(BATCH)
    figures: Row = {}
    limit = {"match_many": int(MOST_PAIRS / max(matches, 1)), "count_many": BATCH}
    for name, most in limit.items():
        call = getattr(matcher, name)
        rows = affordable_rows(call, table, budget, most)
        seconds = seconds_of(call, table.slice(0, rows))
        figures |= {f"{name}_per_s": rows / seconds, f"{name}_rows": rows}
    return figures


def affordable_rows(call: Callable[[Any], Any], table: pa.Table, budget: float, most: int) -> int:
    """How many rows fit into the budget, as larger and larger trials suggest."""
    most = min(most, BATCH)
    rows = 64
    while rows < most:
        seconds = seconds_of(call, table.slice(0, rows))
        if 4 * seconds > budget:
            return max(64, min(int(rows * budget / seconds), most))
        rows *= 4
    return most


def seconds_of(call: Callable[[Any], Any], table: pa.Table) -> float:
    start = perf_counter()
    call(table)
    return perf_counter() - start


def add_ratios(rows: list[Row]) -> None:
    """How many times as fast as the first engine each one is on single events."""
    first = {row["rules"]: row for row in reversed(rows)}
    for row in rows:
        row["ratio"] = first[row["rules"]]["us_mean"] / row["us_mean"]


def show_tables(rows: list[Row]) -> None:
    show(
        "In: texts → matcher",
        [
            {
                "engine": row["engine"],
                "rules": row["rules"],
                "seconds": row["build_s"],
                "rules/s": row["rules_per_s"],
                "memory MB": row["memory_mb"],
                "index MB": row["index_mb"],
            }
            for row in rows
        ],
    )
    show(
        "Single events: µs/event",
        [
            {
                "engine": row["engine"],
                "rules": row["rules"],
                "matches": row["matches"],
                "mean": row["us_mean"],
                "p50": row["us_p50"],
                "p99": row["us_p99"],
                "as a list": row["us_list"],
                "events": row["events"],
                f"× {rows[0]['engine']}": row["ratio"],
            }
            for row in rows
        ],
    )
    show(
        f"Arrow batch of {BATCH:,} rows, or as many as the budget allows: events/s",
        [
            {
                "engine": row["engine"],
                "rules": row["rules"],
                "match_many": row["match_many_per_s"],
                "rows": row["match_many_rows"],
                "count_many": row["count_many_per_s"],
                "rows ": row["count_many_rows"],
            }
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
