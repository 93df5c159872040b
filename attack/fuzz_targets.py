"""What coverage-guided fuzzing feeds with bytes: all readers of text, JSON and files.

A target takes any bytes. It may refuse them with a `TamisError`; any other exception is a failure.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Final

import tamis

__all__ = ["SEEDS", "TARGETS", "Target"]

Target = Callable[[bytes], None]


def read_text(data: bytes) -> None:
    """The parser; what it takes has a text and a JSON form, and both are read as the same rule."""
    rule = tamis.parse(data.decode("utf-8", "surrogateescape"))
    assert tamis.parse(tamis.to_sql(rule)) == rule
    assert tamis.from_json(tamis.to_json(rule)) == rule


def read_json_form(data: bytes) -> None:
    """The JSON form."""
    rule = tamis.from_json(_load_json(data))
    assert tamis.from_json(tamis.to_json(rule)) == rule


def add_and_match(data: bytes) -> None:
    """Whatever `add` takes, `match`, `optimize` and `explain` work with."""
    text, _, event = data.partition(b"\n")
    matcher = tamis.Matcher(engine="scan")
    matcher.add("other", "x = 1")
    matcher.add("rule", text.decode("utf-8", "surrogateescape"))
    event_found = _load_json(event or b'{"x": 1, "s": "text"}')
    held = "rule" in matcher.match(event_found)
    assert matcher.explain("rule", event_found).held is held
    assert tamis.evaluate(matcher.rule("rule").expr, event_found) is held
    matcher.optimize()
    assert ("rule" in matcher.match(event_found)) is held


def _load_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise tamis.RuleError(f"no JSON: {error}") from None


def _import_with(module: str) -> Target:
    def read(data: bytes) -> None:
        """Import a document; a rule that is refused is reported, not raised."""
        importer = __import__(f"tamis.importers.{module}", fromlist=["read"])
        imported = importer.read({"rule": _load_json(data)})
        for rule in imported.rules:
            tamis.parse(rule.text)

    return read


def _read_file(name: str) -> Target:
    def read(data: bytes) -> None:
        """Read events from a file of this format."""
        from tamis.files import read_events

        with TemporaryDirectory(prefix="attack-") as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            for batch in read_events(str(path)):
                _matcher().match_many(batch.events)

    return read


def _read_rules(name: str) -> Target:
    def read(data: bytes) -> None:
        """Load rules from a file of this format."""
        from tamis.files import load_rules

        with TemporaryDirectory(prefix="attack-") as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            matcher = tamis.Matcher(engine="scan")
            load_rules(matcher, str(path))
            matcher.match({"x": 1})

    return read


@functools.cache
def _matcher() -> tamis.Matcher:
    matcher = tamis.Matcher(engine="scan")
    matcher.add_many([(n, f"x = {n} OR s LIKE 'a%'") for n in range(20)])
    return matcher


def read_index(data: bytes) -> None:
    """An index file whose bytes were changed: the first byte says which, the rest says how."""
    with TemporaryDirectory(prefix="attack-") as folder:
        copy = Path(folder) / "index"
        shutil.copytree(_stored_index(), copy)
        files = sorted(path for path in copy.iterdir() if path.name != "LOCK")
        path = files[data[0] % len(files) if data else 0]
        content = bytearray(path.read_bytes())
        for at in range(1, len(data) - 2, 3):
            place = int.from_bytes(data[at : at + 2], "little") % (len(content) or 1)
            content[place] = data[at + 2]
        if data[-1:] == b"\x00":
            del content[len(content) // 2 :]
        path.write_bytes(content)
        with tamis.open(copy, read_only=True, verify=True) as matcher:
            found = matcher.match({"x": 1, "s": "abc"})
            assert found == list(matcher), "a damaged index gave a wrong answer"


@functools.cache
def _stored_index() -> Path:
    folder = Path(mkdtemp(prefix="attack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tamis.open(folder / "index", engine="tiles") as matcher:
        matcher.add_many([(f"r{n}", "x = 1 AND s LIKE 'a%'") for n in range(60)])
        matcher.documents.add({"x": 1}, id="d")
        matcher.optimize()
    with tamis.open(folder / "index") as matcher:
        matcher.add("last", "x >= 1")
        shutil.copytree(folder / "index", folder / "copy")
    return folder / "copy"


TARGETS: Final[dict[str, Target]] = {
    "text": read_text,
    "json": read_json_form,
    "add": add_and_match,
    "eventbridge": _import_with("eventbridge"),
    "jsonlogic": _import_with("jsonlogic"),
    "mongo": _import_with("mongo"),
    "mustang": _import_with("mustang.criteria"),
    "unleash": _import_with("unleash"),
    "jsonl events": _read_file("events.jsonl"),
    "csv events": _read_file("events.csv"),
    "parquet events": _read_file("events.parquet"),
    "jsonl rules": _read_rules("rules.jsonl"),
    "csv rules": _read_rules("rules.csv"),
    "index": read_index,
}
"""What can be fuzzed, by name."""

_TEXTS: Final = (
    b"age IN (3, 4) AND state <> 'CA'",
    b"NOT (a.b BETWEEN -1 AND 2.5 OR s NOT LIKE 'a!%%' ESCAPE '!') OR x IS NULL",
    b"lower(name) RLIKE '^a+$' AND length(s) > 3 AND t >= TIMESTAMP '2024-02-29 12:00:00'",
    b"within_box(lat, lon, 52, 13, 53, 14.5) OR size(xs) = 2 OR price * 2 < tax + 1",
    b"x < ALL (SELECT d.x FROM seen d WHERE d.y = y) AND TRUE",
    b"\"o'dd \"\"n\" = 'it''s' OR `in` ILIKE '%\xc3\xa9_'",
)

SEEDS: Final[dict[str, tuple[bytes, ...]]] = {
    "text": _TEXTS,
    "json": (
        b'{"and": [{"attr": "age", "in": [3, 4.5, "x", true]}, {"not": {"attr": "s", "in": []}}]}',
        b'{"or": [{"derived": "length(s)", ">": 3}, {"attr": "s", "like": "a!%", "escape": "!"}]}',
        b'{"attr": "t", "not <": {"timestamp": "2020-01-31T00:00:00Z"}}',
        b'{"attr": "x", "not between": [1, 2]}',
        b'{"join": "EXISTS (SELECT 1 FROM seen d WHERE d.x > x)"}',
    ),
    "add": tuple(text + b'\n{"x": [1, 2.5], "s": "abc", "a": {"b": null}}' for text in _TEXTS),
    "eventbridge": (
        b'{"source": ["aws.ec2"], "n": [{"numeric": [">", 5, "<", 9]}], "$or": [{"a": ["x"]}]}',
        b'{"detail": {"ip": [{"cidr": "10.0.0.0/8"}], "s": [{"anything-but": {"prefix": "a"}}]}}',
    ),
    "jsonlogic": (
        b'{"and": [{"<": [{"var": "temp"}, 110]}, {"==": [{"var": "pie.filling"}, "apple"]}]}',
        b'{"if": [{"in": [{"var": "a"}, ["x", 1]]}, {"!": [{"var": "b"}]}, true]}',
    ),
    "mongo": (
        b'{"age": {"$gte": 18}, "$or": [{"s": {"$regex": "^a"}}, {"xs": {"$in": [1, null]}}]}',
        b'{"v": {"$vgt": "1.2.3"}, "tags": {"$elemMatch": {"$eq": "a"}}, "n": {"$size": 2}}',
    ),
    "mustang": (
        b'{"form": "DNF", "id": "r", "conjunctions": []}',
        b'{"form": "CNF", "id": "r", "disjunctions": [{"type": "OR", "predicates": []}]}',
        b'{"type": "INCLUDED", "lhs": "$.n", "values": ["a", 1]}',
    ),
    "unleash": (
        b'{"name": "f", "enabled": true, "strategies": [{"name": "default", "constraints": []}]}',
        b'{"contextName": "v", "operator": "SEMVER_GT", "value": "1.2.3", "values": []}',
    ),
    "jsonl events": (b'{"x": 1, "s": "abc"}\n{"x": [1, null], "a": {"b": 2.5}}\n',),
    "csv events": (b'x,s,"a b"\n1,abc,\n2,"a ""q"" b",3.5\n',),
    "jsonl rules": (
        b'{"id": "a", "rule": "x = 1", "tags": ["t"], "weights": [["x", 1, 2.0]]}\n',
        b'{"id": 7, "rule": {"attr": "x", ">": 1}, "valid_until": "2030-01-01"}\n',
    ),
    "csv rules": (b"id,rule,logic\na,x = 1,weak\nb,\"s = 'a,b'\",\n",),
    "parquet events": (b"PAR1",),
    "index": (bytes([1, 0, 0, 1]), bytes([0, 9, 0, 255, 40, 1, 3]), b"\x02abcdef\x00"),
}
"""Bytes to begin with, for each target."""


def make_parquet() -> bytes:
    """A small Parquet file, to begin with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1, None, 3], "s": ["a", "b", None]}), sink)
    return bytes(sink.getvalue())
