"""Matches into files of every format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tamis
from tamis.files import (
    Query,
    match_file,
    open_match_writer,
)
from tests.files.samples import (
    EVENTS,
    MATCHES,
    RULES,
    load_matcher,
    write,
)


def write_matches(rules: str, events: str, query: Query, out: Path) -> None:
    with open_match_writer(str(out)) as output:
        for matches in match_file(load_matcher(rules), events, query):
            output.write(matches)


def write_output(tmp_path: Path, name: str, query: Query, rules: list[Any] = RULES) -> Path:
    path = tmp_path / name
    events = write(tmp_path / "events.jsonl", [{"key": f"e{i}", **e} for i, e in enumerate(EVENTS)])
    write_matches(write(tmp_path / "rules.jsonl", rules), events, query, path)
    assert not list(tmp_path.glob(".*"))
    return path


def read_json_lines(path: Path) -> list[Any]:
    data = path.read_bytes()
    return [
        json.loads(line)
        for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    ]


@pytest.mark.parametrize("name", ["out.jsonl", "out.ndjson", "out.jsonl.gz"])
def test_json_lines_have_a_line_for_each_event(name: str, tmp_path: Path) -> None:
    assert read_json_lines(write_output(tmp_path, name, Query())) == [
        {"event": 0, "rules": ["young", "french", "named"]},
        {"event": 1, "rules": ["french"]},
        {"event": 2, "rules": ["named"]},
        {"event": 3, "rules": []},
    ]


def test_counts_and_scores_as_json_lines(tmp_path: Path) -> None:
    counted = read_json_lines(write_output(tmp_path, "out.jsonl", Query("count", event_id="key")))
    assert counted[0] == {"event": "e0", "matches": 3}
    assert [line["matches"] for line in counted] == [3, 1, 1, 0]
    best = read_json_lines(write_output(tmp_path, "out.jsonl", Query("top", n=1)))
    assert best[0] == {"event": 0, "top": [{"rule": "young", "score": 1.0}]}
    assert best[3] == {"event": 3, "top": []}


def test_csv_has_a_row_for_each_match(tmp_path: Path) -> None:
    path = write_output(tmp_path, "out.csv", Query())
    assert path.read_text() == "event,rule\n" + "".join(f"{e},{r}\n" for e, r in MATCHES)
    with gzip.open(write_output(tmp_path, "out.csv.gz", Query("count")), "rt") as file:
        assert file.read() == "event,matches\n0,3\n1,1\n2,1\n3,0\n"
    path = write_output(tmp_path, "out.csv", Query("top", n=1, event_id="key"))
    assert path.read_text().splitlines()[:2] == ["event,rank,rule,score", "e0,1,young,1.0"]


def test_parquet_has_a_row_for_each_match(tmp_path: Path) -> None:
    table = pq.read_table(write_output(tmp_path, "out.parquet", Query()))
    assert table.schema.types == [pa.int64(), pa.string()]
    assert [(row["event"], row["rule"]) for row in table.to_pylist()] == MATCHES
    table = pq.read_table(write_output(tmp_path, "out.parquet", Query("count", event_id="key")))
    assert table.to_pydict() == {"event": ["e0", "e1", "e2", "e3"], "matches": [3, 1, 1, 0]}


def test_mixed_ids_stay_in_json_and_become_texts_in_parquet(tmp_path: Path) -> None:
    rules = [*RULES, {"id": 5, "rule": "age = 15"}]
    assert 5 in read_json_lines(write_output(tmp_path, "out.jsonl", Query(), rules))[0]["rules"]
    table = pq.read_table(write_output(tmp_path, "out.parquet", Query(), rules))
    assert "5" in table["rule"].to_pylist()


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.csv.gz", "out.parquet"])
def test_a_failed_run_leaves_the_file_unchanged(name: str, tmp_path: Path) -> None:
    rules = write(tmp_path / "rules.jsonl", RULES)
    # More than a block, so that something is written before the bad line.
    events = write(tmp_path / "events.jsonl", [*EVENTS * 30_000, "no object"])
    path = tmp_path / name
    path.write_bytes(b"as it was")
    with pytest.raises(tamis.InputFileError, match="a string"):
        write_matches(rules, events, Query(), path)
    assert path.read_bytes() == b"as it was"
    assert not list(tmp_path.glob(".*"))


def test_an_unwritable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, message in {
        "nowhere/out.csv": "cannot be written: No such file",
        "folder.csv": "cannot be written: this is a directory",
        "out.txt": "unknown extension",
    }.items():
        path = str(tmp_path / name)
        with pytest.raises(tamis.InputFileError, match=message) as caught, open_match_writer(path):
            pass
        assert caught.value.path == path


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"key": "a"}, {"b": 1}], "the id 'key' of event 1 is missing"),
        ([{"key": 1.5}], "the id 'key' of event 0 is 1.5, not a string or an integer"),
        ([{"key": True}], "not a string or an integer"),
        ([{"key": "a"}, {"key": 1}], "one type only; write JSON lines"),
    ],
)
def test_event_ids_are_checked(events: list[Any], message: str, tmp_path: Path) -> None:
    rules = write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "TRUE"}])
    path = write(tmp_path / "events.jsonl", events)
    with pytest.raises(tamis.InputFileError, match=message):
        write_matches(rules, path, Query(event_id="key"), tmp_path / "out.parquet")
