"""Compares this tree with another checkout: both are measured in turn, in one run.

On a busy machine figures of two runs cannot be compared; two figures taken a second apart can. Each
tree gets a process of its own, which loads the same rules and events. Then every measurement runs
in both processes alternately, a few rounds, and the table shows the medians and their ratio: below
1 this tree is faster, or smaller.

The rules are 100,000 of the BE-Tree paper's generator, of which an event matches 0.01 %, 1 % or
9 %. ``benchmarks/compare_worker.py`` lists the measurements; it uses only the public API, so that
any two checkouts can be compared.

Usage: python -m benchmarks.compare BASE [--quick] [--rules N] [--rounds N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import pyarrow.feather as feather

from benchmarks.compare_worker import SHARES, UNITS, measurement_names
from benchmarks.report import RESULTS, Row, save, show
from tamis.workloads.begen import Workload

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
            env={**os.environ, "PYTHONPATH": str(tree / "src")},
        )

    def measure(self, name: str) -> float:
        """Run one measurement and return its figure."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the worker stopped while it measured {name!r}; its error is above")
        return float(json.loads(answer))

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
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    base = args.base.resolve()
    if not (base / "src" / "tamis").is_dir():
        parser.error(f"{base} is not a checkout: it has no folder src/tamis")
    rules, rounds, batch = (500, 2, 100) if args.quick else (args.rules, args.rounds, BATCH)
    rows = compare(base, rules, rounds, batch)
    show(f"This tree beside {base}: {rules:,} rules, medians of {rounds} rounds", rows)
    save("compare", {"rules": rules, "rounds": rounds, "rows": rows}, args.results)


def compare(base: Path, rules: int, rounds: int, batch: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        write_data(data, rules, batch)
        workers = [Worker(base, data, data / "base"), Worker(ROOT, data, data / "this")]
        try:
            return [measure_both(name, workers, rounds) for name in measurement_names()]
        finally:
            for worker in workers:
                worker.close()


def write_data(folder: Path, rules: int, batch: int) -> None:
    """Write the rules and events of each share of matches, for both trees to read."""
    for share, probability in SHARES.items():
        workload = Workload(size=rules, match_probability=probability)
        feather.write_feather(workload.rules_table(), folder / f"rules {share}")
        feather.write_feather(workload.events_table(batch), folder / f"events {share}")
    more = Workload(size=2_000, seed=2)
    feather.write_feather(more.rules_table(), folder / "rules to add")


def measure_both(name: str, workers: list[Worker], rounds: int) -> Row:
    # The first round loads, builds and compiles; it is not counted.
    for worker in workers:
        worker.measure(name)
    figures: list[list[float]] = [[], []]
    for number in range(rounds):
        # Neither tree is always the first.
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for at in order:
            figures[at].append(workers[at].measure(name))
    base, this = map(median, figures)
    print(f"{name}: {this / base:.2f}", file=sys.stderr)
    unit = UNITS[name.split()[0]]
    return {"what": name, "unit": unit, "base": base, "this tree": this, "ratio": this / base}


if __name__ == "__main__":
    main()
