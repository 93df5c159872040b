"""Compares this tree with another checkout: both are measured in turn, in one run.

On a busy machine figures of two runs cannot be compared; two figures taken a second apart can. Each
tree gets a process of its own, which loads the same rules and events. Then every measurement runs
in both processes alternately, a few rounds, and the table shows the medians and their ratio: below
1 this tree is faster, or smaller. A dash stands for what a tree cannot do. The last column is the
aim, which holds for ``--rules 1000000``.

The rules are 100,000 of the BE-Tree paper's generator, of which an event matches 0.01 %, 1 % or
9 %, as many of the advertising workload in DNF and in CNF, and as many with functions of eleven
kinds. ``benchmarks/compare_worker.py`` lists the measurements; it uses only the public API, so that
any two checkouts can be compared. ``--only`` picks those whose names begin with a text, and can be
given several times. ``--data`` names a folder that keeps the rules and events for the next run.
``--cpu`` times calls by the CPU time of their process, which other processes disturb less.

Usage: python -m benchmarks.compare BASE [--quick] [--rules N] [--rounds N] [--only NAME]…
           [--cpu] [--data FOLDER] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from statistics import median

import pyarrow as pa
import pyarrow.feather as feather

from benchmarks.bench_kinds import KINDS, draw_event, draw_rules
from benchmarks.compare_worker import (
    AIMS,
    SHARES,
    SIFTED,
    SLOW,
    TIMES_SIFT,
    UNITS,
    measurement_names,
)
from benchmarks.report import RESULTS, Row, save, show
from tamis.workloads import ads, begen

ROOT = Path(__file__).resolve().parent.parent
BATCH = 10_000
"""The events of a batch."""


class Worker:
    """A process that measures one tree."""

    def __init__(self, tree: Path, data: Path, scratch: Path) -> None:
        scratch.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.compare_worker", str(tree), str(data), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            # A call waits until its kernels are compiled, so that only these are measured.
            env={**os.environ, "PYTHONPATH": str(tree / "src"), "TAMIS_KERNELS": "wait"},
        )

    def measure(self, name: str) -> float | None:
        """Run one measurement and return its figure; None if the tree cannot do that."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the worker stopped while it measured {name!r}; its error is above")
        figure: float | None = json.loads(answer)
        return figure

    def close(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path, help="the root of the other checkout")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7, help="how often each figure is measured")
    parser.add_argument("--only", action="append", metavar="NAME", help="how names must begin")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of elapsed time")
    parser.add_argument("--data", type=Path, help="a folder to keep the rules and events in")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    base = args.base.resolve()
    if not (base / "src" / "tamis").is_dir():
        parser.error(f"{base} is not a checkout: it has no folder src/tamis")
    rules, rounds, batch = (500, 2, 100) if args.quick else (args.rules, args.rounds, BATCH)
    begins = tuple(args.only or [""])
    names = [name for name in measurement_names() if name.startswith(begins)]
    if not names:
        parser.error(f"no measurement begins with {' or '.join(map(repr, begins))}")
    with tempfile.TemporaryDirectory() as scratch:
        data = write_data(args.data or Path(scratch) / "data", rules, batch)
        if args.cpu:
            os.environ["COMPARE_CPU"] = "1"
        rows = compare(base, data, Path(scratch), rounds, names)
    show(f"This tree beside {base}: {rules:,} rules, medians of {rounds} rounds", rows)
    save("compare", {"rules": rules, "rounds": rounds, "rows": rows}, args.results)


def compare(base: Path, data: Path, scratch: Path, rounds: int, names: list[str]) -> list[Row]:
    workers = [Worker(base, data, scratch / "base"), Worker(ROOT, data, scratch / "this")]
    try:
        rows = [measure_both(name, workers, rounds) for name in names]
        return rows + compare_with_sift(rows)
    finally:
        for worker in workers:
            worker.close()


def write_data(kept: Path, rules: int, batch: int) -> Path:
    """Write the rules and events of each set of rules, for both trees to read.

    They go to a folder below `kept`, named by their numbers, unless it is there already.
    """
    folder = kept / f"{rules} rules, {batch} events"
    if folder.is_dir():
        return folder
    kept.mkdir(parents=True, exist_ok=True)
    # A run that stops halfway leaves no folder that looks whole.
    whole, folder = folder, Path(tempfile.mkdtemp(dir=kept))
    workloads: dict[str, begen.Workload | ads.Workload] = {
        share: begen.Workload(size=rules, match_probability=probability)
        for share, probability in SHARES.items()
    }
    workloads["10,000 rules"] = begen.Workload(
        size=min(rules, 10_000), match_probability=SHARES["0.01%"]
    )
    workloads["DNF"] = ads.Workload(size=rules)
    # As in the paper, 5 % of the rules match an event.
    workloads["CNF"] = ads.Workload(size=rules, form="cnf", months=6)
    for name, workload in workloads.items():
        feather.write_feather(workload.rules_table(), folder / f"rules {name}")
        feather.write_feather(workload.events_table(batch), folder / f"events {name}")
    texts = draw_rules(list(KINDS.values()), min(rules, 100_000))
    kinds = pa.table({"id": range(len(texts)), "rule": texts})
    feather.write_feather(kinds, folder / "rules kinds")
    random = Random(2)
    events = pa.Table.from_pylist([draw_event(random) for _ in range(batch)])
    feather.write_feather(events, folder / "events kinds")
    more = begen.Workload(size=rules, seed=2)
    feather.write_feather(more.rules_table(), folder / "rules to add")
    folder.rename(whole)
    return whole


def measure_both(name: str, workers: list[Worker], rounds: int) -> Row:
    if name.startswith(SLOW):
        rounds = max(1, rounds // 3)
    else:
        # The first round loads, builds and compiles; it is not counted.
        for worker in workers:
            worker.measure(name)
    figures: list[list[float | None]] = [[], []]
    for number in range(rounds):
        # Neither tree is always the first.
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for at in order:
            figures[at].append(workers[at].measure(name))
    base, this = (
        None if None in found else median(figure for figure in found if figure is not None)
        for found in figures
    )
    unit = next(unit for begin, unit in UNITS.items() if name.startswith(begin))
    row = describe(name, unit, base, this)
    print(f"{name}: {row['ratio'] or 'not in both trees'}", file=sys.stderr)
    return row


def describe(name: str, unit: str, base: float | None, this: float | None) -> Row:
    """The row of a figure of both trees, with its aim."""
    ratio = None if base is None or this is None or not base else this / base
    figures_of_trees = {"base": base, "this tree": this, "ratio": ratio}
    return {"what": name, "unit": unit, **figures_of_trees, "aim at 1M": AIMS.get(name)}


def compare_with_sift(rows: list[Row]) -> list[Row]:
    """How many times as fast as `sift` each tree is, where both were measured."""
    figures = {row["what"]: (row["base"], row["this tree"]) for row in rows}
    found = []
    for share in SIFTED:
        if {f"sift {share}", f"match_array {share}"} <= figures.keys():
            pairs = zip(figures[f"sift {share}"], figures[f"match_array {share}"], strict=True)
            times = [None if None in pair else pair[0] / pair[1] for pair in pairs]
            found.append(describe(TIMES_SIFT.format(share), "times", *times))
    return found


if __name__ == "__main__":
    main()
