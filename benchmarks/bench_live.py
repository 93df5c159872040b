"""Reading while rules come and go: how long one event waits, and what changes cost.

- *reader*: a thread matches one event after another over 100,000 rules (BEGen, 1 % match) while
  another adds 100,000 rules by one `add_many`, and merges all into one segment. Median, 99.9th
  percentile and maximum of `match_array`, in microseconds, before and meanwhile, and the maximum
  as a multiple of the median before: the aim is at most 10. *Beside a counter* is the same reader
  while a thread does nothing but count in Python with turns as short: what the machine and the
  interpreter cost on their own;
- *changes*: microseconds of one `add` and one `remove`, and how many segments a trickle of
  single rules leaves behind;
- *stored*: seconds to save a set of rules, to open it, and to the first match; seconds of an
  `add` that waits for the disk, alone and by eight threads at once.

Usage: python benchmarks/bench_live.py [--quick] [--rules N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from report import RESULTS, Row, save, show

import tamis
from tamis.matcher.turns import short_turns
from tamis.workloads.begen import Workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    parser.add_argument("--rules", type=int, default=100_000, help="how many rules are read")
    parser.add_argument("--stored", type=int, default=1_000_000, help="how many are stored")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    args = parser.parse_args()
    rules, stored = (1_000, 1_000) if args.quick else (args.rules, args.stored)
    reader = measure_reader(rules)
    changes = measure_changes(rules)
    kept = measure_stored(stored)
    show(f"A reader of {rules:,} rules while as many are added, µs", reader)
    show("Changes", changes)
    show(f"Stored: {stored:,} rules", kept)
    save("bench_live", {"reader": reader, "changes": changes, "stored": kept}, args.results)


def measure_reader(size: int) -> list[Row]:
    first, second = Workload(size=size, seed=1), Workload(size=size, seed=2)
    events = first.events(200)
    coming = [(f"new {i}", text) for i, text in second.rules()]
    matcher = tamis.Matcher()
    matcher.add_many(first.rules_table())
    matches(matcher, events, lambda: False, 200)
    before = matches(matcher, events, lambda: False, 2_000)
    beside = beside_a_counter(lambda: matches(matcher, events, lambda: False, 10 * len(before)))
    done = threading.Event()
    seconds = 0.0

    def write() -> None:
        nonlocal seconds
        try:
            start = perf_counter()
            matcher.add_many(coming)
            seconds = perf_counter() - start
            matcher.optimize()
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    during = matches(matcher, events, lambda: not done.is_set(), 100)
    writer.join()
    after = matches(matcher, events, lambda: False, 2_000)
    median = float(np.median(before))
    return [
        {"when": when, **figures(taken), "max / median": taken.max() / median, "add_many s": s}
        for when, taken, s in (
            ("before", before, None),
            ("beside a counter", beside, None),
            ("meanwhile", during, seconds),
            ("after", after, None),
        )
    ]


def beside_a_counter(read: Callable[[], Any]) -> Any:
    done = threading.Event()

    def count() -> None:
        number = 0
        while not done.is_set():
            number += 1

    counter = threading.Thread(target=count)
    with short_turns():
        counter.start()
        try:
            return read()
        finally:
            done.set()
            counter.join()


def matches(
    matcher: tamis.Matcher,
    events: Sequence[dict[str, Any]],
    go_on: Callable[[], bool],
    least: int,
) -> np.ndarray[Any, Any]:
    """Seconds of one match after another."""
    taken: list[float] = []
    while go_on() or len(taken) < least:
        event = events[len(taken) % len(events)]
        start = perf_counter()
        matcher.match_array(event)
        taken.append(perf_counter() - start)
    return np.array(taken)


def figures(seconds: np.ndarray[Any, Any]) -> Row:
    micro = seconds * 1e6
    return {
        "matches": len(micro),
        "p50": float(np.median(micro)),
        "p99": float(np.quantile(micro, 0.99)),
        "p99.9": float(np.quantile(micro, 0.999)),
        "max": float(micro.max()),
    }


def settle(matcher: tamis.Matcher) -> None:
    """Wait until there is nothing left to merge."""
    before = None
    while before != (now := (matcher.stats()["segments"], matcher.stats()["tail"])) or now[1]:
        before = now
        sleep(0.3)


def measure_changes(size: int) -> list[Row]:
    matcher = tamis.Matcher()
    matcher.add_many(Workload(size=size).rules_table())
    more = [(f"new {i}", text) for i, text in Workload(size=2_000, seed=3).rules()]
    rows = [
        timed("add", [lambda rule=rule: matcher.add(*rule) for rule in more]),
        timed("remove", [lambda rule=rule: matcher.remove(rule[0]) for rule in more[:500]]),
        timed("remove of an old one", [lambda i=i: matcher.remove(i) for i in range(500)]),
    ]
    settle(matcher)
    return [{**row, "segments after": matcher.stats()["segments"]} for row in rows]


def timed(what: str, calls: Sequence[Callable[[], Any]]) -> Row:
    taken = []
    for call in calls:
        start = perf_counter()
        call()
        taken.append(perf_counter() - start)
    micro = np.array(taken) * 1e6
    return {
        "what": what,
        "times": len(micro),
        "mean µs": float(micro.mean()),
        "p50 µs": float(np.median(micro)),
        "max µs": float(micro.max()),
    }


def measure_stored(size: int) -> list[Row]:
    workload = Workload(size=size)
    events = workload.events(20)
    matcher = tamis.Matcher()
    matcher.add_many(workload.rules_table())
    rows: list[Row] = []

    def note(what: str, call: Callable[[], Any]) -> Any:
        start = perf_counter()
        result = call()
        rows.append({"what": what, "seconds": perf_counter() - start})
        return result

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        note("save", lambda: matcher.save(path))
        matcher.close()
        opened = note("open", lambda: tamis.open(path, verify=False))
        note("first match", lambda: opened.match_array(events[0]))
        note("20 more matches", lambda: [opened.match_array(event) for event in events])
        adds = iter(range(10**9))

        def add(_: int = 0) -> None:
            opened.add(f"n{next(adds)}", "attribute1 = 5")

        note("200 adds", lambda: [add() for _ in range(200)])
        with ThreadPoolExecutor(8) as threads:
            note("200 adds by 8 threads", lambda: list(threads.map(add, range(200))))
        opened.close()
        opened = note("open, all verified", lambda: tamis.open(path, verify=True))
        opened.close()
    return rows


if __name__ == "__main__":
    main()
