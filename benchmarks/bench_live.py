"""Measures matching while rules change: how long an event waits, and what changes cost.

- *reader*: a thread matches one event after another over 100,000 rules (BEGen, 1 % match) while
  another adds 100,000 rules by one `add_many`, and merges all into one segment. Median, 99.9th
  percentile and maximum of `match_array`, in microseconds, before and meanwhile, and the maximum
  as a multiple of the median before: the aim is at most 10. *Beside a counter* is the same reader
  beside a thread that only counts in Python, with the same switch interval: the share of the
  machine and the interpreter;
- *changes*: microseconds of one `add` and one `remove`, and the number of segments after many
  single additions;
- *tail*: rules that were added one by one and are in no segment yet, each evaluated by itself
  (plain), in a BE-Tree (tree), or turned into a segment: microseconds of one `match`, of one `add`
  of a text at that size (parsing included), and of one insertion of a parsed rule. Medians;
- *inserts*: rules inserted one by one into a tail with a tree, without parsing: the mean so far,
  the median of the last thousand, and the maximum, in microseconds;
- *trickle*: rules added one by one to a collection of up to a million, with all background work,
  while another thread matches one event after another; and the reader's times. *alone* is without
  the reader;
- *stored*: seconds to save a set of rules, to open it, and to the first match; seconds of an
  `add` that waits for the disk, alone and by eight threads at once.

Usage: python -m benchmarks.bench_live [--quick] [--rules N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np

import tamis
from benchmarks.report import RESULTS, Row, save, show
from tamis.matcher import tail
from tamis.matcher.rule import make_rule
from tamis.matcher.write.responsive import keep_responsive
from tamis.workloads.begen import Workload

TAILS = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384)
QUICK_TAILS = (1, 16)
MOST_PLAIN = 1_024
TRICKLE = (0, 10_000, 100_000, 1_000_000), 5_000
QUICK_TRICKLE = (0, 1_000), 200
FORMS = ("plain", "tree", "segment")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=100_000, help="the number of rules")
    parser.add_argument("--inserts", type=int, default=1_000_000, help="the number of insertions")
    parser.add_argument("--stored", type=int, default=1_000_000, help="the number of stored rules")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    rules, stored = (1_000, 1_000) if args.quick else (args.rules, args.stored)
    reader = measure_reader(rules)
    changes = measure_changes(rules)
    tails = measure_tail(QUICK_TAILS if args.quick else TAILS)
    inserts = measure_inserts(1_000 if args.quick else args.inserts)
    trickle = measure_trickle(*(QUICK_TRICKLE if args.quick else TRICKLE))
    stored_rows = measure_stored(stored)
    show(f"A reader of {rules:,} rules while as many are added, µs", reader)
    show("Changes", changes)
    show("Rules in no segment yet, µs", tails)
    show("Insertions into a tail with a tree, µs", inserts)
    show("Rules added one by one, µs", trickle)
    show(f"Stored: {stored:,} rules", stored_rows)
    figures = {"reader": reader, "changes": changes, "tail": tails, "inserts": inserts}
    save("bench_live", {**figures, "trickle": trickle, "stored": stored_rows}, args.results)


def measure_reader(size: int) -> list[Row]:
    first, second = Workload(size=size, seed=1), Workload(size=size, seed=2)
    events = first.events(200)
    coming = [(f"new {i}", text) for i, text in second.rules()]
    matcher = tamis.Matcher()
    matcher.add_many(first.rules_table())
    time_matches(matcher, events, lambda: False, 200)
    before = time_matches(matcher, events, lambda: False, 2_000)
    beside = read_beside_counter(
        lambda: time_matches(matcher, events, lambda: False, 10 * len(before))
    )
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
    during = time_matches(matcher, events, lambda: not done.is_set(), 100)
    writer.join()
    after = time_matches(matcher, events, lambda: False, 2_000)
    median = float(np.median(before))
    return [
        {"when": when, **summarize(taken), "max / median": taken.max() / median, "add_many s": s}
        for when, taken, s in (
            ("before", before, None),
            ("beside a counter", beside, None),
            ("meanwhile", during, seconds),
            ("after", after, None),
        )
    ]


def read_beside_counter(read: Callable[[], Any]) -> Any:
    done = threading.Event()

    def count() -> None:
        number = 0
        while not done.is_set():
            number += 1

    counter = threading.Thread(target=count)
    with keep_responsive():
        counter.start()
        try:
            return read()
        finally:
            done.set()
            counter.join()


def time_matches(
    matcher: tamis.Matcher,
    events: Sequence[dict[str, Any]],
    go_on: Callable[[], bool],
    least: int,
) -> np.ndarray[Any, Any]:
    """Measure the seconds of each match, one after another."""
    taken: list[float] = []
    while go_on() or len(taken) < least:
        event = events[len(taken) % len(events)]
        start = perf_counter()
        matcher.match_array(event)
        taken.append(perf_counter() - start)
    return np.array(taken)


def summarize(seconds: np.ndarray[Any, Any]) -> Row:
    micro = seconds * 1e6
    return {
        "matches": len(micro),
        "p50": float(np.median(micro)),
        "p99": float(np.quantile(micro, 0.99)),
        "p99.9": float(np.quantile(micro, 0.999)),
        "max": float(micro.max()),
    }


def wait_for_merges(matcher: tamis.Matcher) -> None:
    """Wait until the background work is done."""
    before = None
    while before != (now := (matcher.stats()["segments"], matcher.stats()["tail"])) or now[1]:
        before = now
        sleep(0.3)


def measure_changes(size: int) -> list[Row]:
    matcher = tamis.Matcher()
    matcher.add_many(Workload(size=size).rules_table())
    more = [(f"new {i}", text) for i, text in Workload(size=2_000, seed=3).rules()]
    rows = [
        measure_calls("add", [partial(matcher.add, *rule) for rule in more]),
        measure_calls("remove", [partial(matcher.remove, id) for id, _ in more[:500]]),
        measure_calls("remove of an old one", [partial(matcher.remove, id) for id in range(500)]),
    ]
    wait_for_merges(matcher)
    return [{**row, "segments after": matcher.stats()["segments"]} for row in rows]


def measure_calls(what: str, calls: Sequence[Callable[[], Any]]) -> Row:
    micro = time_calls(calls) * 1e6
    return {
        "what": what,
        "times": len(micro),
        "mean µs": float(micro.mean()),
        "p50 µs": float(np.median(micro)),
        "max µs": float(micro.max()),
    }


def measure_tail(sizes: Sequence[int]) -> list[Row]:
    workload = Workload(size=sizes[-1] + 100, seed=3)
    rules, events = list(workload.rules()), workload.events(200)
    rows = []
    for size in sizes:
        row: Row = {"rules": size, "plain match": None, "plain add": None, "plain insert": None}
        for form in FORMS if size <= MOST_PLAIN else FORMS[1:]:
            with force_tail_form(form):
                row |= {
                    f"{form} {what}": us
                    for what, us in measure_tail_form(form, size, rules, events)
                }
        rows.append(row)
    return rows


@contextmanager
def force_tail_form(form: str) -> Iterator[None]:
    """Keep the tail in one form, however long it gets."""
    before = tail.MOST_WITHOUT_TREE, tail.RIPE, tail.MOST, tail.MOST_WAITING
    tail.MOST_WITHOUT_TREE = tail.RIPE = tail.MOST = 1 << 30
    tail.MOST_WAITING = 0  # every addition inserts, as with searches between them
    tail.warm_up()
    tail._is_warm = form != "plain"
    try:
        yield
    finally:
        tail.MOST_WITHOUT_TREE, tail.RIPE, tail.MOST, tail.MOST_WAITING = before
        tail._is_warm = True


def measure_tail_form(
    form: str, size: int, rules: Sequence[tuple[Any, str]], events: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, float]]:
    matcher = tamis.Matcher()
    setattr(matcher._writer, "_wake_worker", lambda: None)  # noqa: B010  keeps the tail unmerged
    for id, text in rules[:size]:
        matcher.add(id, text)
    if form == "segment":
        matcher.optimize()
    matcher.match(events[0])
    yield "match", median_us([partial(matcher.match, event) for event in events])
    if form != "segment":
        coming = rules[size : size + 100]
        yield "add", median_us([partial(matcher.add, *rule) for rule in coming])
        entries = build_tail_rules(matcher, rules[size : size + 100])
        state = matcher._writer.snapshot.tail
        yield "insert", median_us([Insertion(state, entry) for entry in entries])


class Insertion:
    """A call that inserts one parsed rule after those of the calls before it."""

    state: Any = None

    def __init__(self, state: Any, entry: Any) -> None:
        Insertion.state = state
        self.entry = entry

    def __call__(self) -> None:
        Insertion.state = Insertion.state.with_added([self.entry])


def build_tail_rules(matcher: tamis.Matcher, rules: Sequence[tuple[Any, str]]) -> list[Any]:
    """Build rules in the form of the tail."""
    builder = matcher._builder
    return [builder.read_rule(make_rule(id, text, "strong")) for id, text in rules]


def median_us(calls: Sequence[Callable[[], Any]]) -> float:
    return float(np.median(time_calls(calls)) * 1e6)


def time_calls(calls: Iterable[Callable[[], Any]]) -> np.ndarray[Any, Any]:
    taken = []
    for call in calls:
        start = perf_counter()
        call()
        taken.append(perf_counter() - start)
    return np.array(taken)


def measure_inserts(size: int) -> list[Row]:
    with force_tail_form("tree"):
        return time_inserts(size)


def time_inserts(size: int) -> list[Row]:
    matcher, state = tamis.Matcher(), tail.NO_TAIL
    rows: list[Row] = []
    taken = np.empty(size)
    done = 0
    for start in range(0, size, 1_000):
        some = Workload(size=min(1_000, size - start), seed=start)
        for entry in build_tail_rules(matcher, [(start + id, text) for id, text in some.rules()]):
            begin = perf_counter()
            state = state.with_added([entry])
            taken[done] = perf_counter() - begin
            done += 1
        if done in (1_000, 10_000, 100_000, size):
            micro = taken[:done] * 1e6
            figures = {
                "mean": micro.mean(),
                "median": np.median(micro[-1_000:]),
                "worst": micro.max(),
            }
            rows.append({"rules": done, **figures, "all s": float(taken[:done].sum())})
    return rows


def measure_trickle(sizes: Sequence[int], count: int) -> list[Row]:
    tail.warm_up()
    rows = []
    for size in sizes:
        for is_read in (False, True):
            matcher = tamis.Matcher()
            if size:
                matcher.add_many(Workload(size=size, seed=1).rules_table())
            workload = Workload(size=count, seed=2)
            coming = [(f"new {id}", text) for id, text in workload.rules()]
            events = workload.events(200)
            time_matches(matcher, events, lambda: False, 200)
            rows.append(
                {"collection": size, **measure_single_additions(matcher, coming, events, is_read)}
            )
            matcher.close()
    return rows


def measure_single_additions(
    matcher: tamis.Matcher, rules: Sequence[tuple[str, str]], events: Any, is_read: bool
) -> Row:
    done = threading.Event()
    taken = np.empty(0)

    def write() -> None:
        nonlocal taken
        try:
            taken = time_calls(partial(matcher.add, *rule) for rule in rules)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    used = process_time()
    writer.start()
    read = time_matches(matcher, events, lambda: not done.is_set(), 1) if is_read else None
    writer.join()
    micro = taken * 1e6
    return {
        "beside": "a reader" if is_read else "alone",
        "add mean": float(micro.mean()),
        "p50": float(np.median(micro)),
        "p99": float(np.quantile(micro, 0.99)),
        "max": float(micro.max()),
        "all cores, each add": (process_time() - used) * 1e6 / len(rules),
        "match p50": None if read is None else float(np.median(read) * 1e6),
        "match p99.9": None if read is None else float(np.quantile(read, 0.999) * 1e6),
        "segments": len(matcher._writer.snapshot.views),
        "in tail": len(matcher._writer.snapshot.tail),
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
        note("open, trusting the disk", lambda: tamis.open(path, verify=False)).close()
        opened = note("open", lambda: tamis.open(path))
        note("first match", lambda: opened.match_array(events[0]))
        note("20 more matches", lambda: [opened.match_array(event) for event in events])
        adds = iter(range(10**9))

        def add(_: int) -> None:
            opened.add(f"n{next(adds)}", "attribute1 = 5")

        note("200 adds", lambda: list(map(add, range(200))))
        with ThreadPoolExecutor(8) as threads:
            note("200 adds by 8 threads", lambda: list(threads.map(add, range(200))))
        opened.close()
    return rows


if __name__ == "__main__":
    main()
