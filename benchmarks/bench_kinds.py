"""Measures rules of many kinds: functions, and criteria like those of the Mustang library.

- *criteria*: searches per second on one core over 10,000 criteria like those in Mustang's own
  benchmark: 26 attributes of 100 values each; four fifths of the criteria are an OR of one to three
  ANDs of three predicates, a fifth an AND of three ORs of two, and each predicate has one to three
  values; an event has a value for every attribute. By `match`, one event after another, and by
  `match_many`. The aim is 20,000;
- *kinds*: 100,000 rules, all kinds of functions in turn, each with one ordinary equality; and
  10,000 of each kind alone. Microseconds of one `match`, microseconds per event of `match_many` on
  Arrow columns, and rules found per event, by CPU time. The literals are random, so there are
  thousands of sets, circles, networks and versions, which is the hard case.

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
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    criteria = measure_criteria(*((500, 50) if args.quick else (10_000, 5_000)))
    kinds = measure_kinds(*((500, 20) if args.quick else (100_000, 500)))
    show("Criteria of 26 attributes with 100 values", criteria)
    show("Rules with functions", kinds)
    save("bench_kinds", {"criteria": criteria, "kinds": kinds}, args.results)


def measure_criteria(rules: int, events: int) -> list[Row]:
    random = Random(1)
    matcher = tamis.Matcher()
    matcher.add_many([(i, draw_criterion(random)) for i in range(rules)])
    given = [{name: random.randrange(VALUES) for name in ATTRIBUTES} for _ in range(events)]
    matcher.match(given[0])
    table = pa.Table.from_pylist(given)
    methods: dict[str, Callable[[], Any]] = {
        "match": lambda: match_each(matcher, given),
        "match_many of mappings": lambda: matcher.match_many(given),
        "match_many of columns": lambda: matcher.match_many(table),
    }
    found = matcher.match_many(table).num_rows / events
    rows = []
    for name, method in methods.items():
        rate = events / min(cpu_seconds(method) for _ in range(5))
        rows.append({"method": name, "criteria": rules, "searches/s": rate, "matches": found})
    return rows


def draw_criterion(random: Random) -> str:
    if random.random() < 0.8:
        inner, outer, parts, size = " AND ", " OR ", random.randrange(1, 4), 3
    else:
        inner, outer, parts, size = " OR ", " AND ", 3, 2
    names = iter(random.sample(ATTRIBUTES, parts * size))
    groups = [[draw_membership(random, next(names)) for _ in range(size)] for _ in range(parts)]
    return outer.join(f"({inner.join(group)})" for group in groups)


def draw_membership(random: Random, name: str) -> str:
    values = ", ".join(map(str, random.sample(range(VALUES), random.randrange(1, 4))))
    return f"{name} IN ({values})"


def measure_kinds(rules: int, events: int) -> list[Row]:
    random = Random(2)
    given = [draw_event(random) for _ in range(events)]
    rows = [measure_rules("all kinds in turn", list(KINDS.values()), rules, given)]
    for name, kind in KINDS.items():
        rows.append(measure_rules(name, [kind], rules // 10, given))
    return rows


def measure_rules(
    name: str, kinds: list[Callable[[Random], str]], rules: int, events: list[Event]
) -> Row:
    texts = list(enumerate(draw_rules(kinds, rules)))
    matcher = tamis.Matcher()
    added = cpu_seconds(lambda: matcher.add_many(texts))
    matcher.match(events[0])
    table = pa.Table.from_pylist(events)
    found = matcher.match_many(table).num_rows
    one = min(cpu_seconds(lambda: match_each(matcher, events)) for _ in range(3))
    many = min(cpu_seconds(lambda: matcher.match_many(table)) for _ in range(3))
    return {
        "kind": name,
        "rules": rules,
        "add_s": added,
        "us_match": 1e6 * one / len(events),
        "us_match_many": 1e6 * many / len(events),
        "matches": found / len(events),
    }


def draw_rules(kinds: list[Callable[[Random], str]], rules: int) -> list[str]:
    """Rules that name a country and use functions, of each kind in turn."""
    random = Random(3)
    return [
        f"country = 'C{random.randrange(COUNTRIES)}' AND {kinds[i % len(kinds)](random)}"
        for i in range(rules)
    ]


def match_each(matcher: tamis.Matcher, events: list[Event]) -> None:
    for event in events:
        matcher.match(event)


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Measure CPU time, which a busy machine affects less than wall-clock time."""
    began = process_time()
    work()
    return process_time() - began


def draw_event(random: Random) -> Event:
    price = random.randrange(1, 1000)
    return {
        "country": f"C{random.randrange(COUNTRIES)}",
        "app": draw_version(random),
        "ip": ".".join(str(random.randrange(256)) for _ in range(4)),
        "name": "".join(random.choices("abcdefghij", k=random.randrange(4, 16))),
        "tags": [f"t{random.randrange(TAGS)}" for _ in range(random.randrange(1, 6))],
        "lat": random.uniform(35, 60),
        "lon": random.uniform(-10, 30),
        "price": price,
        "list_price": price + random.randrange(-50, 200),
        "user": random.randrange(10**9),
        "seen": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randrange(525_600)),
    }


def draw_version(random: Random) -> str:
    return f"{random.randrange(1, 9)}.{random.randrange(20)}.{random.randrange(60)}"


def draw_tags(random: Random, size: int) -> str:
    return ", ".join(f"'t{tag}'" for tag in random.sample(range(TAGS), size))


KINDS: dict[str, Callable[[Random], str]] = {
    "version": lambda random: f"version(app) >= '{draw_version(random)}'",
    "subset": lambda random: f"subset(tags, ({draw_tags(random, 12)}))",
    "superset": lambda random: f"superset(tags, ({draw_tags(random, 2)}))",
    "equalset": lambda random: f"equalset(tags, ({draw_tags(random, 2)}))",
    "cidr": lambda random: f"cidr(ip, '{random.randrange(256)}.{random.randrange(256)}.0.0/14')",
    "contains": lambda random: f"contains(name, '{''.join(random.choices('abcdefghij', k=3))}')",
    "within_km": lambda random: (
        f"within_km(lat, lon, {random.uniform(35, 60):.3f}, {random.uniform(-10, 30):.3f}, 50)"
    ),
    "two attributes": lambda random: f"list_price - price > {random.randrange(150)}",
    "modulo": lambda random: f"user % 100 = {random.randrange(100)}",
    "substring": lambda random: (
        f"substring(name, 1, 3) = '{''.join(random.choices('abcde', k=3))}'"
    ),
    "time of day": lambda random: f"hour(at_zone(seen, 'Asia/Kolkata')) = {random.randrange(24)}",
}


if __name__ == "__main__":
    main()
