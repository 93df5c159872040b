"""Join predicates: what they add to an event, and what a remembered document takes.

There are 100,000 rules of two constants (a topic, of 1,000, and a limit to the price) and a join
predicate, and documents of five attributes. The joins are

- *simple*: two, four and eight, quantified comparisons with the price, year, stock or author of
  documents;
- *conjunctions*: four, of an equality and a comparison in one quantifier.

For as many documents as are named, up to a million:

- *constants*: microseconds of `match` over the same rules without their join predicates;
- *match*, *publish*: the same with them, where `publish` also remembers the event;
- *added*: by how much `publish` takes longer than *constants*: at most 20 is the aim for simple
  joins;
- *evaluated*: how many join predicates an event had evaluated, of all;
- *forget*: what `publish` takes when the oldest document goes for each that comes;
- *bytes*: memory a document, by the growth of a process with few rules, indexes of all attributes
  that joins speak of included.

Times are medians over events.

Usage: python -m benchmarks.bench_joins [--quick] [--rules N] [--documents N …] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np

import tamis
from benchmarks.report import RESULTS, Row, save, show

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


AT_ONCE = 10_000
"""How many documents are made at a time, so that they take no room besides those remembered."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    parser.add_argument("--rules", type=int, default=100_000, help="how many rules there are")
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--events", type=int, default=2_000, help="how many events are measured")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    args = parser.parse_args()
    rules, sizes, events = args.rules, args.documents, args.events
    if args.quick:
        rules, sizes, events = 1_000, [100], 50
    constants = measured(matcher_of(rules, [None]).match, documents(events, 1))
    some = [("simple", SIMPLE[:count]) for count in (2, 4, 8)]
    cases = [
        (name, joins, rules, size, events, constants)
        for name, joins in (*some, ("conjunctions", CONJUNCTIONS))
        for size in sizes
    ]
    # Each in a process of its own: what one has freed, the next one would not seem to take.
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rows = pool.starmap(measure, cases, chunksize=1)
    show(f"{rules:,} rules with join predicates, µs an event", rows)
    save("bench_joins", {"rules": rules, "rows": rows}, args.results)


def measure(
    name: str, joins: Sequence[str], rules: int, size: int, count: int, constants: float
) -> Row:
    grown = growth(joins, size)
    matcher = matcher_of(rules, joins, tamis.Retention(count=size + count))
    events = documents(count, 1)
    remember(matcher, size)
    matcher.match(events[0])
    evaluated = matcher.documents.stats()["evaluated"]
    match = measured(matcher.match, events)
    evaluated = matcher.documents.stats()["evaluated"] - evaluated
    publish = measured(matcher.publish, events)
    forget = measured(matcher.publish, events)
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
        "bytes": grown / size,
    }


def growth(joins: Sequence[str], size: int) -> int:
    """How much memory documents take: measured first, while the process has no room to spare."""
    matcher = matcher_of(len(joins), joins)
    matcher.match(documents(1, 1)[0])
    remember(matcher, AT_ONCE)
    before = resident()
    remember(matcher, size)
    gc.collect()
    return resident() - before


def remember(matcher: tamis.Matcher, size: int) -> None:
    for first in range(0, size, AT_ONCE):
        matcher.documents.add_many(documents(min(AT_ONCE, size - first), first + 2))


def matcher_of(
    size: int, joins: Sequence[str | None], retention: tamis.Retention | None = None
) -> tamis.Matcher:
    """Rules that take turns with these join predicates."""
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


def documents(count: int, seed: int) -> list[dict[str, Any]]:
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


def measured(ask: Callable[[dict[str, Any]], object], events: list[dict[str, Any]]) -> float:
    """The median of microseconds an event."""
    for event in events[: len(events) // 10]:
        ask(event)
    times = []
    for event in events:
        start = perf_counter()
        ask(event)
        times.append(perf_counter() - start)
    return float(np.median(times)) * 1e6


def resident() -> int:
    """How much memory the process has, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
