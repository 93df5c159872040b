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
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

import tamis

SHARES = {"0.01%": 0.0001, "1%": 0.01, "9%": 1 / 11}
"""The share of the rules that an event matches."""
SETS = ("10,000 rules", "DNF", "CNF", "kinds")
"""Further sets of rules: few of them, those of advertising, and those with functions."""
SIFTED = ("0.01%", "1%")
"""The shares for which the engine `sift` is measured, too."""
TIMES_SIFT = "match_array {}, times as fast as sift"
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
    "resident": "MB",
    "index": "bytes/rule",
    "sift": "µs/event",
    "json": "µs/event",
    "pause of a reader p99.9": "µs",
}
"""The unit of each measurement, by how its name begins."""
AIMS = {
    "import": "≤ 0.5",
    "first match of a wheel": "≤ 0.6",
    "match_array 0.01%": "ratio ≤ 0.4",
    "match_array 1%": "ratio ≤ 0.33",
    "match_array 9%": "ratio ≤ 0.5",
    "match_array 10,000 rules": "≤ 8",
    "match 1%": "ratio ≤ 0.25",
    "match_many 0.01%": "ratio ≤ 0.33",
    "match_many 1%": "ratio ≤ 0.25",
    "match_array DNF": "≤ 800",
    "match_array CNF": "≤ 800",
    "match_array kinds": "≤ 150 (100,000 rules)",
    "texts to first answer, CPU": "≤ 8",
    "texts, peak": "≤ 800",
    "resident memory 0.01%": "≤ 250",
    "resident memory 1%": "≤ 250",
    "index 0.01%": "≤ 105",
    "index 1%": "≤ 105",
    **{TIMES_SIFT.format(share): "≥ 20" for share in SIFTED},
    "add": "≤ 50",
    "pause of a reader p99.9": "≤ 1000",
}
"""The aims, at a million rules unless it says otherwise."""
SLOW = ("first", "texts", "pause", "build", "resident", "add, beside")
"""How the names of measurements begin that take seconds each."""
BESIDE_A_READER = ("add, beside a reader", "pause of a reader p99.9")
MATCHES = 10_000_000
"""The most matches of a batch of events; a table has 16 bytes for each of them."""
BEST = 10
"""How many rules ``top`` returns."""
EVENTS, ADDS, ADDS_BESIDE = 200, 500, 100_000
"""How many events are matched, and rules added, alone and beside a reader, for one figure."""

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

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e3

rules, event = sys.argv[1], json.loads(sys.argv[2])
table = feather.read_table(rules)
pairs = list(zip(table["id"].to_pylist(), table["rule"].to_pylist()))
del table
before = resident()
started, used = time.perf_counter(), time.process_time()
matcher = tamis.Matcher()
matcher.add_many(pairs)
matcher.match(event)
print(json.dumps({
    "texts to first answer, elapsed": time.perf_counter() - started,
    "texts to first answer, CPU": time.process_time() - used,
    "texts, peak": peak() - before,
}))
"""
)
"""The peak is that beyond the texts, which the caller has. `getrusage` would give the peak of the
process that started this one, where that is higher."""

RESIDENT = (
    IMPORT
    + """
import gc, json, resource, sys
from pathlib import Path
import pyarrow as pa

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

rules, event = sys.argv[1], json.loads(sys.argv[2])
matcher = tamis.Matcher()
matcher.add_many([(i, f"a = {i} AND b > {i}") for i in range(20_000)])
matcher.match({"a": 1})
matcher.close()
del matcher
gc.collect()
empty = resident()
matcher = tamis.Matcher()
with pa.OSFile(rules) as file:
    matcher.add_many(pa.ipc.open_file(file).read_all())
