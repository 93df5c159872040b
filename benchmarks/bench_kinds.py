"""Rules of many kinds: functions at speed, and the shape of an open-source kit's own benchmark.

- *criteria*: searches per second on one core over 10,000 criteria like those that the Mustang
  library is measured with: 26 attributes of 100 values each; four fifths of the criteria are an OR
  of one to three ANDs of three predicates, a fifth an AND of three ORs of two, and each predicate
  includes one to three values; an event has a value for every attribute. By `match`, one event
  after another, and by `match_many`. The aim is 20,000;
- *kinds*: 100,000 rules, all kinds of functions in turn, each beside one ordinary equality; and
  10,000 of each kind alone. Microseconds of one `match`, of an event in `match_many` over Arrow
  columns, and rules found an event, by the processor's time. The literals are drawn at random, so
  that there are thousands of sets, circles, networks and versions, which is the hard case.

Usage: python -m benchmarks.bench_kinds [--quick] [--results FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pyarrow as pa

import tamis
from benchmarks.report import RESULTS, Row, save, show

ATTRIBUTES = [chr(ord("a") + i) for i in range(26)]
VALUES = 100
COUNTRIES = 50
TAGS = 60

Event = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    args = parser.parse_args()
    criteria = measure_criteria(*((500, 50) if args.quick else (10_000, 5_000)))
    kinds = measure_kinds(*((500, 20) if args.quick else (100_000, 500)))
    show("Criteria of 26 attributes with 100 values", criteria)
    show("Rules with functions", kinds)
    save("bench_kinds", {"criteria": criteria, "kinds": kinds}, args.results)


def measure_criteria(rules: int, events: int) -> list[Row]:
    draw = Random(1)
    matcher = tamis.Matcher()
    matcher.add_many([(i, criterion(draw)) for i in range(rules)])
    given = [{name: draw.randrange(VALUES) for name in ATTRIBUTES} for _ in range(events)]
    matcher.match(given[0])
    table = pa.Table.from_pylist(given)
    roads: dict[str, Callable[[], Any]] = {
        "match": lambda: match_each(matcher, given),
        "match_many of mappings": lambda: matcher.match_many(given),
        "match_many of columns": lambda: matcher.match_many(table),
    }
    found = matcher.match_many(table).num_rows / events
    rows = []
    for name, road in roads.items():
        rate = events / min(processor_seconds(road) for _ in range(5))
        rows.append({"road": name, "criteria": rules, "searches/s": rate, "matches": found})
    return rows


def criterion(draw: Random) -> str:
    if draw.random() < 0.8:
        inner, outer, parts, size = " AND ", " OR ", draw.randrange(1, 4), 3
    else:
        inner, outer, parts, size = " OR ", " AND ", 3, 2
    names = iter(draw.sample(ATTRIBUTES, parts * size))
    groups = [[membership(draw, next(names)) for _ in range(size)] for _ in range(parts)]
    return outer.join(f"({inner.join(group)})" for group in groups)


def membership(draw: Random, name: str) -> str:
    values = ", ".join(map(str, draw.sample(range(VALUES), draw.randrange(1, 4))))
    return f"{name} IN ({values})"


def measure_kinds(rules: int, events: int) -> list[Row]:
    draw = Random(2)
    given = [event_of(draw) for _ in range(events)]
    rows = [measured("all kinds in turn", list(KINDS.values()), rules, given)]
    for name, kind in KINDS.items():
        rows.append(measured(name, [kind], rules // 10, given))
    return rows


def measured(
    name: str, kinds: list[Callable[[Random], str]], rules: int, events: list[Event]
) -> Row:
    draw = Random(3)
    texts = [
        (i, f"country = 'C{draw.randrange(COUNTRIES)}' AND {kinds[i % len(kinds)](draw)}")
        for i in range(rules)
    ]
    matcher = tamis.Matcher()
    added = processor_seconds(lambda: matcher.add_many(texts))
    matcher.match(events[0])
    table = pa.Table.from_pylist(events)
    found = matcher.match_many(table).num_rows
    one = min(processor_seconds(lambda: match_each(matcher, events)) for _ in range(3))
    many = min(processor_seconds(lambda: matcher.match_many(table)) for _ in range(3))
    return {
        "kind": name,
        "rules": rules,
        "add_s": added,
        "us_match": 1e6 * one / len(events),
        "us_match_many": 1e6 * many / len(events),
        "matches": found / len(events),
    }


def match_each(matcher: tamis.Matcher, events: list[Event]) -> None:
    for event in events:
        matcher.match(event)


def processor_seconds(work: Callable[[], Any]) -> float:
    """Of the processor: a busy machine spoils them less than the seconds that pass."""
    began = process_time()
    work()
    return process_time() - began


def event_of(draw: Random) -> Event:
    price = draw.randrange(1, 1000)
    return {
        "country": f"C{draw.randrange(COUNTRIES)}",
        "app": version_of(draw),
        "ip": ".".join(str(draw.randrange(256)) for _ in range(4)),
        "name": "".join(draw.choices("abcdefghij", k=draw.randrange(4, 16))),
        "tags": [f"t{draw.randrange(TAGS)}" for _ in range(draw.randrange(1, 6))],
        "lat": draw.uniform(35, 60),
        "lon": draw.uniform(-10, 30),
        "price": price,
        "list_price": price + draw.randrange(-50, 200),
        "user": draw.randrange(10**9),
        "seen": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=draw.randrange(525_600)),
    }


def version_of(draw: Random) -> str:
    return f"{draw.randrange(1, 9)}.{draw.randrange(20)}.{draw.randrange(60)}"


def tags_of(draw: Random, size: int) -> str:
    return ", ".join(f"'t{tag}'" for tag in draw.sample(range(TAGS), size))


KINDS: dict[str, Callable[[Random], str]] = {
    "version": lambda draw: f"version(app) >= '{version_of(draw)}'",
    "subset": lambda draw: f"subset(tags, ({tags_of(draw, 12)}))",
    "superset": lambda draw: f"superset(tags, ({tags_of(draw, 2)}))",
    "equalset": lambda draw: f"equalset(tags, ({tags_of(draw, 2)}))",
    "cidr": lambda draw: f"cidr(ip, '{draw.randrange(256)}.{draw.randrange(256)}.0.0/14')",
    "contains": lambda draw: f"contains(name, '{''.join(draw.choices('abcdefghij', k=3))}')",
    "within_km": lambda draw: (
        f"within_km(lat, lon, {draw.uniform(35, 60):.3f}, {draw.uniform(-10, 30):.3f}, 50)"
    ),
    "two attributes": lambda draw: f"list_price - price > {draw.randrange(150)}",
    "modulo": lambda draw: f"user % 100 = {draw.randrange(100)}",
    "substring": lambda draw: f"substring(name, 1, 3) = '{''.join(draw.choices('abcde', k=3))}'",
    "time of day": lambda draw: f"hour(at_zone(seen, 'Asia/Kolkata')) = {draw.randrange(24)}",
}


if __name__ == "__main__":
    main()
