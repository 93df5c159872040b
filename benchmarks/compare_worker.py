"""Measures one tree for ``benchmarks.compare``, one line per figure.

The process reads names of measurements from its input and writes a number for each, or null for
what this tree cannot do. Only the public API is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

import tamis

SHARES = {"0.01%": 0.0001, "1%": 0.01, "9%": 1 / 11}
"""The share of the rules that an event matches."""
SETS = ("10,000 rules", "DNF", "CNF", "kinds")
"""Further sets of rules: few of them, those of advertising, and those with functions."""
SINGLE = ("match_array", "match", "top")
MANY = ("match_many", "count_many")
UNITS = {
    **dict.fromkeys(SINGLE, "µs/event"),
    **dict.fromkeys(MANY, "µs/event"),
    "add": "µs",
    "open": "ms",
    "build": "s",
    "import": "s",
    "first match": "s",
    "texts to first answer": "s",
    "texts, peak": "MB",
    "texts, resident": "MB",
    "pause of a reader p99.9": "µs",
    "stats bytes": "bytes",
}
"""The unit of each measurement, by how its name begins."""
SLOW = ("first", "texts", "pause", "build")
"""How the names of measurements begin that take seconds each."""
BEST = 10
"""How many rules ``top`` returns."""
EVENTS, ADDS = 200, 500
"""How many events are matched, and rules added, one by one for one figure."""

IMPORT = """
import time
started = time.perf_counter()
import tamis
imported = time.perf_counter()
"""

FIRST_MATCH = (
    IMPORT
    + """
matcher = tamis.Matcher()
matcher.add_many([(i, f"price > {i % 900} AND genre = 'g{i % 7}'") for i in range(5_000)])
assert matcher.match({"price": 1, "genre": "g1"})
print(time.perf_counter() - imported)
"""
)

TEXTS = (
    IMPORT
    + """
import gc, json, resource, sys
from pathlib import Path
import pyarrow.feather as feather

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

