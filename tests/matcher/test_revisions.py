"""The revision of a matcher counts changes, and is part of what a directory stores."""

from __future__ import annotations

from pathlib import Path

import pytest

import tamis
from tamis.errors import RuleError
from tamis.matcher.write import change_notes


def test_every_change_has_the_next_number() -> None:
    m = tamis.Matcher()
    changes: list[tamis.RuleChange] = []
    m.watch(changes.append)
    m.add("a", "x = 1")
    m.add_many({"b": "x = 2", "c": "x = 3"})
    m.remove_many(["a", "c"])
    m.replace_all({"d": "x = 4"})
    assert m.revision == 4
    assert changes == [
        (1, "put", ("a",)),
        (2, "put", ("b", "c")),
        (3, "remove", ("a", "c")),
        (4, "replace_all", ("d",)),
    ]


def test_what_changes_nothing_has_no_number() -> None:
    m = tamis.Matcher()
    m.add("a", "x = 1")
    with pytest.raises(RuleError):
        m.add("a", "x = 2")
    with pytest.raises(RuleError):
        m.add("b", "x =")
    m.optimize()
    assert m.revision == 1


def test_refused_rules_of_a_batch_are_not_listed() -> None:
    m = tamis.Matcher()
    m.add("a", "x = 1")
    changes: list[tamis.RuleChange] = []
    m.watch(changes.append)
    m.add_many({"a": "x = 2", "b": "x = 3"}, on_error="skip")
    assert changes == [(2, "put", ("b",))]


def test_a_large_change_lists_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_notes, "_MOST_IDS", 3)
    m = tamis.Matcher()
    changes: list[tamis.RuleChange] = []
    m.watch(changes.append)
    m.add_many({str(i): "x = 1" for i in range(4)})
    m.remove_many([str(i) for i in range(4)])
    assert changes == [(1, "put", None), (2, "remove", None)]


def test_a_directory_keeps_the_revision(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    with tamis.open(folder) as m:
        m.add("a", "x = 1")
        m.add("b", "x = 2")
        with tamis.open(folder, read_only=True) as reader:
            assert reader.revision == 2
            m.remove("a")
            reader.refresh()
            assert reader.revision == 3
    # Closing has made a checkpoint: the log is empty, and the manifest has the number.
    with tamis.open(folder) as m:
        assert m.revision == 3
        m.add("c", "x = 3")
        assert m.revision == 4
    with tamis.open(folder, read_only=True) as reader:
        assert reader.revision == 4
