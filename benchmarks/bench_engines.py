"""Measures the engines side by side, on several kinds of rules and events.

On a busy machine ratios between engines are more reliable than times, so all engines are measured
in one run. Each scenario (benchmarks/scenarios.py) has a process of its own, which generates the
rules, compiles all kernels and encodes the rules once. Each engine is measured in a fork of it.

- *in*: seconds to encode the texts, once for all engines; to *build* the engine from encoded rules;
  and from an Arrow table of texts to a matcher that has answered, which is the encoding plus the
  rest of `add_many`. *index* is the size of the engine's arrays, also per conjunction (a rule kept
  as a program counts as one), *RSS* the memory of the whole process: the texts, the encoded rules,
  the matcher.
- *single*: microseconds per event. *mean*, *p50* and *p99* are those of `match_array` on a mapping;
  *kernel* is the median of the engine's search within these calls, *above* that of the rest without
  the writing of ids; *list* and *top 5* are the medians of `match` and `top`. *ids* is the time to
  write the ids of the matching rules into an array from a prepared list of their places, which no
  engine can avoid. *× scan* and *× sift* say how many times as fast an engine is, */ ids* gives its
  time as a multiple of *ids*.
- *batch*: microseconds per event in a batch of 10,000, for `count_many` and `match_many` on an
  Arrow table (for real events, on mappings). `match_many` gets as many rows as give 20 million
  pairs, and both get fewer where an engine would take long: *rows* is their number.

`--growth` measures instead how build, size and kernels grow from 1M to 8M rules at 0.01 %, without
a matcher and without the engines that test every rule.

Usage: python -m benchmarks.bench_engines [--quick] [--scenarios NAME …] [--engines NAME …]
       [--rules N] [--growth] [--sizes N …] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tamis
from benchmarks.report import RESULTS, Row, resident_bytes, save, show
from benchmarks.scenarios import BATCH, EVENTS, SCENARIOS, DataMissing, Events, Load
from tamis.encode.events import EventEncoder
from tamis.encode.plain.reader import PlainRules
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.engines.papers.intervals.engine import IntervalEngine
from tamis.engines.registry import ENGINES, load_engine
from tamis.expr.model import Logic
from tamis.matcher.segment import Segment
from tamis.matcher.write.builder import SegmentBuilder
from tamis.matcher.write.new_rules import NewRules
from tamis.workloads.begen import Workload

RULES = 1_000_000
GROWTH = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
QUICK_RULES = 500
QUICK_GROWTH = (500, 1_000)
SLOW = ("scan", "sift")
"""The engines to compare with. They test every rule, and are left out of --growth."""
LARGE = tuple(name for name in ENGINES if issubclass(load_engine(name), IntervalEngine))
"""Engines that are measured only if they are named: their bit vectors may grow with the square of
the rules, and those without vectors evaluate every rule, as `scan` does."""
MOST_PAIRS = 20_000_000
"""The most pairs that one match_many may return: some 240 MB."""
FEWEST = 10
"""The least number of events to match one by one, however long it takes."""


class Budget(NamedTuple):
    """The approximate seconds for each way of matching."""

    single: float = 1.5
    batch: float = 4


QUICK = Budget(0.02, 0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, help="most of them by default")
    parser.add_argument("--rules", type=int, help=f"how many; {RULES:,} by default")
    parser.add_argument("--growth", action="store_true", help="measure how engines grow instead")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rules for --growth")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    budget = QUICK if args.quick else Budget()
    usual = [name for name in ENGINES if name not in LARGE]
    if args.growth:
        engines = args.engines or [name for name in usual if name not in SLOW]
        run_growth(args.sizes or (QUICK_GROWTH if args.quick else GROWTH), engines, budget, args)
    else:
        rules = args.rules or (QUICK_RULES if args.quick else RULES)
        run_scenarios(args.scenarios, rules, args.engines or usual, budget, args.results)


def run_scenarios(
    names: list[str], rules: int, engines: list[str], budget: Budget, results: Path
) -> None:
    rows: list[Row] = []
    skipped: Row = {}
    for name in names:
        try:
            found = run_in_new_process(measure_scenario, name, rules, engines, budget)
        except DataMissing as reason:
            skipped[name] = str(reason)
            print(f"\n{SCENARIOS[name].title}: left out, {reason}", flush=True)
            continue
        check_agreement(found)
        add_ratios(found)
        show_scenario(SCENARIOS[name].title, found)
        rows += found
    if rows:
        show_summary(rows)
    titles = {name: SCENARIOS[name].title for name in names}
    save("bench_engines", {"scenarios": titles, "skipped": skipped, "rows": rows}, results)


def run_growth(
    sizes: Sequence[int], engines: list[str], budget: Budget, args: argparse.Namespace
) -> None:
    rows = [
        row for size in sizes for row in run_in_new_process(measure_growth, size, engines, budget)
    ]
    show("Growth at 0.01 % match: kernel µs/event", [select_growth_columns(row) for row in rows])
    save("bench_growth", {"rows": rows}, args.results)


def run_in_new_process(measure: Callable[..., list[Row]], *arguments: Any) -> list[Row]:
    """Call `measure` in a new, empty process."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(measure, *arguments).result()