rules, event = sys.argv[1], json.loads(sys.argv[2])
matcher = tamis.Matcher()
matcher.add_many([("x", "a = 1"), ("y", "a > 1")])
table = feather.read_table(rules)
pairs = list(zip(table["id"].to_pylist(), table["rule"].to_pylist()))
del table
empty = resident()
started = time.perf_counter()
matcher = tamis.Matcher()
matcher.add_many(pairs)
matcher.match(event)
taken = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 - empty
del pairs
gc.collect()
print(json.dumps({
    "texts to first answer": taken,
    "texts, peak": peak,
    "texts, resident": resident() - empty,
}))
"""
)
"""Memory is that beyond the texts, which the caller has; what is resident is without them."""


def measurement_names() -> Iterator[str]:
    yield from ("import", "first match of a checkout", "first match of a wheel")
    for share in SHARES:
        for what in (*SINGLE, *MANY):
            yield f"{what} {share}"
    for rules in SETS:
        yield f"match_array {rules}"
    yield from ("add", "pause of a reader p99.9", "open", "build from a table")
    yield from ("texts to first answer", "texts, peak", "texts, resident", "stats bytes")


class Measurements:
    """The data of a run, and what can be measured on it."""

    def __init__(self, tree: Path, data: Path, scratch: Path) -> None:
        self._tree = tree
        self._data = data
        self._scratch = scratch
        self._index = scratch / "index"
        self._matcher = cache(self._build)
        self._events = cache(self._load_events)
        self._texts: dict[str, float] = {}

    def measure(self, name: str) -> float:
        """Run a measurement by its name."""
        what, _, rules = name.partition(" ")
        if what in SINGLE:
            return self._single(what, rules)
        if what in MANY:
            return self._many(what, rules)
        if what in ("texts", "texts,"):
            return self._measure_texts(name)
        calls: dict[str, Callable[[], float]] = {
            "add": self._add,
            "build from a table": lambda: seconds(lambda: self._build("1%")),
            "first match of a checkout": lambda: self._first_match(self._tree / "src"),
            "first match of a wheel": lambda: self._first_match(self._wheel),
            "import": self._import,
            "open": self._open,
            "pause of a reader p99.9": self._pause,
            "stats bytes": lambda: float(self._matcher("1%").stats()["bytes"]),
        }
        return calls[name]()

    def _single(self, what: str, rules: str) -> float:
        matcher, (events, _) = self._matcher(rules), self._events(rules)
        calls: dict[str, Callable[[Any], Any]] = {
            "match_array": matcher.match_array,
            "match": matcher.match,
            "top": lambda event: matcher.top(event, BEST),
        }
        call = calls[what]
        return 1e6 * median(seconds(lambda: call(event)) for event in events)  # noqa: B023

    def _many(self, what: str, rules: str) -> float:
        method, (_, batch) = getattr(self._matcher(rules), what), self._events(rules)
        rows: int = batch.num_rows
        return 1e6 * seconds(lambda: method(batch)) / rows

    def _add(self) -> float:
        matcher = tamis.Matcher()
        rules = feather.read_table(self._data / "rules to add").slice(0, ADDS).to_pylist()
        return 1e6 * median(seconds(lambda: matcher.add(r["id"], r["rule"])) for r in rules)  # noqa: B023

    def _pause(self) -> float:
        """The time of the slowest thousandth of a reader's calls, while rules are added."""
        matcher, (events, _) = self._build("1%"), self._events("1%")
        rules = feather.read_table(self._data / "rules to add").to_pylist()

        def add_all() -> None:
            for rule in rules:
                matcher.add(f"new {rule['id']}", rule["rule"])

        writer = threading.Thread(target=add_all)
        writer.start()
        taken: list[float] = []
        while writer.is_alive():
            event = events[len(taken) % len(events)]
            taken.append(seconds(lambda: matcher.match_array(event)))  # noqa: B023
        matcher.close()
        return 1e6 * float(np.quantile(taken, 0.999))

    def _open(self) -> float:
        if not self._index.exists():
            self._matcher("1%").save(self._index)
        opened: list[tamis.Matcher] = []
        taken = seconds(lambda: opened.append(tamis.open(self._index)))
        opened[0].close()
        return 1e3 * taken

    def _import(self) -> float:
        return float(run_python(self._tree / "src", IMPORT + "print(imported - started)"))

    def _first_match(self, package: Path) -> float:
        """The time of the first answer in a new process, where nothing was compiled before."""
        with tempfile.TemporaryDirectory(dir=self._scratch) as empty:
            caches = {"TAMIS_KERNEL_CACHE": empty, "NUMBA_CACHE_DIR": empty}
            return float(run_python(package, FIRST_MATCH, **caches, TAMIS_KERNELS="background"))

    @cached_property
    def _wheel(self) -> Path:
        """What a wheel of the tree unpacks to; the sources, if the tree builds no wheel."""
        script = self._tree / "scripts" / "build_wheel.py"
        if not script.exists():
            return self._tree / "src"
        built, unpacked = self._scratch / "dist", self._scratch / "wheel"
        subprocess.run([sys.executable, script, built], check=True, stdout=subprocess.DEVNULL)
        (file,) = built.iterdir()
        zipfile.ZipFile(file).extractall(unpacked)
        return unpacked

    def _measure_texts(self, name: str) -> float:
        """One process measures three figures; asking for the first of them starts it."""
        if name not in self._texts:
            rules, (events, _) = self._data / "rules 1%", self._events("1%")
            script_input = (str(rules), json.dumps(events[0]))
            printed = run_python(self._tree / "src", TEXTS, *script_input, TAMIS_KERNELS="wait")
            self._texts = json.loads(printed)
        return self._texts.pop(name)

    def _build(self, rules: str) -> tamis.Matcher:
        matcher = tamis.Matcher()
        table = feather.read_table(self._data / f"rules {rules}")
        if rules in ("DNF", "CNF"):
            pairs = zip(table["id"].to_pylist(), table["rule"].to_pylist(), strict=True)
            matcher.add_many([tamis.Rule(id, rule, "weak") for id, rule in pairs])
        else:
            matcher.add_many(table)
        return matcher

    def _load_events(self, rules: str) -> tuple[list[dict[str, Any]], pa.Table]:
        """Some events as mappings, without the attributes they lack, and all as a table."""
        table = feather.read_table(self._data / f"events {rules}")
        rows = table.slice(0, EVENTS).to_pylist()
        return [{k: v for k, v in row.items() if v is not None} for row in rows], table


def run_python(package: Path, script: str, *inputs: str, **environment: str) -> str:
    """What a script prints in a new process, with Tamis from the folder `package`."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *inputs],
        env={**os.environ, "PYTHONPATH": str(package), **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def main() -> None:
    tree, data, scratch = map(Path, sys.argv[1:])
    if not Path(tamis.__file__).resolve().is_relative_to(tree):
        raise SystemExit(f"tamis was imported from {tamis.__file__}, not from {tree}")
    measurements = Measurements(tree, data, scratch)
    for line in sys.stdin:
        try:
            figure = measurements.measure(line.strip())
        except Exception:  # The other tree may be able to do it.
            traceback.print_exc()
            figure = None
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
