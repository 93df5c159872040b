"""Backtests over the log: from columns, from rows, and what does not fit a column."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.pubsub import Collection
from tamis.pubsub.log.columns import write_columns
from tests.waiting import wait_until


def make_event(rnd: random.Random) -> dict[str, Any]:
    event = {
        "n": rnd.choice([rnd.randrange(50), rnd.random() * 50, 2**60, True, "17", None]),
        "whole": rnd.randrange(10),
        "text": rnd.choice(["a", "b", "ünïcode", "", 5]),
        "tags": rnd.choice([["x"], ["x", "y"], ["x", "x"], [], "x", [1, 2.5], ["x", 1]]),
        "deep": rnd.choice([{"a": 1}, {"a": {"b": 2}}, {"a": [1, 2]}, {}]),
        "at": datetime(2026, 1, rnd.randrange(1, 28), tzinfo=UTC),
        "price": Decimal("1.10") if rnd.random() < 0.1 else 1.1,
    }
    return {name: event[name] for name in event if rnd.random() < 0.8}


RULES = [
    "n < 25",
    "n = 17",
    "n >= 1152921504606846976",
    "whole IN (1, 2, 3) AND text <> 'a'",
    "text = 'ünïcode' OR text = 5",
    "tags = 'x'",
    "size(tags) = 2",
    "size(tags) = 1",
    "tags <> 'y'",
    "deep.a = 2 OR deep.a.b = 2",
    "at >= '2026-01-15'",
    "price = 1.1",
    "price = 1.10 AND n IS NULL",
    "n + whole > 30",
    "lower(text) = 'b' AND whole < 5",
    "missing IS NULL",
    "TRUE",
]


def test_columns_give_the_same_answers_as_events(tmp_path: Path) -> None:
    rnd = random.Random(7)
    with Collection.open(tmp_path / "c", sync=False, segment_bytes=20_000) as c:
        events = [make_event(rnd) for _ in range(1500)]
        for start in range(0, 1500, 100):
            c.publish_many(events[start : start + 100])
        files = c.log.files[:-1]
        assert len(files) > 3
        sides = [file.path.with_name(file.path.name + ".arrow") for file in files]
        wait_until(lambda: all(side.exists() for side in sides))
        assert not write_columns(c.log, files[0])
        report = c.matcher.backtest(dict(enumerate(RULES)), c.log, samples=3)
        plain = tamis.Matcher().backtest(dict(enumerate(RULES)), events, samples=3)
        for rule, expected in zip(report.rules, plain.rules, strict=True):
            count = sum(tamis.evaluate(rule.text, event) for event in events)
            assert rule.matches == expected.matches == count, rule.text
        # Columns that are damaged, or belong to another file, are not used.
        sides[0].write_bytes(sides[0].read_bytes()[:-100])
        sides[1].write_bytes(sides[2].read_bytes())
        again = c.matcher.backtest(dict(enumerate(RULES)), c.log)
        assert [rule.matches for rule in again.rules] == [rule.matches for rule in report.rules]


def test_a_backtest_of_the_log_knows_times_and_numbers(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", sync=False) as c:
        c.matcher.add("r", "n < 2")
        c.publish_many([{"n": n} for n in range(5)])
        report = c.matcher.backtest("n > 0 AND n < 3", c.log, id="r", samples=1)
        (rule,) = report.rules
        assert (rule.matches, rule.gained, rule.lost) == (2, 1, 1)
        assert rule.gained_samples[0].number == 3
        assert rule.gained_samples[0].event == {"n": 2}
        assert rule.gained_samples[0].time == c.log.find(3).published
        assert report.first == c.log.find(1).published


@pytest.mark.parametrize("damage", [b"", b"not arrow"])
def test_a_collection_without_columns_reads_the_log(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "c"
    with Collection.open(path, sync=False, segment_bytes=2_000) as c:
        for n in range(50):
            c.publish({"n": n, "text": "x" * 50})
    for side in (path / "published").glob("*.arrow"):
        side.write_bytes(damage)
    with Collection.open(path, read_only=True) as c:
        assert c.matcher.backtest("n < 20", c.log).rules[0].matches == 20
