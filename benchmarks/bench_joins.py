"""Measures join predicates: the time they add to an event, and the memory of a document.

There are 100,000 rules of two constant predicates (one of 1,000 topics, and a limit to the price)
and a join predicate, and documents of five attributes. The joins are

- *simple*: two, four and eight quantified comparisons with the price, year, stock or author of
  documents;
- *conjunctions*: four, each an equality and a comparison in one quantifier;
- *constants of documents*: eight that combine a comparison with a condition on old documents, such
  as ``d.year >= 1950``, which many documents satisfy; each condition is in two of them;
- *windows*: six aggregates over ranges, two of them of the same author.

For each number of documents, up to a million:

- *constants*: microseconds of `match` over the same rules without their join predicates;
- *match*, *publish*: the same with them, where `publish` also remembers the event;
- *added*: how much longer `publish` takes than *constants*: the aim for simple joins is at most 20;
- *evaluated*: the number of join predicates evaluated per event;
- *forget*: the time of `publish` when the oldest document is removed for each new one;
- *bytes*: memory per document, by the growth of a process with few rules, including the indexes of
  all attributes that joins mention.

Times are medians over events.

Usage: python -m benchmarks.bench_joins [--quick] [--rules N] [--documents N …] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np

import tamis
from benchmarks.report import RESULTS, Row, resident_bytes, save, show

SIMPLE = [
    "EXISTS (SELECT 1 FROM seen d WHERE d.price > price)",
    "price < ALL (SELECT d.price FROM seen d)",
    "EXISTS (SELECT 1 FROM seen d WHERE d.author = author)",
    "author <> ALL (SELECT d.author FROM seen d)",
    "year >= ANY (SELECT d.year FROM seen d)",
    "year > ALL (SELECT d.year FROM seen d)",
    "stock = ANY (SELECT d.stock FROM seen d)",
    "stock < ANY (SELECT d.stock FROM seen d)",
]
CONJUNCTIONS = [
    "EXISTS (SELECT 1 FROM seen d WHERE d.author = author AND d.price < price)",
    "EXISTS (SELECT 1 FROM seen d WHERE d.author = author AND d.year > year)",
    "EXISTS (SELECT 1 FROM seen d WHERE d.stock = stock AND d.price > price)",
    "price < ALL (SELECT d.price FROM seen d WHERE d.author = author)",
]


SELECTIONS = [
    form.format(year)
    for year in (1920, 1950, 1980, 2010)
    for form in (
        "EXISTS (SELECT 1 FROM seen d WHERE d.year >= {} AND d.price > price)",
        "price < ALL (SELECT d.price FROM seen d WHERE d.year >= {})",
    )
]


WINDOWS = [
    "(SELECT COUNT(*) FROM seen d WHERE d.author = author AND d.year > year - 5) >= 3",
    "(SELECT SUM(d.stock) FROM seen d WHERE d.author = author AND d.year > year - 5) > 9000",
    "(SELECT COUNT(*) FROM seen d WHERE d.stock > stock - 100 AND d.stock <= stock) >= 3",
    "(SELECT AVG(d.price) FROM seen d WHERE d.stock > stock - 100 AND d.stock <= stock) > 500",
    "(SELECT MAX(d.price) FROM seen d WHERE d.stock > stock - 100) > 999",
    "(SELECT COUNT(DISTINCT d.topic) FROM seen d WHERE d.stock > stock - 100) >= 900",
]


AT_ONCE = 10_000
"""How many documents are drawn at a time, so that they take little room beside those remembered."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=100_000, help="the number of rules")
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--events", type=int, default=2_000, help="how many events to measure")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    rules, sizes, events = args.rules, args.documents, args.events
    if args.quick:
        rules, sizes, events = 1_000, [100], 50
    constants = measure_median(build_matcher(rules, [None]).match, draw_documents(events, 1))
    some = [("simple", SIMPLE[:count]) for count in (2, 4, 8)]
    cases = [
        (name, joins, rules, size, events, constants)
        for name, joins in (
            *some,
            ("conjunctions", CONJUNCTIONS),
            ("constants of documents", SELECTIONS),
            ("windows", WINDOWS),
        )
        for size in sizes
    ]
    # Each in a process of its own: memory that one has freed would hide the need of the next.
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rows = pool.starmap(measure, cases, chunksize=1)
    show(f"{rules:,} rules with join predicates, µs per event", rows)
    save("bench_joins", {"rules": rules, "rows": rows}, args.results)


def measure(
    name: str, joins: Sequence[str], rules: int, size: int, count: int, constants: float
) -> Row:
    memory = measure_memory(joins, size)
    matcher = build_matcher(rules, joins, tamis.Retention(count=size + count))
    events = draw_documents(count, 1)
    remember(matcher, size)
    matcher.match(events[0])
    evaluated = matcher.documents.stats()["evaluated"]
    match = measure_median(matcher.match, events)
    evaluated = matcher.documents.stats()["evaluated"] - evaluated
    publish = measure_median(matcher.publish, events)
    forget = measure_median(matcher.publish, events)
    return {
        "joins": name,
        "distinct": len(joins),
        "documents": size,
        "constants": constants,
        "match": match,
        "publish": publish,
        "added": publish - constants,
        "forget": forget,
        "evaluated": evaluated / len(events),
        "bytes": memory / size,
    }


def measure_memory(joins: Sequence[str], size: int) -> int:
    """Measure the memory of documents; call it first, while the process has no freed memory."""
    matcher = build_matcher(len(joins), joins)
    matcher.match(draw_documents(1, 1)[0])
    remember(matcher, AT_ONCE)
    before = resident_bytes()
    remember(matcher, size)
    gc.collect()
    return resident_bytes() - before


def remember(matcher: tamis.Matcher, size: int) -> None:
    for first in range(0, size, AT_ONCE):
        matcher.documents.add_many(draw_documents(min(AT_ONCE, size - first), first + 2))


def build_matcher(
    size: int, joins: Sequence[str | None], retention: tamis.Retention | None = None
) -> tamis.Matcher:
    """Build a matcher whose rules use these join predicates in turn."""
    random = Random(7)
    matcher = tamis.Matcher(documents=retention)
    texts = []
    for number in range(size):
        constants = f"topic = 't{random.randrange(1_000)}' AND price < {random.randrange(1_000)}"
        join = joins[number % len(joins)]
        texts.append((number, constants if join is None else f"{constants} AND {join}"))
    matcher.add_many(texts)
    matcher.optimize()
    return matcher


def draw_documents(count: int, seed: int) -> list[dict[str, Any]]:
    random = Random(seed)
    return [
        {
            "topic": f"t{random.randrange(1_000)}",
            "price": random.randrange(100_000) / 100,
            "year": random.randrange(1_900, 2_030),
            "stock": random.randrange(10_000),
            "author": f"author {random.randrange(100_000)}",
        }
        for _ in range(count)
    ]


def measure_median(call: Callable[[dict[str, Any]], object], events: list[dict[str, Any]]) -> float:
    """Measure the median microseconds per event."""
    for event in events[: len(events) // 10]:
        call(event)
    times = []
    for event in events:
        start = perf_counter()
        call(event)
        times.append(perf_counter() - start)
    return float(np.median(times)) * 1e6


if __name__ == "__main__":
    main()
