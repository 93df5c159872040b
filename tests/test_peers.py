"""The comparison with other engines: the workload, the drivers in Python, the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tamis
from benchmarks.peers import drivers, page, run
from benchmarks.peers.workload import generate, read, write


def test_the_workload_is_read_as_it_was_written(tmp_path: Path) -> None:
    workload = generate(50, 20, 4)
    write(workload, tmp_path)
    assert read(tmp_path) == workload


def test_the_totals_are_those_of_evaluate() -> None:
    workload = generate(200, 30, 8)
    texts = [drivers.join(rule, "AND", "IN (", ")") for rule in workload.rules]
    total, expected = 0, [0]
    for event in workload.events:
        total += sum(tamis.evaluate(text, event) is True for text in texts)
        expected.append(total)
    assert workload.totals() == expected
    assert total > 100


@pytest.mark.parametrize("peer", ["tamis", "duckdb", "json-logic"])
def test_a_driver_finds_all_matches(peer: str, tmp_path: Path) -> None:
    workload = generate(100, 300, 8)
    write(workload, tmp_path)
    found = drivers.run(peer, tmp_path, 60)
    assert found["events"] == 300
    assert found["matches"] == workload.totals()[-1]


def test_a_wrong_total_stops_the_comparison(tmp_path: Path) -> None:
    write(generate(10, 5, 8), tmp_path)
    says = 'print(\'{"build": 0, "events": 5, "matches": 7, "seconds": 1}\')'
    with pytest.raises(SystemExit, match="finds 7 matches of 5 events; 3 are right"):
        run._run("other", [sys.executable, "-c", says], tmp_path, 1, 60, [0, 1, 1, 2, 3, 3])


def test_a_driver_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    waits = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert run.measure("slow", waits, tmp_path, 1, 0.2) == (None, 0)


def test_the_peak_is_that_of_the_driver(tmp_path: Path) -> None:
    """Not that of the process that started it."""
    fills = "import time; all = b'x' * (200 << 20); time.sleep(2); print('{}')"
    ballast = bytearray(b"x") * (500 << 20)
    found, peak = run.measure("large", [sys.executable, "-c", fills], tmp_path, 1, 60)
    assert found == {}
    assert 200 <= peak < len(ballast) >> 20


def test_a_comparison_that_stops_leaves_the_page_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[object] = []
    says = 'print(\'{"build": 0, "events": 0, "matches": 7, "seconds": 1}\')'
    monkeypatch.setattr(run, "write_page", pages.append)
    monkeypatch.setitem(run.PEERS, "wrong", lambda _: [sys.executable, "-c", says])
    with pytest.raises(SystemExit, match="wrong finds 7 matches"):
        run.compare([10], 0.01, 60, ["wrong"])
    assert not pages


def test_the_page_shows_every_run_and_what_is_missing() -> None:
    runs = [
        {"peer": "tamis", "rules": 1000, "values": 1, "build": 0.5, "micros": 7.25, "memory": 99},
        {
            "peer": "tamis",
            "rules": 9000,
            "values": 1,
            "build": 0.7,
            "micros": 1234.5,
            "memory": 101,
        },
        {"peer": "cel", "rules": 1000, "values": 1, "build": None, "micros": None, "memory": 0},
    ]
    found = {
        "date": "2026-11-18",
        "machine": "here",
        "seconds": 0.5,
        "patience": 60.0,
        "missing": {"a-tree": "no cargo"},
        "runs": runs,
    }
    text = page.make_page(found)
    assert "| tamis | 7.2 | 1,234 |" in text
    assert "| cel | not in time | – |" in text
    assert "- **a-tree**: no cargo." in text
    assert "for\n0.5 s of CPU" in text
