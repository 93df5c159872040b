"""Merging directories: the same rules, and the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import tamis
from tamis import Matcher, StorageError
from tamis.matcher.merge_directories import merge_directories

RULES = {f"r{i}": f"x = {i % 5} AND y > {i}" for i in range(60)}
EVENTS = [{"x": i % 6, "y": 7 * i} for i in range(20)]


def store(folder: Path, name: str, rules: dict[str, str], **settings: str) -> Path:
    matcher = Matcher(**settings)  # type: ignore[arg-type]
    matcher.add_many(rules)
    matcher.save(folder / name)
    return folder / name


@pytest.mark.parametrize("sample", [None, EVENTS])
def test_the_rules_of_several_directories(tmp_path: Path, sample: list[dict[str, int]]) -> None:
    items = list(RULES.items())
    parts = [
        store(tmp_path, "first", dict(items[:25]), engine="scan"),
        store(tmp_path, "none", {}, engine="scan"),
        store(tmp_path, "second", dict(items[25:]), engine="sift"),
    ]
    # Rules in a log and removals count, too.
    with tamis.open(parts[2]) as matcher:
        matcher.remove("r30")
    with tamis.open(parts[0], sync=False) as matcher:
        matcher.add("late", "x = 1")
    assert merge_directories(parts, tmp_path / "all", engine="tiles", sample=sample) == 60
    expected = Matcher()
    expected.add_many({id: rule for id, rule in items if id != "r30"})
    expected.add("late", "x = 1")
    with tamis.open(tmp_path / "all", read_only=True, verify=True) as joined:
        assert joined.stats()["engine"] == "tiles"
        assert joined.stats()["segments"] == 1
        assert {id: joined.rule(id).text for id in joined} == {
            id: expected.rule(id).text for id in expected
        }
        for event in EVENTS:
            assert set(joined.match(event)) == set(expected.match(event))


def test_directories_without_rules(tmp_path: Path) -> None:
    parts = [store(tmp_path, "a", {}), store(tmp_path, "b", {})]
    assert merge_directories(parts, tmp_path / "all", engine="tiles") == 0
    with tamis.open(tmp_path / "all", read_only=True) as joined:
        assert len(joined) == 0


def test_directories_with_different_settings_are_refused(tmp_path: Path) -> None:
    parts = [store(tmp_path, "a", RULES), store(tmp_path, "b", {}, logic="weak")]
    with pytest.raises(StorageError, match="another logic or schema"):
        merge_directories(parts, tmp_path / "all", engine="tiles")
    assert not (tmp_path / "all").exists()
