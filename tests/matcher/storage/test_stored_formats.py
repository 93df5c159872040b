"""Every version opens the indexes that earlier versions have stored; see `make_stored_index.py`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.expr.model import predicates
from tamis.expr.names import JOINED
from tamis.matcher.storage.file_format import FORMAT
from tests.matcher.storage.make_stored_index import AT, TEXTS

DATA = Path(__file__).with_name("data")
REMOVED = [1, 2, 7, 13, "weak none", "weak list", "like"]

Rows = list[dict[str, Any]]


@pytest.fixture(params=sorted(path.name for path in DATA.iterdir()))
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Rows]:
    """A copy of a stored index, and the events with the rules that they match."""
    folder = DATA / request.param
    shutil.copytree(folder / "index", tmp_path / "index")
    return tmp_path / "index", json.loads((folder / "events.json").read_text())


def check(matcher: tamis.Matcher, rows: Rows) -> None:
    """Compare what the events match with the stored answers and with `evaluate`."""
    events = [row["event"] for row in rows]
    found = [matcher.match(event, at=AT) for event in events]
    assert found == [row["matches"] for row in rows]
    rules = [matcher.rule(id) for id in matcher]
    without_joins = [rule for rule in rules if not has_joins(rule)]
    assert len(rules) - len(without_joins) == 2
    for event, ids in zip(events, found, strict=True):
        known = {rule.id for rule in without_joins if rule.id != "ended"}
        assert [id for id in ids if id in known] == [
            rule.id
            for rule in without_joins
            if rule.id in known and tamis.evaluate(rule.expr, event, logic=rule.logic)
        ]
    table = matcher.match_many(events, at=AT)
    assert [str(id) for id in table["rule"].to_pylist()] == [str(id) for ids in found for id in ids]


def has_joins(rule: tamis.Rule) -> bool:
    return any(predicate.attribute.startswith(JOINED) for predicate in predicates(rule.expr))


def check_rules(matcher: tamis.Matcher) -> None:
    """Compare what is stored about rules and documents with what `make_stored_index` has given."""
    assert not [id for id in REMOVED if id in matcher]
    for id, text in TEXTS.items():
        if id not in ("all", "like"):
            assert (matcher.rule(id).text, matcher.rule(id).logic) == (text, "strong")
    assert matcher.rule("all").text == "size >= 0"
    assert matcher.rule("weak cnf").logic == "weak"
    assert matcher.rule("payload").payload == {"n": [1, None, "ü"]}
    assert matcher.rule("payload").tags == {"gold", "new"}
    assert matcher.rule("weighted").weights == {("name", "a"): 2.0, "price > 5": 0.5}
    assert matcher.rule("first").priority == 9
    assert str(matcher.rule("valid").valid_until) == "2027-01-01 00:00:00+00:00"
    assert matcher.first({"size": 1}, at=AT) == ["first"]
    assert matcher.match({"size": 1}, only=tamis.tagged("new"), at=AT) == ["payload"]
    assert dict(matcher.top({"name": "a", "price": 6}, 100, at=AT))["weighted"] == 2.0
    if "subscribed" in matcher:  # from format 3 on
        assert matcher.rule("subscribed").subscription == "ann"
    assert list(matcher.documents) == [0, "named"]
    assert matcher.documents["named"] == {"name": "n1", "price": 11}


def test_the_current_format_is_stored() -> None:
    assert (DATA / f"format-{FORMAT}").is_dir(), "run make_stored_index.py"


def test_a_reader_opens_it(stored: tuple[Path, Rows]) -> None:
    path, rows = stored
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with tamis.open(path, read_only=True, verify=True) as matcher:
        assert matcher.stats()["segments"] == 2
        check(matcher, rows)
        check_rules(matcher)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize("engine", [None, "scan"])
def test_a_writer_opens_it_and_adds_to_it(stored: tuple[Path, Rows], engine: str | None) -> None:
    path, rows = stored
    with tamis.open(path, engine=engine, verify=True) as matcher:
        check(matcher, rows)
        check_rules(matcher)
        matcher.add("new", "other = 'new'")
        matcher.add_many([(f"new {n}", "other = 'new'") for n in range(20)])
        matcher.remove("none")
    with tamis.open(path) as matcher:
        check(matcher, rows)
        matcher.optimize()
        check(matcher, rows)
        found = matcher.match({"other": "new"}, at=AT)
        assert [id for id in found if str(id).startswith("new")] == [
            "new",
            *(f"new {n}" for n in range(20)),
        ]
        assert "none" not in matcher
        assert "cheapest" in matcher.publish({"price": 1, "name": "d"}, at=AT)
        assert len(matcher.documents) == 3
