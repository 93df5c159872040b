"""Makes the stored index of the current file format that `test_stored_formats.py` opens.

Run it once when `FORMAT` changes, with the version of Tamis that introduces the new format. The
indexes of older formats stay: every later version has to open them.

Usage: python tests/matcher/storage/make_stored_index.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tamis

AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The moment at which the events are matched."""

NESTED = " AND ".join(f"(size = {i} OR price > {i} OR name = 'n{i}')" for i in range(12))
"""Has more conjunctions than are written out, so it is stored as a program."""

TEXTS = {
    "all": "TRUE",
    "none": "FALSE",
    "equal": "size = 1",
    "conjunction": "size = 1 AND name = 'a' AND price > 10",
    "list": "size IN (1, 2, 3) AND name IN ('a', 'b')",
    "range": "price > 10 AND price <= 30.5",
    "between": "name BETWEEN 'a' AND 'c'",
    "dnf": "size = 1 AND price < 5 OR size = 2 AND price > 5 OR name = 'z'",
    "cnf": "(size = 1 OR name = 'b') AND (price > 5 OR flag = TRUE)",
    "negated": "name <> 'z' AND size NOT IN (7, 8) AND NOT (price > 50 AND flag = TRUE)",
    "absent": "other IS NULL AND name IS NOT NULL",
    "nested program": NESTED,
    "like": "name LIKE 'a%' OR name LIKE '%b%'",
    "ilike": "name ILIKE '%B'",
    "rlike": "name RLIKE '^[ab]' AND NOT name RLIKE 'c$'",
    "timestamp": "seen >= TIMESTAMP '2023-05-05 10:00:00'",
    "date": "seen >= DATE '2020-01-01' OR size = 3",
    "nested attribute": "place.city = 'Bonn' AND tags = 'x'",
    "length": "length(name) > 2",
    "arithmetic": "(size + price) * 2 <= 30.5",
    "attributes compared": "size >= price",
    "version": "version(app) >= '1.2'",
    "superset": "superset(tags, ('x', 'y'))",
    "cidr": "cidr(ip, '10.1.0.0/16')",
    "distance": "within_km(place.lat, place.lon, 50.7, 7.1, 40)",
    "cheapest": "price < ALL (SELECT d.price FROM seen d)",
    "known name": "size > 0 AND EXISTS (SELECT 1 FROM seen d WHERE d.name = name)",
}

EVENTS: list[dict[str, Any]] = [
    {},
    {"size": 1, "name": "a", "price": 12.5, "flag": True},
    {"size": 2, "name": "b", "price": 3, "tags": ["x", "y"]},
    {"size": [1, 7], "name": "abc", "price": 60, "flag": True, "other": 1},
    {"size": 3, "name": "zB", "place": {"city": "Bonn", "lat": 50.8, "lon": 7.0}, "tags": "x"},
    {"name": "Über", "app": "1.10.0", "ip": "10.1.2.3", "price": -1},
    {"size": 30, "price": 2, "name": "c", "app": "1.1", "seen": "not a timestamp"},
    *({"size": i, "price": 20 - i, "name": f"n{i % 4}"} for i in range(12)),
]


def fill(folder: Path) -> tamis.Matcher:
    """Store rules of every kind; the last of them, and a removal, are in the log only."""
    with tamis.open(folder, schema={"price": "double"}) as matcher:
        matcher.add_many(TEXTS)
        matcher.add_many([(f"weak {id}", text, "weak") for id, text in list(TEXTS.items())[:20]])
        matcher.add_many(
            [(number, f"size = {number % 5} AND price > {number}") for number in range(40)]
        )
        matcher.remove_many([1, 7, 13, "weak none"])
        matcher.optimize()
        matcher.remove_many([2, "weak list"])
    with tamis.open(folder) as matcher:
        matcher.add("model", {"and": [{"attr": "size", ">": 0}, {"attr": "price", "<": 15}]})
        matcher.add(
            "weighted", "name = 'a' OR price > 5", weights={("name", "a"): 2.0, "price > 5": 0.5}
        )
        matcher.add("payload", "size = 1", payload={"n": [1, None, "ü"]}, tags=["gold", "new"])
        matcher.publish({"name": "a", "price": 10})
        matcher.publish({"name": "n1", "price": 11}, id="named")
        matcher.publish({"name": "gone", "price": 0})
        matcher.documents.remove(2)
    matcher = tamis.open(folder)
    matcher.add("first", "size > 0", priority=9, tags=["gold"])
    matcher.add("ended", "size > 0", valid_until="2025-01-01")
    matcher.add("valid", "size > 0", valid_from="2025-01-01", valid_until="2027-01-01")
    matcher.add("subscribed", "size = 2", subscription="ann")
    matcher.add("all", "size >= 0", replace=True)
    matcher.remove("like")
    return matcher


def main() -> None:
    target = Path(sys.argv[1])
    with TemporaryDirectory() as scratch:
        matcher = fill(Path(scratch) / "index")
        # A copy of the open index: closing it would move the rules in the log to a segment.
        shutil.copytree(Path(scratch) / "index", target / "index")
        (target / "index" / "LOCK").write_bytes(b"")
        rows = [{"event": event, "matches": matcher.match(event, at=AT)} for event in EVENTS]
        matcher.close()
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (target / "events.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