def run_in_fork(measure: Callable[..., Row], *arguments: Any) -> Row:
    """Call `measure` in a copy of this process: `arguments` are shared, not sent."""
    fork = multiprocessing.get_context("fork")
    # Collecting garbage would write to the shared memory, and so copy it.
    gc.collect()
    gc.freeze()
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(measure(*arguments)))
    child.start()
    sender.close()
    try:
        return dict(receiver.recv())
    except EOFError:
        raise RuntimeError(f"{measure.__name__} failed in its process; see above") from None
    finally:
        child.join()


def measure_scenario(name: str, size: int, engines: list[str], budget: Budget) -> list[Row]:
    scenario = SCENARIOS[name]
    load = scenario.load(size)
    compile_kernels(engines)
    start = perf_counter()
    encoded = encode_rules(load.rules["rule"].to_pylist(), scenario.logic)
    seconds = perf_counter() - start
    return [
        {"scenario": name, "engine": engine, "rules": encoded.size, "encode_s": seconds}
        | run_in_fork(measure_engine, engine, load, encoded, scenario.logic, seconds, budget)
        for engine in engines
    ]


def measure_growth(size: int, engines: list[str], budget: Budget) -> list[Row]:
    workload = Workload(size=size, match_probability=0.0001)
    compile_kernels(engines)
    start = perf_counter()
    encoded = encode_rules((text for _, text in workload.rules()), "strong")
    seconds = perf_counter() - start
    events = workload.events(EVENTS)
    return [
        {"engine": engine, "rules": size, "encode_s": seconds}
        | run_in_fork(measure_growth_of, engine, encoded, events, budget)
        for engine in engines
    ]


def measure_growth_of(name: str, encoded: EncodedRules, events: Events, budget: Budget) -> Row:
    """Measure an engine without a matcher."""
    engine, figures = measure_index(name, encoded)
    encoder = EventEncoder(encoded)
    rows = [encoder.encode(event) for event in events]
    (kernel,) = times([(kernel_call(engine), rows)], 2 * budget.single)
    batch = encoder.encode_many(events)
    start = perf_counter()
    counts = engine.count(batch)
    return {
        **figures,
        **summarize("us_kernel", kernel),
        "us_count": 1e6 * (perf_counter() - start) / len(counts),
        "matches": float(counts.mean()),
    }


def compile_kernels(engines: list[str]) -> None:
    """Compile all kernels, without starting threads: a fork would lack them."""
    workload = Workload(size=100)
    for engine in engines:
        matcher = tamis.Matcher(engine=engine)
        matcher.add_many(workload.rules_table())
        for event in workload.events(2):
            matcher.match_array(event)
            matcher.top(event, 5)
        matcher.match_many(workload.events_table(10))
        matcher.count_many(workload.events_table(10))


def encode_rules(texts: Any, logic: Logic) -> EncodedRules:
    encoder = RuleEncoder()
    for text in texts:
        encoder.add_text(text, logic)
    return encoder.finish()


def measure_engine(
    name: str,
    load: Load,
    encoded: EncodedRules,
    logic: Logic,
    encode_seconds: float,
    budget: Budget,
) -> Row:
    """Measure all figures of one engine."""
    start = perf_counter()
    with skip_encoding(encoded):
        matcher = tamis.Matcher(engine=name, logic=logic)
        matcher.add_many(load.rules)
    matcher.match_array(load.events[0])
    seconds = encode_seconds + perf_counter() - start
    gc.collect()
    resident = resident_bytes() / 1e6
    _, figures = measure_index(name, encoded)
    figures |= {"matcher_s": seconds, "rss_mb": resident}
    figures |= measure_single(matcher, load, budget.single)
    return figures | measure_batch(matcher, load.batch, budget.batch, figures["matches"])


@contextmanager
def skip_encoding(encoded: EncodedRules) -> Iterator[None]:
    """Make matchers use the encoded rules instead of encoding them again."""

    def read(_: SegmentBuilder, new: NewRules) -> PlainRules:
        return PlainRules(np.ones(len(new.columns), np.bool_), encoded, np.empty(0, np.uint8))

    with patch.object(SegmentBuilder, "_read_plain", read):
        yield


