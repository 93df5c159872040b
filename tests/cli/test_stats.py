"""The figures of a file of rules and of a stored index."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import parse_lines, run, run_failing, write


def test_stats_count_rules_attributes_and_operators() -> None:
    write("many.jsonl", [{"id": n, "rule": f"a = {n} AND b <> 'x'"} for n in range(1_000)])
    (found,) = parse_lines(run("stats", "many.jsonl", "--json"))
    assert (found["rules"], found["atoms"], found["conjunctions"]) == (1_000, 1_001, 1_000)
    assert found["bytes"] > 0
    assert found["attribute_uses"] == {"a": 1_000, "b": 1_000}
    assert found["operator_uses"] == {"=": 1_000, "<>": 1_000}
    shown = run("stats", "many.jsonl")
    assert "1,001" in shown
    assert "attribute" in shown


def test_stats_of_a_directory() -> None:
    run("build", "rules.jsonl", "-o", "index")
    shown = run("stats", "index")
    for words in ("rules", "segments", "segment bytes", "log bytes", "engine"):
        assert words in shown
    stats = json.loads(run("stats", "index", "--json"))
    assert (stats["rules"], stats["segments"]) == (4, 1)
    assert stats["stored_bytes"]["segment"] > 0
    segment = next(Path("index").glob("segment-*"))
    data = bytearray(segment.read_bytes())
    data[data.rindex(b"Smith")] ^= 1
    segment.write_bytes(data)
    assert segment.name in run_failing("stats", "index")


def test_control_characters_are_shown_escaped() -> None:
    write("rules.jsonl", [{"id": 1, "rule": '"\x1b[31mx\x9b" = 1 AND "[red]y" = 2'}])
    shown = run("stats", "rules.jsonl")
    assert r"\x1b[31mx\x9b" in shown
    assert "[red]y" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)
