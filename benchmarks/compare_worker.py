"""Measures one tree for ``benchmarks.compare``, one line per figure.

The process reads names of measurements from its input and writes a number for each. Only the
public API is used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather

import tamis

SHARES = {"0.01%": 0.0001, "1%": 0.01, "9%": 1 / 11}
"""The share of the rules that an event matches."""
SINGLE = ("match_array", "match", "top")
MANY = ("match_many", "count_many")
UNITS = {
    **dict.fromkeys(SINGLE, "µs/event"),
    **dict.fromkeys(MANY, "µs/event"),
    "add": "µs",
    "open": "ms",
    "build": "s",
    "stats": "bytes",
}
"""The unit of each measurement, by its first word."""
BEST = 10
"""How many rules ``top`` returns."""
EVENTS, ADDS = 200, 500
"""How many events are matched, and rules added, one by one for one figure."""


def measurement_names() -> Iterator[str]:
    for share in SHARES:
        for what in (*SINGLE, *MANY):
            yield f"{what} {share}"
    yield from ("add", "open", "build from texts", "stats bytes")


class Measurements:
    """The data of a run, and what can be measured on it."""

    def __init__(self, data: Path, scratch: Path) -> None:
        self._data = data
        self._index = scratch / "index"
        self._matcher = cache(self._build)
        self._events = cache(self._load_events)

    def measure(self, name: str) -> float:
        """Run a measurement by its name."""
        what, _, share = name.partition(" ")
        if what in SINGLE:
            return self._single(what, share)
        if what in MANY:
            return self._many(what, share)
        return {"add": self._add, "open": self._open, "build": self._time_build}.get(
            what, self._bytes
        )()

    def _single(self, what: str, share: str) -> float:
        matcher, (events, _) = self._matcher(share), self._events(share)
        calls: dict[str, Callable[[Any], Any]] = {
            "match_array": matcher.match_array,
            "match": matcher.match,
            "top": lambda event: matcher.top(event, BEST),
        }
        call = calls[what]
        return 1e6 * median(seconds(lambda: call(event)) for event in events)  # noqa: B023

    def _many(self, what: str, share: str) -> float:
        method, (_, batch) = getattr(self._matcher(share), what), self._events(share)
        rows: int = batch.num_rows
        return 1e6 * seconds(lambda: method(batch)) / rows

    def _add(self) -> float:
        matcher = tamis.Matcher()
        rules = feather.read_table(self._data / "rules to add").slice(0, ADDS).to_pylist()
        return 1e6 * median(seconds(lambda: matcher.add(r["id"], r["rule"])) for r in rules)  # noqa: B023

    def _open(self) -> float:
        if not self._index.exists():
            self._matcher("1%").save(self._index)
        opened: list[tamis.Matcher] = []
        taken = seconds(lambda: opened.append(tamis.open(self._index)))
        opened[0].close()
        return 1e3 * taken

    def _time_build(self) -> float:
        return seconds(lambda: self._build("1%"))

    def _bytes(self) -> float:
        return float(self._matcher("1%").stats()["bytes"])

    def _build(self, share: str) -> tamis.Matcher:
        matcher = tamis.Matcher()
        matcher.add_many(feather.read_table(self._data / f"rules {share}"))
        return matcher

    def _load_events(self, share: str) -> tuple[list[dict[str, Any]], pa.Table]:
        """Some events as mappings, without the attributes they lack, and all as a table."""
        table = feather.read_table(self._data / f"events {share}")
        rows = table.slice(0, EVENTS).to_pylist()
        return [{k: v for k, v in row.items() if v is not None} for row in rows], table


def seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def main() -> None:
    tree, data, scratch = map(Path, sys.argv[1:])
    if not Path(tamis.__file__).resolve().is_relative_to(tree):
        raise SystemExit(f"tamis was imported from {tamis.__file__}, not from {tree}")
    measurements = Measurements(data, scratch)
    for line in sys.stdin:
        print(json.dumps(measurements.measure(line.strip())), flush=True)


if __name__ == "__main__":
    main()
