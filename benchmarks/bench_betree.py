"""Measures the BE-Tree beside the engines of its paper, its insertions, size and adaptation.

The rules are those of the paper, of which an event matches 1 %, with attributes that are equally
common or follow Zipf's law. All engines of a distribution are measured in one process, one after
the other, because on a busy machine ratios are more reliable than times.

- *matching*: the median microseconds of the engine's kernel for an event, also as a multiple of
  those of `betree-batch`; the seconds to build it from encoded rules; the megabytes of its own
  arrays, without the encoded rules that all engines share.
- *insertions*: seconds to insert all conjunctions by one call, and by a call for each (of at most
  20,000); the size of the pools with their spare room, and compacted.
- *adaptation*, as the paper's figure 13: a tree of uniform rules is turned into one of Zipf rules
  and back, a tenth at a time, with events of both kinds observed in between. After each exchange it
  is compared with a new tree of the same rules: the median microseconds for an event, and its work.
  *observed* is such a tree after it has observed the same events, too.

Usage: python -m benchmarks.bench_betree [--quick] [--rules N] [--adapting N] [--engines NAME …]
       [--results FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import RESULTS, Row, save, show
from tamis.encode.arrays import Events, rows_between
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.engines.betree import BeTree
from tamis.engines.betree.search import begin_search, end_search, search
from tamis.engines.registry import ENGINES, load_engine
from tamis.workloads.begen import Distribution, Workload

RULES, ADAPTING, EVENTS = 1_000_000, 100_000, 200
QUICK_RULES, QUICK_ADAPTING, QUICK_EVENTS = 500, 400, 5
DISTRIBUTIONS: tuple[Distribution, ...] = ("uniform", "zipf")
RIVALS = ("betree-batch", "betree", "kindex", "propagation", "sift", "scan", "tiles")
SINGLE_CALLS = 20_000
STEPS = 10
"""The number of steps in which one workload is exchanged for another."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, help=f"{RULES:,} by default")
    parser.add_argument(
        "--adapting", type=int, help=f"the number of exchanged rules; {ADAPTING:,} by default"
    )
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(RIVALS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    rules = args.rules or (QUICK_RULES if args.quick else RULES)
    adapting = args.adapting or (QUICK_ADAPTING if args.quick else ADAPTING)
    events = QUICK_EVENTS if args.quick else EVENTS
    compile_kernels(args.engines)
    matching: list[Row] = []
    insertions: list[Row] = []
    for distribution in DISTRIBUTIONS:
        workload = Workload(size=rules, distribution=distribution)
        encoded = encode_rules([workload])
        rows = EventEncoder(encoded).encode_many(workload.events(events))
        found = [measure_engine(name, encoded, rows) for name in args.engines]
        insertions.append({"rules": distribution, **measure_insertions(encoded)})
        add_ratios(found)
        show(f"Matching {rules:,} rules, {distribution}: µs per event", found)
        matching += [{"rules": distribution, **row} for row in found]
    show(f"Inserting {rules:,} rules: seconds and megabytes", insertions)
    adaptation = measure_adaptation(adapting, events)
    show(f"Turning {adapting:,} rules into others: µs and work per event", adaptation)
    figures = {"size": rules, "matching": matching, "insertions": insertions}
    save("bench_betree", {**figures, "adapting": adapting, "adaptation": adaptation}, args.results)


def compile_kernels(engines: Sequence[str]) -> None:
    """Compile all kernels before anything is measured."""
    workload = Workload(size=100)
    encoded = encode_rules([workload])
    rows = EventEncoder(encoded).encode_many(workload.events(2))
    for name in engines:
        measure_engine(name, encoded, rows)
    measure_insertions(encoded)
    measure_adaptation(100, 2)


def encode_rules(workloads: Sequence[Workload]) -> EncodedRules:
    """Encode the rules of all workloads with one dictionary."""
    encoder = RuleEncoder()
    for workload in workloads:
        for _, text in workload.rules():
            encoder.add_text(text, "strong")
    return encoder.finish()


# --- Matching ---------------------------------------------------------------------------


def measure_engine(name: str, encoded: EncodedRules, rows: Events) -> Row:
    start = perf_counter()
    engine = load_engine(name)(encoded)
    seconds = perf_counter() - start
    taken, matches = time_kernel(engine, rows)
    return {
        "engine": name,
        "us": float(np.median(taken)),
        "matches": matches,
        "build_s": seconds,
        "index_mb": nbytes(engine.arrays) / 1e6,
    }


def time_kernel(engine: Engine, rows: Events) -> tuple[list[float], float]:
    """Measure the microseconds of the kernel for each event, and count its mean matches."""
    size = engine.rules.size
    mask, out = np.ones(size, np.uint8), np.empty(size, np.int32)
    scratch = engine.new_scratch()
    taken, matches = [], 0
    for row in range(len(rows.start) - 1):
        event, counts = rows_between(rows, row, row + 1), np.zeros(1, np.int64)
        start = perf_counter()
        engine.run(event, 0, 1, mask, scratch, out, counts)
        taken.append(1e6 * (perf_counter() - start))
        matches += int(counts[0])
    return taken, matches / len(taken)


def add_ratios(rows: list[Row]) -> None:
    """Add the time of each engine as a multiple of that of the first one."""
    for row in rows:
        row["times"] = row["us"] / rows[0]["us"]


def nbytes(arrays: Any) -> int:
    """The size of arrays, including those in nested tuples."""
    if isinstance(arrays, tuple):
        return sum(map(nbytes, arrays))
    return int(arrays.nbytes) if isinstance(arrays, np.ndarray) else 0


# --- Insertions -------------------------------------------------------------------------


def new_tree(encoded: EncodedRules) -> BeTree:
    return BeTree(np.diff(encoded.dictionary.base), encoded.texts.size)


def insert(tree: BeTree, encoded: EncodedRules, numbers: NDArray[np.int64]) -> None:
    """Insert conjunctions with consecutive numbers."""
    forms = encoded.forms
    start = forms.conjunction_start[numbers[0] : numbers[-1] + 2].astype(np.int64)
    atom = forms.conjunction_atom[start[0] : start[-1]]
    tree.insert_many(numbers, encoded.atoms, start - start[0], atom)


def measure_insertions(encoded: EncodedRules) -> Row:
    forms = encoded.forms
    size = len(forms.conjunction_start) - 1
    tree = new_tree(encoded)
    start = perf_counter()
    insert(tree, encoded, np.arange(size))
    seconds = perf_counter() - start
    some = range(min(size, SINGLE_CALLS))
    bounds = forms.conjunction_start
    lists = [forms.conjunction_atom[bounds[i] : bounds[i + 1]] for i in some]
    for number in some:
        tree.delete(number)
    start = perf_counter()
    for number in some:
        tree.insert(number, encoded.atoms, lists[number])
    each = perf_counter() - start
    return {
        "seconds": seconds,
        "us_by_single_calls": 1e6 * each / len(some),
        "pools_mb": tree.nbytes / 1e6,
        "compacted_mb": nbytes(tree.compact_nodes()) / 1e6,
    }


# --- Adaptation -------------------------------------------------------------------------


def measure_adaptation(size: int, events: int) -> list[Row]:
    workloads = [Workload(size=size, distribution=name) for name in DISTRIBUTIONS]
    encoded = encode_rules(workloads)
    mixed = [event for workload in workloads for event in workload.events(events)]
    rows = EventEncoder(encoded).encode_many(mixed)
    uniform = np.arange(size)
    zipf = uniform + size
    tree = new_tree(encoded)
    insert(tree, encoded, uniform)
    found = [{"tree": "uniform, at first", **measure_tree(tree, rows)}]
    for name, old, new in (("zipf", uniform, zipf), ("uniform", zipf, uniform)):
        for part in np.array_split(np.arange(size), STEPS):
            tree.delete_many(old[part])
            insert(tree, encoded, new[part])
            tree.observe(rows)
        fresh = new_tree(encoded)
        insert(fresh, encoded, new)
        found.append({"tree": f"{name}, adapted", **measure_tree(tree, rows)})
        found.append({"tree": f"{name}, fresh", **measure_tree(fresh, rows)})
        for _ in range(STEPS):
            fresh.observe(rows)
        found.append({"tree": f"{name}, observed", **measure_tree(fresh, rows)})
    return found


def measure_tree(tree: BeTree, rows: Events) -> Row:
    """Measure the microseconds of a search in the compacted tree, and its work."""
    nodes, state = tree.compact_nodes(), tree.new_search_state()
    taken = []
    for row in range(len(rows.start) - 1):
        start = perf_counter()
        search(nodes, rows, state, begin_search(rows, row, state))
        end_search(rows, row, state)
        taken.append(1e6 * (perf_counter() - start))
    work = tree.measure_work(rows)
    return {
        "us": float(np.median(taken)),
        "recycled": tree.recycled,
        **{name: count / len(taken) for name, count in work._asdict().items()},
    }


if __name__ == "__main__":
    main()
