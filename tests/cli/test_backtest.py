"""Running drafts over past events."""

from __future__ import annotations

import json
from pathlib import Path

from tamis.pubsub import Collection
from tests.cli.command import run, write


def test_a_draft_is_compared_with_a_saved_rule() -> None:
    text = ("--rule", "state = 'NY' OR age < 18", "--id", "not-ca")
    shown = run("backtest", "rules.jsonl", "events.jsonl", *text)
    assert "'not-ca' matches" in shown
    assert "gained" in shown
    found = json.loads(run("backtest", "rules.jsonl", "events.jsonl", *text, "--json"))
    assert found["rules"][0]["id"] == "not-ca"
    write("drafts.jsonl", [{"id": "new", "rule": "age > 0"}])
    both = run("backtest", "rules.jsonl", "events.jsonl", "--drafts", "drafts.jsonl", "--json")
    assert json.loads(both)["rules"][0]["before"] is None


def test_the_log_of_a_collection_is_read() -> None:
    with Collection.open("shop", sync=False) as c:
        c.matcher.add("cheap", "price < 20")
        c.publish_many([{"price": price} for price in range(0, 100, 5)])
    shown = run("backtest", "shop", "--rule", "price < 30", "--id", "cheap")
    assert "matches 6 (30.00%), before 4: 2 gained, 0 lost" in shown
    assert "of 20  +2 -0" in shown
    run("backtest", "rules.jsonl", "shop", "--rule", "price < 30")


def test_wrong_calls_are_refused() -> None:
    run("backtest", "rules.jsonl", "events.jsonl", code=2)
    run("backtest", "rules.jsonl", "--rule", "x = 1", code=2)
    run("backtest", "rules.jsonl", "events.jsonl", "--drafts", "d.jsonl", "--id", "x", code=2)
    run("backtest", "rules.jsonl", "events.jsonl", "--rule", "x =", code=1)
    Path("empty").mkdir()
    run("backtest", "rules.jsonl", "empty", "--rule", "x = 1", code=2)
