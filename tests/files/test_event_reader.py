"""Events from files, and one event by its number or as text."""

from __future__ import annotations

from pathlib import Path

import pytest

import tamis
from tamis.files import (
    read_event,
    read_events,
)
from tests.files.samples import (
    EVENTS,
    write,
)


def test_blank_lines_and_a_byte_order_mark_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    (batch,) = read_events(str(path))
    assert batch.events == [{"a": 1}, {"a": 2}]
    assert batch.numbers.tolist() == [1, 4]
    assert batch.fraction == 1.0


def test_lines_longer_than_a_block_are_read_whole(tmp_path: Path) -> None:
    events = [{"n": n, "text": "x" * 2_500_000} for n in range(5)]
    read = [e for batch in read_events(write(tmp_path / "e.jsonl", events)) for e in batch.events]
    assert read == events


def test_an_empty_field_of_csv_is_absent_and_a_time_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("name,n,at\nx,NA,12:30\n,2,13:45:00\n")
    (batch,) = read_events(str(path))
    assert not isinstance(batch.events, list)
    assert batch.events.to_pylist() == [
        {"name": "x", "n": None, "at": "12:30"},
        {"name": None, "n": 2, "at": "13:45:00"},
    ]


def test_a_column_that_changes_its_type_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.files.event_reader._CSV_BLOCK", 64)
    path = tmp_path / "events.csv"
    path.write_text("a,b\n" + "1,2\n" * 100 + "1,x\n")
    with pytest.raises(tamis.InputFileError, match=r"column 'b' was int64 so far.*'x'") as caught:
        list(read_events(str(path)))
    assert caught.value.line == 102


def test_values_of_several_lines_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.files.event_reader._CSV_BLOCK", 64)
    path = tmp_path / "events.csv"
    rows = [(n, f'{n} line\nsaid ""{n}"", twice' if n % 3 else "plain") for n in range(50)]
    path.write_text("n,text\n" + "".join(f'{n},"{text}"\n' for n, text in rows))
    read = [event for batch in read_events(str(path)) for event in batch.events.to_pylist()]  # type: ignore[union-attr]
    assert read == [{"n": n, "text": text.replace('""', '"')} for n, text in rows]


def test_an_open_quote_is_found_in_a_later_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.files.event_reader._CSV_BLOCK", 256)
    path = tmp_path / "events.csv"
    good = "".join(f'{n},"a\nb"\n' for n in range(100))
    path.write_text(f'n,text\n{good}100,"open\n101,"closed"\n{good}')
    with pytest.raises(tamis.InputFileError, match="',' expected after") as caught:
        list(read_events(str(path)))
    assert caught.value.line == 202


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("a,a\n1,2\n")
    with pytest.raises(tamis.InputFileError, match="two columns have the name 'a'"):
        list(read_events(str(path)))


@pytest.mark.parametrize("name", ["events.jsonl", "events.csv", "events.parquet"])
def test_one_event_is_read_by_its_number(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, EVENTS)
    assert read_event(f"{path}:2") == EVENTS[2]
    with pytest.raises(tamis.InputFileError, match="there is no event 5"):
        read_event(f"{path}:5")


def test_one_event_is_read_from_text() -> None:
    assert read_event(' {"a": [1, "é"]}') == {"a": [1, "é"]}
    for text, message in {
        '{"a": ': "EVENT: not valid JSON",
        "[1]": "EVENT: expected a JSON object, found an array",
        "nothing": "expected a JSON object, FILE:NUMBER",
        "missing.jsonl:1": r"missing\.jsonl: there is no such file",
    }.items():
        with pytest.raises(tamis.InputFileError, match=message):
            read_event(text)
