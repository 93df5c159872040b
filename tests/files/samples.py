"""Files of rules and events in every format, for the tests."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from tamis.files import (
    Query,
    load_rules,
    match_file,
    read_events,
)

RULES = [
    {"id": "young", "rule": "age < 20"},
    {"id": "french", "rule": "country = 'FR' AND NOT (age > 99)"},
    {"id": "named", "rule": "name IS NOT NULL", "logic": "weak"},
]


EVENTS: list[dict[str, Any]] = [
    {"age": 15, "country": "FR", "name": "Ana"},
    {"age": 40, "country": "FR", "name": None},
    {"age": 41, "country": "DE", "name": 'Bo, 5" tall'},
    {"age": None, "country": None, "name": None},
]


MATCHES = [(0, "young"), (0, "french"), (0, "named"), (1, "french"), (2, "named")]


def write_json_lines(path: Path, records: list[Any]) -> None:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_csv(path: Path, records: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for r in records for key in r)))
        writer.writeheader()
        writer.writerows(records)


def write_parquet(path: Path, records: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(records), path)


def write(path: Path, records: list[Any]) -> str:
    """Write `records` in the format of the file's extension."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    writers: dict[str, Callable[[Path, list[Any]], None]] = {
        "csv": write_csv,
        "parquet": write_parquet,
    }
    writers.get(kind, write_json_lines)(path, records)
    return str(path)


def load_matcher(path: str, **options: Any) -> tamis.Matcher:
    matcher = tamis.Matcher()
    load_rules(matcher, path, **options)
    return matcher


def match_all(matcher: tamis.Matcher, path: str) -> list[tuple[Any, Any]]:
    found = []
    for matches in match_file(matcher, path, Query()):
        rows = matches.table.to_pylist()
        found += [(matches.keys[row["event"]], row["rule"]) for row in rows]
    return found


def read_all_events(path: str) -> object:
    return list(read_events(path))
