"""Matching a file of events batch by batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tamis
from tamis.errors import InputFileError
from tamis.files import (
    Query,
    match_file,
)
from tests.files.samples import (
    RULES,
    load_matcher,
    match_all,
    write,
)


def test_a_file_without_rows_has_no_matches(tmp_path: Path) -> None:
    matcher = load_matcher(write(tmp_path / "rules.jsonl", RULES))
    header = tmp_path / "events.csv"
    header.write_text("age,name\n")
    assert match_all(matcher, str(header)) == []
    table = pa.table({"age": pa.array([], pa.int64())})
    pq.write_table(table, tmp_path / "events.parquet")
    assert match_all(matcher, str(tmp_path / "events.parquet")) == []


def test_many_matches_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.files.matching._FIRST_EVENTS", 4)
    monkeypatch.setattr("tamis.files.matching._TARGET_MATCHES", 20)
    rules = [{"id": n, "rule": "TRUE"} for n in range(10)]
    matcher = load_matcher(write(tmp_path / "rules.jsonl", rules))
    path = write(tmp_path / "events.parquet", [{"a": n} for n in range(12)])
    sizes = [len(matches.keys) for matches in match_file(matcher, path, Query())]
    assert sizes == [4, 3, 3, 2]
    assert len(match_all(matcher, path)) == 120


def test_an_event_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    matcher = load_matcher(write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "a = 1"}]))
    path = write(tmp_path / "events.jsonl", [{"a": 1}, {"a": 2**70}])
    with pytest.raises(tamis.InputFileError, match=r"attribute 'a' holds 1180.*64 bits") as caught:
        match_all(matcher, path)
    assert (caught.value.path, caught.value.line) == (path, 2)


def test_a_column_that_no_rule_can_compare_is_named(tmp_path: Path) -> None:
    matcher = load_matcher(write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "a = 1"}]))
    path = write(tmp_path / "events.parquet", [{"a": b"bytes"}])
    with pytest.raises(tamis.InputFileError, match="column 'a' has the type binary"):
        match_all(matcher, path)


def test_a_missing_column_of_event_ids_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "events.parquet", [{"a": 1}])
    with pytest.raises(tamis.InputFileError, match="there is no column 'key'"):
        list(match_file(tamis.Matcher(), path, Query(event_id="key")))


def test_rows_that_cannot_be_read_are_skipped_and_named(tmp_path: Path) -> None:
    matcher = load_matcher(write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "a IS NOT NULL"}]))
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"a": pa.array([0, 2**62, 1], pa.timestamp("ms"))}), path)
    (batch,) = match_file(matcher, str(path), Query(skip_bad=True))
    assert batch.keys == [0, 2]
    assert batch.table.to_pydict() == {"event": [0, 1], "rule": [1, 1]}
    (error,) = batch.skipped
    assert "events.parquet: row 2: column 'a' holds a time" in str(error)


def test_a_file_of_malformed_lines_is_skipped_and_named(tmp_path: Path) -> None:
    matcher = load_matcher(write(tmp_path / "rules.jsonl", [{"id": 1, "rule": "a = 1"}]))
    path = tmp_path / "events.jsonl"
    path.write_text("{\n1\n")
    (batch,) = match_file(matcher, str(path), Query(skip_bad=True))
    assert batch.keys == []
    assert [error.line for error in batch.skipped] == [1, 2]


def test_a_long_file_of_json_lines_is_numbered_as_a_short_one(tmp_path: Path) -> None:
    """From 1,024 lines on, kernels read them; blank and malformed lines count as before."""
    matcher = tamis.Matcher()
    matcher.add_many([(f"r{i}", f"a = {i} AND b.c = 'x'") for i in range(40)])
    lines = [f'{{"a": {i % 50}, "b": {{"c": "x"}}}}' for i in range(3_000)]
    lines[1_500:1_500] = ["", "  ", '{"a": "\\u0041"}']
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(lines))
    keys = [key for batch in match_file(matcher, str(path), Query("count")) for key in batch.keys]
    assert keys == list(range(3_001))
    found = sum(b.table.num_rows for b in match_file(matcher, str(path), Query()))
    assert found == 3_000 // 50 * 40
    path.write_text("\n".join([*lines, '{"a": 1', '{"a": 1e999}', '{"a": 1, "b.c": "x"}']))
    with pytest.raises(InputFileError, match=r"events\.jsonl:3004: not valid JSON"):
        list(match_file(matcher, str(path), Query()))
    batches = list(match_file(matcher, str(path), Query(skip_bad=True)))
    assert [error.line for batch in batches for error in batch.skipped] == [3_004, 3_005]
    assert batches[-1].keys[-1] == 3_001
    assert sum(batch.table.num_rows for batch in batches) == found + 1
