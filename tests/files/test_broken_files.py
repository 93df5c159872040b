"""Files that cannot be read: errors name the file and the line."""

from __future__ import annotations

import gzip
import os
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tamis
from tamis.files import (
    load_rules,
    read_events,
)
from tests.files.samples import (
    read_all_events,
)


def parquet_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"id": [str(n) for n in range(20_000)], "rule": ["TRUE"] * 20_000}), sink
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


PARQUET = parquet_bytes()


GZIPPED = gzip.compress(b'{"id": 1, "rule": "TRUE"}\n' * 5_000)


BROKEN = {
    "empty": ("f.jsonl", b"", None, "the file is empty"),
    "empty csv": ("f.csv", b"", None, "the file is empty"),
    "empty parquet": ("f.parquet", b"", None, "the file is empty"),
    "empty in gzip": ("f.jsonl.gz", gzip.compress(b""), None, "the file is empty"),
    "empty csv in gzip": ("f.csv.gz", gzip.compress(b""), None, "the file is empty"),
    "blank lines only": ("f.jsonl", b"\n \n\n", None, "the file is empty"),
    "unknown extension": ("f.txt", b"{}", None, "expected .jsonl, .*parquet"),
    "array not closed": ("f.json", b'[{"id": 1, "rule": "TRUE"}', None, "not valid JSON"),
    "not an object": ("f.json", b'[{"id": 1, "rule": "TRUE"}, 7]', None, "object 2: expected a"),
    "empty array": ("f.json", b"[]", None, "the file is empty"),
    "not zstd": ("f.jsonl.zst", b'{"id": 1, "rule": "TRUE"}', None, "cannot be read"),
    "parquet in zstd": ("f.parquet.zst", b"{}", None, "unknown extension"),
    "parquet in gzip": ("f.parquet.gz", b"{}", None, "unknown extension"),
    "no extension": ("rules", b"{}", None, "unknown extension"),
    "truncated line": ("f.jsonl", b'{"id": 1, "rule": "TRUE"}\n{"id": 2, "ru', 2, "truncated"),
    "malformed line": ("f.jsonl", b'{"id": 1, "rule": "TRUE"}\n\n{id: 2}\n', 3, "not valid JSON"),
    "two objects in a line": ("f.jsonl", b"{}{}\n", 1, "trailing characters"),
    "NaN": ("f.jsonl", b'{"id": NaN}\n', 1, "not valid JSON"),
    "number out of range": ("f.jsonl", b'{"id": 1e999}\n', 1, "number out of range"),
    "not UTF-8": ("f.jsonl", b'{"id": 1, "rule": "TRUE"}\n{"id": "\xff"}\n', 2, "not UTF-8.*0xff"),
    "not UTF-8 at all": ("f.jsonl", b"\xff\xfe{\x00}\x00", 1, "not UTF-8"),
    "array": ("f.jsonl", b"[1, 2]\n", 1, "expected a JSON object, found an array"),
    "number": ("f.jsonl", b"12\n", 1, "expected a JSON object, found a number"),
    "null": ("f.jsonl", b"null\n", 1, "expected a JSON object, found null"),
    "nested too deep": ("f.jsonl", b'{"a":' * 100_000, 1, "nested too deep"),
    "open quote": ("f.csv", b'id,rule\n1,x = 1\n2,"TRUE\n3,TRUE\n', 3, "quote that is not closed"),
    "open quote closed later": (
        "f.csv",
        b'id,rule\n1,"x = 1"\n2,"TRUE\n3,TRUE\n4,"y = ""2"""\n5,TRUE\n',
        3,
        "',' expected after '\"'",
    ),
    "open quote at the end": ("f.csv", b'id,rule\n1,"TRUE', 2, "quote that is not closed"),
    "open quote in gzip": (
        "f.csv.gz",
        gzip.compress(b'rule,id\n"TRUE",a\nTRUE,"b\n' + b"TRUE,c\n" * 1_000),
        3,
        "quote that is not closed",
    ),
    "long line": (
        "f.jsonl.gz",
        gzip.compress(b'{"id": 1, "rule": "TRUE"}\n{"id": "' + b" " * (65 << 20)),
        2,
        "more than 64 MiB",
    ),
    "truncated gzip": ("f.jsonl.gz", GZIPPED[:-20], None, "gzip"),
    "corrupt gzip": ("f.jsonl.gz", GZIPPED[:30] + b"?" * 30 + GZIPPED[60:], None, "gzip"),
    "no gzip": ("f.jsonl.gz", b'{"id": 1}', None, "gzip"),
    "truncated parquet": ("f.parquet", PARQUET[:-50], None, "cannot be read"),
    "corrupt parquet": ("f.parquet", PARQUET[:50] + bytes(5_000) + PARQUET[5_050:], None, "read"),
    "no parquet": ("f.parquet", b"id,rule\n", None, "cannot be read"),
    "csv not UTF-8": ("f.csv", b"id,rule\n1,a\n2,\xff\n", 3, "not UTF-8"),
    "csv header not UTF-8": ("f.csv", b"id,rule,\xff\n1,a,2\n", 1, "not UTF-8"),
    "csv row too long": ("f.csv", b'id,rule\n1,"a\n=1"\n\n2,b,c\n', 5, "2 columns"),
}


@pytest.mark.parametrize("reading", ["rules", "events"])
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_reported_with_its_line(case: str, reading: str, tmp_path: Path) -> None:
    name, data, line, message = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(data)
    matcher = tamis.Matcher()
    read = partial(load_rules, matcher) if reading == "rules" else read_all_events
    with pytest.raises(tamis.InputFileError, match=message) as caught:
        read(str(path))
    assert caught.value.path == str(path)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)
    assert len(matcher) == 0


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.csv", "missing.parquet", "missing"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    with pytest.raises(tamis.InputFileError, match="there is no such file") as caught:
        list(read_events(path))
    assert caught.value.path == path


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tamis.InputFileError, match="directory"):
        load_rules(tamis.Matcher(), str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.touch(mode=0)
    with pytest.raises(tamis.InputFileError, match="Permission denied"):
        load_rules(tamis.Matcher(), str(path))
