"""Backtests against evaluating every rule on every event."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis import EventError, Matcher, RuleError
from tamis.files import EventFile
from tamis.matcher.analysis.backtest import Backtest

START = datetime(2026, 3, 1, tzinfo=UTC)


def make_events(count: int) -> list[dict[str, Any]]:
    rnd = random.Random(3)
    return [
        {
            "price": rnd.choice([rnd.randrange(100), rnd.random() * 100]),
            "kind": rnd.choice(["a", "b", None]),
            "at": START + timedelta(minutes=10 * n),
        }
        for n in range(count)
    ]


def check(report: Backtest, draft: str, saved: str | None, events: list[dict[str, Any]]) -> None:
    now = {n for n, event in enumerate(events) if tamis.evaluate(draft, event)}
    before = {n for n, event in enumerate(events) if saved and tamis.evaluate(saved, event)}
    (rule,) = report.rules
    assert report.events == len(events)
    assert rule.matches == len(now)
    assert rule.before == (len(before) if saved else None)
    assert [sample.number for sample in rule.samples] == sorted(now)[:5]
    if saved:
        assert (rule.gained, rule.lost) == (len(now - before), len(before - now))
        assert [sample.number for sample in rule.gained_samples] == sorted(now - before)[:5]
        assert [sample.number for sample in rule.lost_samples] == sorted(before - now)[:5]


DRAFT, SAVED = "price < 30 AND kind <> 'b'", "price < 20"


@pytest.mark.parametrize("form", ["list", "iterator", "table", "pandas", "file"])
def test_a_draft_is_compared_with_the_saved_rule(form: str, tmp_path: Path) -> None:
    events = make_events(500)
    m = Matcher()
    m.add("r", SAVED)
    sources: dict[str, Any] = {
        "list": events,
        "iterator": iter(events),
        "table": pa.Table.from_pylist(events),
        "pandas": pa.Table.from_pylist(events).to_pandas(),
    }
    if form == "file":
        path = tmp_path / "events.jsonl"
        path.write_text("".join(json.dumps(event, default=str) + "\n" for event in events))
        sources["file"] = EventFile(str(path))
    report = m.backtest(DRAFT, sources[form], id="r", time="at")
    check(report, DRAFT, SAVED, events)
    assert report.first == START
    assert report.step == timedelta(hours=6)
    bins = report.rules[0].bins
    assert sum(one.events for one in bins) == 500
    assert sum(one.matches for one in bins) == report.rules[0].matches
    assert bins[1].start == START + timedelta(hours=6)
    second = [e for e in events if timedelta(hours=6) <= e["at"] - START < timedelta(hours=12)]
    assert bins[1].matches == sum(tamis.evaluate(DRAFT, event) for event in second)
    assert m.rule("r").text == SAVED


def test_several_drafts_have_a_result_each() -> None:
    events = make_events(200)
    m = Matcher()
    m.add(1, "price > 50")
    report = m.backtest({1: "price > 60", "new": "kind = 'a'"}, events)
    assert [rule.id for rule in report.rules] == [1, "new"]
    assert report.rules[0].gained == 0
    assert report.rules[0].lost > 0
    assert report.rules[1].before is None
    assert report.rules[1].matches == sum(event["kind"] == "a" for event in events)
    assert (report.first, report.step, report.rules[0].bins) == (None, None, [])


def test_join_predicates_see_the_events_before() -> None:
    m = Matcher()
    m.add("low", "price < ALL (SELECT d.price FROM seen d)")
    events = [{"price": price} for price in (5, 7, 3, 3, 1)]
    report = m.backtest("price <= ALL (SELECT d.price FROM seen d)", events, id="low")
    (rule,) = report.rules
    assert (rule.matches, rule.before, rule.gained, rule.lost) == (4, 3, 1, 0)
    assert rule.gained_samples[0].number == 3
    received = tamis.Rule("r", "EXISTS (SELECT 1 FROM received d) OR price = 3", subscription="s")
    assert m.backtest(received, events).rules[0].matches == 3
    assert len(m.documents) == 0


def test_a_rule_that_is_not_valid_yet_is_tried_all_the_same() -> None:
    m = Matcher()
    rule = {"id": "r", "rule": "x = 1", "valid_from": "2999-01-01"}
    assert m.backtest([rule], [{"x": 1}]).rules[0].matches == 1


def test_bad_input_is_refused() -> None:
    m = Matcher()
    with pytest.raises(RuleError):
        m.backtest("x =", [{}])
    with pytest.raises(RuleError, match="id="):
        m.backtest({"a": "x = 1"}, [{}], id="b")
    with pytest.raises(EventError, match="EventFile"):
        m.backtest("x = 1", "events.jsonl")
    with pytest.raises(EventError):
        m.backtest("x = 1", [{"x": b"1"}])
    with pytest.raises(ValueError, match="bins"):
        m.backtest("x = 1", [], bins=0)
    with pytest.raises(ValueError, match="samples"):
        m.backtest("x = 1", [], samples=-1)
    empty = m.backtest("x = 1", [])
    assert (empty.events, empty.rules[0].matches) == (0, 0)
    assert str(empty) == "0 events\n\n'draft' matches 0\n  x = 1"


def test_times_come_in_several_forms() -> None:
    m = Matcher()
    moments: list[Any] = [START, START.isoformat(), START.timestamp(), None, "never", [START]]
    report = m.backtest("TRUE", [{"t": {"at": moment}} for moment in moments], time="t.at")
    assert (report.first, report.last) == (START, START)
    assert report.rules[0].bins[0].matches == 4
    assert report.events == 6


def test_bins_widen_with_the_span() -> None:
    def years() -> Iterator[dict[str, Any]]:
        for days in range(3000):
            yield {"at": START + timedelta(days=days), "n": days}

    report = Matcher().backtest("n < 100", years(), time="at", bins=10)
    bins = report.rules[0].bins
    assert len(bins) <= 11
    assert sum(one.events for one in bins) == 3000
    assert sum(one.matches for one in bins) == 100
    assert report.to_json()["rules"][0]["bins"][0]["matches"] == bins[0].matches
