"""Measures events that are expressions against plain events.

The same events in four forms, on the rules of `tamis.workloads.begen`: mappings for `match`; an
expression with `=` for each value; one with a range of five values around each; and one with half
of all values. CPU time of one thread, in microseconds an event; the forms take turns on each event,
and the best of three rounds counts. *alone* is one call for each event, *batch* one call for all.

Usage: python -m benchmarks.bench_expressions [--quick] [--results FOLDER] [--rules N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

import tamis
from benchmarks.report import RESULTS, Row, save, show
from tamis.workloads.begen import Workload

ROUNDS = 3
VALUES = 48
WIDTHS = {"=": 0, "five values": 2, "half of all values": VALUES // 4}

Event = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    parser.add_argument("--rules", type=int, default=80_000)
    args = parser.parse_args()
    rows = measure(*((500, 5) if args.quick else (args.rules, 100)))
    show("Events that are expressions", rows)
    save("bench_expressions", {"rows": rows}, args.results)


def measure(rules: int, events: int) -> list[Row]:
    workload = Workload(size=rules, cardinality=VALUES)
    matcher = tamis.Matcher()
    matcher.add_many(workload.rules())
    given = list(workload.events(events))
    forms: dict[str, list[Any]] = {"mapping": given} | {
        name: [write_expression(event, width) for event in given] for name, width in WIDTHS.items()
    }
    calls: list[Callable[[Any], Any]] = [matcher.match] + [matcher.match_expression] * len(WIDTHS)
    alone = time_in_turns(calls, list(forms.values()))
    many = [matcher.match_many] + [matcher.match_expression_many] * len(WIDTHS)
    batch = time_in_turns(many, [[items] for items in forms.values()]) / events
    return [
        {
            "event": name,
            "rules": rules,
            "us_alone": float(alone[at]),
            "us_batch": float(batch[at]),
            "times_match": float(alone[at] / alone[0]),
            "matches": count(calls[at], items) / events,
        }
        for at, (name, items) in enumerate(forms.items())
    ]


def write_expression(event: Event, width: int) -> str:
    if width == 0:
        return " AND ".join(f"{name} = {value}" for name, value in event.items())
    return " AND ".join(
        f"{name} BETWEEN {value - width} AND {value + width}" for name, value in event.items()
    )


def count(call: Callable[[Any], Any], items: Iterable[Any]) -> int:
    return sum(len(call(item)) for item in items)


def time_in_turns(calls: Sequence[Callable[[Any], Any]], items: Sequence[Sequence[Any]]) -> Any:
    """The microseconds of each call on one of its items, on average."""
    best = np.full((len(items[0]), len(calls)), np.inf)
    for _ in range(ROUNDS):
        for row, arguments in enumerate(zip(*items, strict=True)):
            for at, (call, argument) in enumerate(zip(calls, arguments, strict=True)):
                start = thread_time()
                call(argument)
                best[row, at] = min(best[row, at], 1e6 * (thread_time() - start))
    return best.mean(axis=0)


if __name__ == "__main__":
    main()