def measure_index(name: str, encoded: EncodedRules) -> tuple[Engine, Row]:
    """Build an engine without a matcher, and measure that."""
    start = perf_counter()
    engine = load_engine(name).choose(encoded)(encoded)
    seconds = perf_counter() - start
    gc.collect()
    conjunctions = len(encoded.forms.conjunction_start) - 1 + len(encoded.forms.program_rule)
    return engine, {
        "build_s": seconds,
        "conjunctions": conjunctions,
        "index_mb": engine.nbytes / 1e6,
        "bytes_per_conjunction": engine.nbytes / max(conjunctions, 1),
        "rss_mb": resident_bytes() / 1e6,
    }


def kernel_call(engine: Engine) -> Callable[[Any], int]:
    """Return a call of the engine's kernel on one encoded event, with its buffers prepared."""
    size = engine.rules.size
    mask, counts, scratch = np.ones(size, np.uint8), np.zeros(1, np.int64), engine.new_scratch()
    # The integers that the engine itself writes: others would compile its kernel once more.
    out = np.empty(size, getattr(scratch, "found", scratch.room).dtype)
    return lambda row: engine.run(row, 0, 1, mask, scratch, out, counts)


def measure_single(matcher: tamis.Matcher, load: Load, budget: float) -> Row:
    events, ids = load.events, load.rules["id"].to_numpy()
    (view,) = matcher._snapshot.frozen_views
    engine = view.segment.engine
    rows = [view.segment.encode(event) for event in events]
    places = [engine.match(row).rule for row in rows[:FEWEST]]
    # The two take turns, so that a busy machine slows both alike.
    array, written = times(
        [(matcher.match_array, events), (lambda found: ids[found], places)], 1.5 * budget
    )
    kernel, above = measure_inside(matcher, view.segment, events, budget / 2)
    (as_list,) = times([(matcher.match, events)], budget / 2)
    (top,) = times([(lambda event: matcher.top(event, 5), events)], budget / 2)
    counts = engine.count(view.segment.encode_chunk(events[: len(array)]))
    if counts[:FEWEST].tolist() != [len(matcher.match_array(event)) for event in events[:FEWEST]]:
        raise RuntimeError(f"{engine.name} finds other rules alone than in a matcher")
    return {
        "matches": float(counts.mean()),
        "found": counts[:FEWEST].tolist(),
        **summarize("us", array),
        **summarize("us_kernel", kernel),
        "us_above_kernel": float(np.percentile(above, 50)),
        "us_ids": float(np.percentile(written, 50)),
        "us_list": float(np.percentile(as_list, 50)),
        "us_top5": float(np.percentile(top, 50)),
        "events": len(array),
    }


