"""Measures encoding: events from Arrow columns, and rules from texts that share their shapes.

- *events*: seconds to encode 1,000,000 flat rows of 15 columns (six of integers, four of doubles,
  three of strings, a boolean, a timestamp; a tenth is null) for 10,000 rules that mention all of
  them. Once with plain and once with dictionary-encoded strings; the best of three.
- *shapes*: µs of a `match_array` for events of 20 values, as dictionaries: plain ones, and with a
  time, a decimal, a NumPy number, a list, an object, many attributes that no rule mentions, or a
  schema. None should cost a multiple.
- *rules*: rules per second for texts from 20 templates that differ only in their literals: every
  text parsed in full, then through `Shapes`, which parses a template once; encoded by
  `RuleEncoder`, rule by rule, and by the kernels of `tamis.encode.plain`; and 1,000,000 such rules
  until they are in a Matcher and have answered an event. Each has one or two predicates that no
  other rule has, which is the hard case for a Matcher.

Everything runs on one core. Rates are by CPU time, which a busy machine affects less than
wall-clock time; both are shown.

Usage: python -m benchmarks.bench_encode [--quick] [--size N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

import tamis
from benchmarks.report import RESULTS, Row, save, show
from tamis.encode.columns import ColumnEncoder
from tamis.encode.plain.reader import PlainReader
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.encode.values import pack_texts
from tamis.expr.text.shapes import Shapes

INTEGERS = [f"int{i}" for i in range(6)]
DOUBLES = [f"double{i}" for i in range(4)]
WORDS = {"country": 200, "category": 5_000, "user": 200_000}
"""The string columns, each with its number of distinct values."""
PARSED = 20_000
"""The number of texts that are parsed in full; the rate does not depend on it."""


ENCODED = 200_000
"""The number of texts that are encoded without a Matcher."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    parser.add_argument("--size", type=int, default=1_000_000, help="how many rows and rules")
    args = parser.parse_args()
    size = 2_000 if args.quick else args.size
    events = measure_events(rows=size, rules=size // 100)
    shapes = measure_shapes(size // 50)
    rules = measure_rules(size)
    show(f"Events: {size:,} rows × 15 columns", events)
    show("Rules from 20 templates", rules)
    show("Events of one shape each", shapes)
    save("bench_encode", {"events": events, "shapes": shapes, "rules": rules}, args.results)


def measure_events(rows: int, rules: int) -> list[Row]:
    encoded = encode_rules(draw_texts(rules))
    batch = draw_batch(rows)
    encoder = ColumnEncoder(encoded)

    def figures(name: str, columns: pa.RecordBatch) -> Row:
        encoder.encode(columns.slice(0, 100))
        best = min(
            (time_call(lambda: encoder.encode(columns)) for _ in range(3)), key=lambda t: t.cpu
        )
        return {"columns": name, **best.row(rows, "rows/s")}

    return [figures("plain strings", batch), figures("dictionaries", with_dictionaries(batch))]


TAGS = [f"tag{number}" for number in range(30)]
SHAPES: dict[str, Callable[[Random], dict[str, Any]]] = {
    "plain": lambda random: {},
    "a time in UTC": lambda random: {"at": draw_time(random)},
    "a local time": lambda random: {"at": draw_time(random).astimezone(ZoneInfo("Europe/Paris"))},
    "a date": lambda random: {"at": draw_time(random).date()},
    "a decimal": lambda random: {"price": Decimal(random.randrange(1_000)) / 8},
    "a NumPy number": lambda random: {"price": np.float64(random.randrange(1_000))},
    "a list": lambda random: {"tags": random.sample(TAGS, 3)},
    "an object": lambda random: {"user": {"age": random.randrange(100), "plan": "free"}},
    "100 attributes more": lambda random: {f"b{n}": random.randrange(50) for n in range(100)},
}
"""What events have beside their integers."""


def draw_time(random: Random) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(10**6))


def measure_shapes(rules: int) -> list[Row]:
    random = Random(3)
    texts = [
        f"a{random.randrange(20)} = {random.randrange(50)} AND a{random.randrange(20)} > 20 AND "
        + random.choice(
            [
                f"at > TIMESTAMP '2026-01-0{random.randrange(1, 10)} 00:00:00'",
                f"price > {random.randrange(1_000)}.5",
                f"tags = 'tag{random.randrange(30)}'",
                f"user.age < {random.randrange(100)}",
            ]
        )
        for _ in range(rules)
    ]
    declared = {"a1": "integer", "price": "double", "at": "timestamp"}
    plain, typed = tamis.Matcher(), tamis.Matcher(schema=declared)
    for matcher in (plain, typed):
        matcher.add_many(enumerate(texts))
        matcher.optimize()

    def figures(shape: str, matcher: tamis.Matcher, draw: Callable[[Random], Any]) -> Row:
        rows = [
            {f"a{number}": random.randrange(50) for number in range(18)} | draw(random)
            for _ in range(2_000)
        ]

        def match_all() -> None:
            for row in rows:
                matcher.match_array(row)

        match_all()
        best = min(time_call(match_all).cpu for _ in range(5))
        return {"shape": shape, "µs": round(best / len(rows) * 1e6, 1)}

    rows = [figures(shape, plain, draw) for shape, draw in SHAPES.items()]
    return [*rows, figures("plain, with a schema", typed, SHAPES["plain"])]


def measure_rules(size: int) -> list[Row]:
    texts = draw_texts(size)
    shapes = Shapes()
    encode_plain(texts[:100])

    def figures(method: str, take: Callable[[list[str]], Any], given: list[str]) -> Row:
        taken = time_call(lambda: take(given))
        return {"method": method, "rules": len(given), **taken.row(len(given), "rules/s")}

    return [
        figures("parsed in full", lambda given: [tamis.parse(t) for t in given], texts[:PARSED]),
        figures("through Shapes", lambda given: [shapes.parse(t) for t in given], texts),
        figures("encoded one by one", encode_rules, texts[:ENCODED]),
        figures("encoded by kernels", encode_plain, texts[:ENCODED]),
        figures("into a Matcher", build_matcher, texts),
    ]


def build_matcher(texts: list[str]) -> tamis.Matcher:
    matcher = tamis.Matcher()
    matcher.add_many(pa.table({"id": np.arange(len(texts)), "rule": texts}))
    matcher.match_array({"int0": 5})
    return matcher


def encode_rules(texts: list[str]) -> EncodedRules:
    encoder = RuleEncoder()
    for text in texts:
        encoder.add_text(text, "strong")
    return encoder.finish()


def encode_plain(texts: list[str]) -> EncodedRules:
    reader = PlainReader()
    reader.add(*pack_texts(texts), np.zeros(len(texts), np.uint8))
    return reader.finish().encoded


def draw_texts(count: int) -> list[str]:
    """Draw rules of 20 shapes, each with three to five predicates over all kinds of columns."""
    random = np.random.default_rng(1)
    templates = [draw_template(random) for _ in range(20)]
    chosen = random.integers(len(templates), size=count).tolist()
    numbers = random.integers(1_000, size=(count, 8)).tolist()
    return [
        templates[t] % tuple(row[: templates[t].count("%")])
        for t, row in zip(chosen, numbers, strict=True)
    ]


def draw_template(random: np.random.Generator) -> str:
    forms = [f"{name} > %d" for name in INTEGERS]
    forms += [f"{name} BETWEEN %d.5 AND 1%d.25" for name in DOUBLES]
    forms += [f"{name} IN ('{name}-%d', '{name}-1%d')" for name in WORDS]
    forms += ["flag = TRUE AND int0 <> %d", "seen_at >= TIMESTAMP '2024-01-01 00:00:00.%06d'"]
    picked = random.choice(len(forms), size=random.integers(3, 5), replace=False)
    return " AND ".join(forms[i] for i in picked)


def draw_batch(rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(2)
    start = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
    columns: dict[str, Any] = {name: random.integers(2_000, size=rows) for name in INTEGERS}
    columns |= {name: random.random(rows) * 2_000 for name in DOUBLES}
    for name, distinct in WORDS.items():
        words = pa.array([f"{name}-{i}" for i in range(distinct)])
        columns[name] = words.take(pa.array(random.integers(distinct, size=rows)))
    columns["flag"] = random.integers(2, size=rows).astype(bool)
    times = start + random.integers(10_000_000, size=rows)
    columns["seen_at"] = pa.array(times).cast(pa.timestamp("us", "UTC"))
    return pa.record_batch({name: drop_tenth(random, column) for name, column in columns.items()})


def drop_tenth(random: np.random.Generator, column: Any) -> pa.Array:
    """Make a tenth of the values of the column absent."""
    kept = pa.array(random.random(len(column)) >= 0.1)
    return pa.compute.if_else(kept, pa.array(column), None)


def with_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(
        {
            name: column.dictionary_encode() if name in WORDS else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
    )


class Taken(NamedTuple):
    """Wall-clock seconds, and CPU seconds."""

    wall: float
    cpu: float

    def row(self, count: int, rate: str) -> Row:
        return {"seconds": self.wall, "CPU s": self.cpu, rate: count / self.cpu}


def time_call(call: Callable[[], Any]) -> Taken:
    wall, cpu = perf_counter(), process_time()
    call()
    return Taken(perf_counter() - wall, process_time() - cpu)


if __name__ == "__main__":
    main()