matcher.match(event)
gc.collect()
pa.default_memory_pool().release_unused()
print(resident() - empty)
"""
)
"""An empty process has loaded the kernels that both need, by adding a few rules."""


def measurement_names() -> Iterator[str]:
    """The names of all measurements, with those of one set of rules next to each other.

    A worker has one set of rules in memory at a time.
    """
    yield from ("import", "first match of a checkout", "first match of a wheel")
    for share in SHARES:
        for what in (*SINGLE, *MANY):
            yield f"{what} {share}"
        if share in SIFTED:
            yield f"index {share}"
        if share == "1%":
            yield from ("json lines 1%", "json dictionaries 1%", "open", "build from a table")
    for rules in SETS:
        yield f"match_array {rules}"
    for share in SIFTED:
        yield f"sift {share}"
    yield from ("add", *BESIDE_A_READER)
    yield from ("texts to first answer, CPU", "texts to first answer, elapsed", "texts, peak")
    yield from ("resident memory 0.01%", "resident memory 1%")


class Measurements:
    """The data of a run, and what can be measured on it."""

    def __init__(self, tree: Path, data: Path, scratch: Path) -> None:
        self._tree = tree
        self._data = data
        self._scratch = scratch
        self._index = scratch / "index"
        # Of a million rules, several sets would not fit into memory.
        self._matcher = lru_cache(maxsize=1)(self._build)
        self._events = lru_cache(maxsize=1)(self._load_events)
        self._together: dict[str, list[float]] = {}
        """Figures that were measured with others, for when they are asked for."""

    def measure(self, name: str) -> float:
        """Run a measurement by its name."""
        what, _, rules = name.partition(" ")
        if what == "sift":
            return self._single("match_array", rules, engine="sift")
        if what in SINGLE:
            return self._single(what, rules)
        if what in MANY:
            return self._many(what, rules)
        if what in ("texts", "texts,"):
            return self._take(name, self._measure_texts)
        if name in BESIDE_A_READER:
            return self._take(name, self._add_beside_reader)
        if what == "resident":
            return self._resident(rules.partition(" ")[2])
        if what == "index":
            return float(
                self._matcher(rules, "auto").stats()["bytes"] / len(self._matcher(rules, "auto"))
            )
        calls: dict[str, Callable[[], float]] = {
            "add": self._add,
            "build from a table": lambda: seconds(lambda: self._build("1%")),
            "first match of a checkout": lambda: self._first_match(self._tree / "src"),
            "first match of a wheel": lambda: self._first_match(self._wheel),
            "import": self._import,
            "open": self._open,
            "json lines 1%": self._json_lines,
            "json dictionaries 1%": self._json_dictionaries,
        }
        return calls[name]()

    def _single(self, what: str, rules: str, engine: str = "auto") -> float:
        matcher, (events, _) = self._matcher(rules, engine), self._events(rules)
        calls: dict[str, Callable[[Any], Any]] = {
            "match_array": matcher.match_array,
            "match": matcher.match,
            "top": lambda event: matcher.top(event, BEST),
        }
        call = calls[what]
        return 1e6 * median(seconds(lambda: call(event)) for event in events)  # noqa: B023

    def _many(self, what: str, rules: str) -> float:
        matcher, (events, batch) = self._matcher(rules, "auto"), self._events(rules)
        method = getattr(matcher, what)
        batch = batch.slice(0, MATCHES // max(len(matcher.match_array(events[0])), 1))
        rows: int = batch.num_rows
        return 1e6 * seconds(lambda: method(batch)) / rows

    def _add(self) -> float:
        matcher = tamis.Matcher()
        rules = feather.read_table(self._data / "rules to add").slice(0, ADDS).to_pylist()
        return 1e6 * median(seconds(lambda: matcher.add(r["id"], r["rule"])) for r in rules)  # noqa: B023

    def _add_beside_reader(self) -> dict[str, float]:
        """The median of an addition beside a reader, and the reader's slowest thousandth."""
        matcher, (events, _) = self._build("1%"), self._events("1%")
        rules = feather.read_table(self._data / "rules to add").slice(0, ADDS_BESIDE).to_pylist()
        first = len(matcher)
        added: list[float] = []

        def add_all() -> None:
            for rule in rules:
                id, text = first + rule["id"], rule["rule"]
                added.append(seconds(lambda: matcher.add(id, text)))  # noqa: B023

        writer = threading.Thread(target=add_all)
        writer.start()
        taken: list[float] = []
        while writer.is_alive():
            event = events[len(taken) % len(events)]
            taken.append(seconds(lambda: matcher.match_array(event)))  # noqa: B023
        matcher.close()
        figures = median(added), float(np.quantile(taken, 0.999))
        return {name: 1e6 * figure for name, figure in zip(BESIDE_A_READER, figures, strict=True)}

    def _json_lines(self) -> float:
        """What `tamis match` does with a file of JSON lines, but for writing the matches."""
        from tamis.files import Query, match_file

        matcher, (_, batch) = self._matcher("1%", "auto"), self._events("1%")
        path = self._scratch / "events.jsonl"
        if not path.exists():
            rows = ({k: v for k, v in row.items() if v is not None} for row in batch.to_pylist())
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        query = Query("count")
        taken = seconds(lambda: list(match_file(matcher, str(path), query)), process_time)
        return 1e6 * taken / int(batch.num_rows)

    def _json_dictionaries(self) -> float:
        matcher, (_, batch) = self._matcher("1%", "auto"), self._events("1%")
        rows = [{k: v for k, v in row.items() if v is not None} for row in batch.to_pylist()]
        return 1e6 * seconds(lambda: matcher.count_many(rows), process_time) / len(rows)

    def _resident(self, rules: str) -> float:
        events, _ = self._events(rules)
        inputs = (str(self._data / f"rules {rules}"), json.dumps(events[0]))
        return float(run_python(self._tree / "src", RESIDENT, *inputs, TAMIS_KERNELS="wait"))

    def _open(self) -> float:
        if not self._index.exists():
            self._matcher("1%", "auto").save(self._index)
        opened: list[tamis.Matcher] = []
        taken = seconds(lambda: opened.append(tamis.open(self._index)))
        opened[0].close()
        return 1e3 * taken

    def _import(self) -> float:
        return float(run_python(self._tree / "src", IMPORT + "print(imported - started)"))

    def _first_match(self, package: Path) -> float:
        """The time of the first answer in a new process, where nothing was compiled before."""
        # A compiler in the background may write to the folder while it is removed.
        with tempfile.TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True) as empty:
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

    def _take(self, name: str, measure: Callable[[], dict[str, float]]) -> float:
        """A figure that is measured together with others, which are kept."""
        if not self._together.get(name):
            for other, figure in measure().items():
                self._together.setdefault(other, []).append(figure)
        return self._together[name].pop(0)

    def _measure_texts(self) -> dict[str, float]:
        rules, (events, _) = self._data / "rules 1%", self._events("1%")
        script_input = (str(rules), json.dumps(events[0]))
        printed = run_python(self._tree / "src", TEXTS, *script_input, TAMIS_KERNELS="wait")
        figures: dict[str, float] = json.loads(printed)
        return figures

    def _build(self, rules: str, engine: str = "auto") -> tamis.Matcher:
        matcher = tamis.Matcher(engine=engine)
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


CLOCK: Callable[[], float] = process_time if os.environ.get("COMPARE_CPU") else perf_counter
"""What calls in this process are timed by."""


def seconds(call: Callable[[], object], clock: Callable[[], float] = CLOCK) -> float:
    start = clock()
    call()
    return clock() - start


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