def measure_inside(
    matcher: tamis.Matcher, segment: Segment, events: Events, budget: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Measure the microseconds of each call of `match_array`: in the engine, and above it.

    Above is everything but the search of the engine and the writing of ids, which the engine does
    itself where they are integers.
    """
    spent: dict[str, float] = {}

    def watch(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            start = perf_counter()
            found = call(*arguments)
            spent[call.__name__] = 1e6 * (perf_counter() - start)
            return found

        return run

    kernel, above = [], []
    begin = perf_counter()
    engine = segment.engine
    with (
        patch.object(engine, "find_ids", watch(engine.find_ids)),
        patch.object(engine, "find_places", watch(engine.find_places)),
        patch.object(segment.ids, "array", watch(segment.ids.array)),
    ):
        for event in events:
            spent.clear()
            start = perf_counter()
            matcher.match_array(event)
            total = 1e6 * (perf_counter() - start)
            # Most engines find places first, within the search for ids.
            search = spent["find_ids"] if "find_ids" in spent else spent["find_places"]
            kernel.append(search)
            above.append(total - search - spent.get("array", 0.0))
            if perf_counter() - begin > budget and len(above) >= FEWEST:
                break
    return np.array(kernel), np.array(above)


def summarize(name: str, taken: NDArray[np.float64]) -> Row:
    return {
        f"{name}_mean": float(taken.mean()),
        f"{name}_p50": float(np.percentile(taken, 50)),
        f"{name}_p99": float(np.percentile(taken, 99)),
    }


def times(
    calls: Sequence[tuple[Callable[[Any], Any], Sequence[Any]]], budget: float
) -> list[NDArray[np.float64]]:
    """Measure the microseconds of each call; the calls take turns.

    There are as many rounds as the budget allows, and a few in any case. The first call has
    arguments for all of them; the others repeat theirs.
    """
    for call, arguments in calls:
        call(arguments[0])
    taken: list[list[float]] = [[] for _ in calls]
    begin = perf_counter()
    for turn in range(len(calls[0][1])):
        for (call, arguments), times_of_call in zip(calls, taken, strict=True):
            argument = arguments[turn % len(arguments)]
            start = perf_counter()
            call(argument)
            times_of_call.append(1e6 * (perf_counter() - start))
        if perf_counter() - begin > budget and turn + 1 >= FEWEST:
            break
    return [np.array(each) for each in taken]


def measure_batch(
    matcher: tamis.Matcher, batch: pa.Table | Events, budget: float, matches: float
) -> Row:
    figures: Row = {}
    limit = {"count_many": BATCH, "match_many": int(MOST_PAIRS / max(matches, 1))}
    for name, most in limit.items():
        rows, seconds = measure_rows(getattr(matcher, name), batch, budget, most)
        figures |= {f"us_{name}": 1e6 * seconds / rows, f"{name}_rows": rows}
    return figures


def measure_rows(
    call: Callable[[Any], Any], batch: pa.Table | Events, budget: float, most: int
) -> tuple[int, float]:
    """Find by growing trials how many rows fit into the budget, and the seconds they take."""
    most = min(most, len(batch))
    rows = min(32, most)
    while True:
        seconds = time_call(call, batch[:rows])
        affordable = min(most, int(rows * budget / max(seconds, 1e-6)))
        if rows == most or affordable < min(2 * rows, most):
            return rows, seconds
        rows = min(affordable, 8 * rows)


def time_call(call: Callable[[Any], Any], argument: Any) -> float:
    start = perf_counter()
    call(argument)
    return perf_counter() - start


def check_agreement(rows: list[Row]) -> None:
    """Raise if the engines give different answers: then their figures cannot be compared."""
    for row in rows[1:]:
        fewest = min(len(row["found"]), len(rows[0]["found"]))
        if row["found"][:fewest] != rows[0]["found"][:fewest]:
            raise SystemExit(f"{row['engine']} and {rows[0]['engine']} disagree: {rows}")


def add_ratios(rows: list[Row]) -> None:
    """Add how many times as fast a row is as the engines to compare with, and as slow as ids.

    The ratios are those of medians, which other processes affect least.
    """
    medians = {row["engine"]: row["us_p50"] for row in rows}
    for row in rows:
        for slow in SLOW:
            row[f"times_{slow}"] = medians[slow] / row["us_p50"] if slow in medians else None
        row["of_ids"] = row["us_p50"] / row["us_ids"]


def show_scenario(title: str, rows: list[Row]) -> None:
    first = rows[0]
    print(
        f"\n{title}: {first['rules']:,} rules, {first['conjunctions']:,} conjunctions, "
        f"{first['matches']:,.4g} matches per event; encoded in {first['encode_s']:.3g} s"
    )
    single = {
        "kernel": "us_kernel_p50",
        "mean": "us_mean",
        "p50": "us_p50",
        "p99": "us_p99",
        "above": "us_above_kernel",
        "list": "us_list",
        "top 5": "us_top5",
        "ids": "us_ids",
        "events": "events",
        **{f"× {slow}": f"times_{slow}" for slow in SLOW},
        "/ ids": "of_ids",
    }
    others = {
        "count_many": "us_count_many",
        "rows": "count_many_rows",
        "match_many": "us_match_many",
        "rows ": "match_many_rows",
        "build s": "build_s",
        "texts → matcher s": "matcher_s",
        "index MB": "index_mb",
        "B/conjunction": "bytes_per_conjunction",
        "RSS MB": "rss_mb",
    }
    show("Single: µs/event", [select_columns(row, single) for row in rows])
    show("Batch: µs/event; in", [select_columns(row, others) for row in rows])


def select_columns(row: Row, columns: dict[str, str]) -> Row:
    return {"engine": row["engine"], **{title: row[name] for title, name in columns.items()}}


def select_growth_columns(row: Row) -> Row:
    columns = {
        "rules": "rules",
        "matches": "matches",
        "mean": "us_kernel_mean",
        "p50": "us_kernel_p50",
        "p99": "us_kernel_p99",
        "counted in a batch": "us_count",
        "build s": "build_s",
        "encode s": "encode_s",
        "B/conjunction": "bytes_per_conjunction",
        "RSS MB": "rss_mb",
    }
    return select_columns(row, columns)


def show_summary(rows: list[Row]) -> None:
    """Print the medians of `match_array`, one line per scenario."""
    lines: dict[str, Row] = {}
    for row in rows:
        line = lines.setdefault(row["scenario"], {"scenario": row["scenario"]})
        line |= {"matches": row["matches"], "ids": row["us_ids"], row["engine"]: row["us_p50"]}
    show("match_array: median µs/event", list(lines.values()))


if __name__ == "__main__":
    main()
