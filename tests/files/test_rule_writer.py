"""Rules into files, and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.files import (
    load_rules,
    save_rules,
)


def build_rules() -> list[tamis.Rule]:
    """Rules that use all fields between them."""
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    model = tamis.parse("a = 1 OR NOT b IN ('x', 'y')")
    weights = {("a", 1): 2.0, ("t", moment): 0.25, "price > 10": 0.5}
    return [
        tamis.Rule("plain", "a = 1", "strong"),
        tamis.Rule(7, "state <> 'CA'", "weak", None, {"to": ["me", None]}, frozenset({"b", "a"})),
        tamis.Rule("model", model, "strong", tags=frozenset({"gold"})),
        tamis.Rule("heavy", "a = 1 AND t = DATE '2024-05-01' AND price > 10", "strong", weights),
        tamis.Rule("näme 🙂", "é = 'x'", "weak", payload=0),
    ]


@pytest.mark.parametrize("name", ["rules.jsonl", "rules.ndjson.gz"])
@pytest.mark.parametrize("stored", [False, True])
def test_rules_are_the_same_after_writing_and_reading(
    name: str, stored: bool, tmp_path: Path
) -> None:
    matcher = tamis.Matcher()
    matcher.add_many(build_rules())
    if stored:
        matcher.save(tmp_path / "index")
        matcher = tamis.open(tmp_path / "index", read_only=True)
    counts: list[int] = []
    target = str(tmp_path / name)
    assert save_rules(matcher, target, watch=lambda count, _: counts.append(count)) == 5
    assert counts == [5]
    again = tamis.Matcher()
    assert load_rules(again, target).bad == []
    assert list(again) == list(matcher)
    for id in matcher:
        assert again.rule(id) == matcher.rule(id)
    event = {"a": 1, "t": datetime(2024, 5, 1, tzinfo=UTC), "price": 20, "é": "x"}
    assert again.top(event, 5) == matcher.top(event, 5)


def test_only_writes_the_selected_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.files.rule_writer._RULES_PER_BLOCK", 2)
    matcher = tamis.Matcher()
    matcher.add_many([(n, f"a = {n}") for n in range(5)])
    matcher.add("gold", "a = 9", tags=["gold"])

    def write_ids(**options: Any) -> list[Any]:
        save_rules(matcher, str(tmp_path / "some.jsonl"), **options)
        lines = (tmp_path / "some.jsonl").read_text().splitlines()
        return [json.loads(line)["id"] for line in lines]

    assert write_ids() == [0, 1, 2, 3, 4, "gold"]
    assert write_ids(only=[3, 0, "gold"]) == [3, 0, "gold"]
    assert write_ids(only=tamis.tagged("gold", "x")) == ["gold"]
    assert write_ids(only=[]) == []
    with pytest.raises(tamis.UnknownRuleError, match="'unknown'"):
        write_ids(only=["unknown"])
    assert (tmp_path / "some.jsonl").read_text() == "", "the earlier file is unchanged"


def test_rules_removed_while_writing_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.files.rule_writer._RULES_PER_BLOCK", 2)
    matcher = tamis.Matcher()
    matcher.add_many([(n, f"a = {n}") for n in range(5)])

    def remove(count: int, fraction: float | None) -> None:
        if 3 in matcher:
            matcher.remove(3)

    target = str(tmp_path / "rules.jsonl")
    assert save_rules(matcher, target, watch=remove) == 4
    again = tamis.Matcher()
    load_rules(again, target)
    assert list(again) == list(matcher) == [0, 1, 2, 4]


@pytest.mark.parametrize("name", ["rules.csv", "rules.parquet", "rules.txt", "no/rules.jsonl"])
def test_rules_are_written_to_json_lines_only(name: str, tmp_path: Path) -> None:
    with pytest.raises(tamis.InputFileError, match=name):
        save_rules(tamis.Matcher(), str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
