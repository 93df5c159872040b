"""Validity periods and priorities of rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tamis
from tamis import Matcher, tagged
from tamis.files import load_rules, save_rules
from tests.matcher.matchers import SIZES, filled

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVENT = {"a": 1}


def answers(matcher: Matcher, at: datetime | None, **options: Any) -> list[Any]:
    """The answer on which all searches agree."""
    found = matcher.match(EVENT, at=at, **options)
    assert sorted(matcher.match_array(EVENT, at=at, **options).tolist(), key=str) == sorted(
        found, key=str
    )
    assert matcher.match_many([EVENT], at=at, **options)["rule"].to_pylist() == found
    assert matcher.count_many([EVENT], at=at, **options)["matches"].to_pylist() == [len(found)]
    assert [id for id, _ in matcher.top(EVENT, 999, at=at, **options)] == found
    assert matcher.top_many([EVENT], 999, at=at, **options)["rule"].to_pylist() == found
    assert matcher.match_expression("a = 1", at=at, **options) == found
    assert list(matcher.why(EVENT, at=at, **options)) == found
    assert sorted(matcher.first(EVENT, 999, at=at, **options), key=str) == sorted(found, key=str)
    return found


@SIZES
def test_a_rule_matches_while_it_is_valid(size: int) -> None:
    matcher = filled(size)
    matcher.add("always", "a = 1")
    matcher.add("from", "a = 1", valid_from=NOON)
    matcher.add("until", "a = 1", valid_until="2026-05-01T14:00:00+02:00")
    matcher.add("between", "a = 1", valid_from=NOON - HOUR, valid_until=NOON + HOUR, tags=["t"])
    for at, expected in (
        (NOON - 2 * HOUR, ["always", "until"]),
        (NOON - HOUR, ["always", "until", "between"]),
        (NOON - timedelta(microseconds=1), ["always", "until", "between"]),
        (NOON, ["always", "from", "between"]),
        (NOON + HOUR, ["always", "from"]),
        (NOON.astimezone(timezone(3 * HOUR)), ["always", "from", "between"]),
        (NOON.replace(tzinfo=None), ["always", "from", "between"]),
    ):
        assert answers(matcher, at) == expected
        assert answers(matcher, at, only=tagged("t")) == [id for id in expected if id == "between"]
    matcher.remove("from")
    assert answers(matcher, NOON) == ["always", "between"]
    assert matcher.rule("between").valid_until == NOON + HOUR
    assert matcher.rule("always").valid_from is None


def test_the_clock_can_be_replaced() -> None:
    now = [NOON]
    matcher = Matcher(clock=lambda: now[0])
    matcher.add("late", "a = 1", valid_from=NOON + HOUR)
    assert matcher.match(EVENT) == []
    now[0] += HOUR
    assert matcher.match(EVENT) == ["late"]
    assert answers(matcher, None) == ["late"]
    machine = Matcher()
    machine.add("past", "a = 1", valid_until=NOON - 100_000 * HOUR)
    machine.add("now", "a = 1", valid_from=NOON - 100_000 * HOUR)
    assert machine.match(EVENT) == ["now"]


@SIZES
def test_the_highest_priorities_come_first(size: int) -> None:
    matcher = filled(size)
    for id, priority in (
        ("lowest", -(2**63)),
        ("low", -3),
        ("none", 0),
        ("high", 2**63 - 1),
        ("also high", 2**63 - 1),
    ):
        matcher.add(id, "a = 1", priority=priority)
    matcher.add("no match", "a = 2", priority=7)
    assert matcher.first(EVENT) == ["high"]
    assert matcher.first(EVENT, 3) == ["high", "also high", "none"]
    assert matcher.first(EVENT, 9) == ["high", "also high", "none", "low", "lowest"]
    matcher.optimize()
    assert matcher.first(EVENT, 9) == ["high", "also high", "none", "low", "lowest"]
    assert matcher.first(EVENT, 1, only=["low", "none"]) == ["none"]
    assert matcher.first({}) == matcher.first(EVENT, 0) == []
    assert matcher.rule("low").priority == -3


@SIZES
def test_combinations_of_tags(size: int) -> None:
    matcher = filled(size)
    for id, tags in (("a", "x"), ("b", "xy"), ("c", "xyz"), ("d", "")):
        matcher.add(id, "a = 1", tags=list(tags))
    for only, expected in (
        (tagged(every=["x", "y"]), ["b", "c"]),
        (tagged("y", "z", without=["z"]), ["b"]),
        (tagged(every=["x"], without=["y"]), ["a"]),
        (tagged("q", every=["x"]), []),
    ):
        assert answers(matcher, NOON, only=only) == expected
    untouched = answers(matcher, NOON, only=tagged(without=["x"]))
    assert untouched[-1:] == ["d"]
    assert not {"a", "b", "c"} & set(untouched)


def test_ended_rules_can_be_removed() -> None:
    matcher = Matcher()
    matcher.add_many(dict.fromkeys(range(100), "a = 1"))
    rules = [
        tamis.Rule(f"r{n}", "a = 1", "strong", validity=matcher.rule(0).validity) for n in range(3)
    ]
    matcher.add_many(rules)
    matcher.add("past", "a = 1", valid_until=NOON)
    matcher.optimize()
    matcher.add("past too", "a = 1", valid_until=NOON)
    matcher.add("future", "a = 1", valid_until=NOON + HOUR)
    assert matcher.remove_ended(NOON - HOUR) == 0
    assert matcher.remove_ended(NOON) == 2
    assert "past" not in matcher
    assert "past too" not in matcher
    assert "future" in matcher
    assert len(matcher) == 104


@pytest.mark.parametrize(
    ("validity", "message"),
    [
        ({"priority": 1.5}, "priority is an integer"),
        ({"priority": True}, "priority is an integer"),
        ({"priority": 2**63}, "64 bits"),
        ({"valid_from": "soon"}, "valid_from is a datetime or an ISO text"),
        ({"valid_until": 5}, "valid_until is a datetime or an ISO text"),
        ({"valid_until": "9999-12-31T23:59:59-05:00"}, "valid_until.*years 1 to 9999"),
        ({"valid_from": "0001-01-01T00:00:00+05:00"}, "valid_from.*years 1 to 9999"),
        ({"valid_from": NOON, "valid_until": NOON}, "never valid"),
    ],
)
def test_bad_validities_are_refused(validity: dict[str, Any], message: str) -> None:
    matcher = Matcher()
    with pytest.raises(tamis.RuleError, match=message):
        matcher.add("r", "a = 1", **validity)
    assert len(matcher) == 0
    with pytest.raises(ValueError, match="a time is"):
        matcher.match(EVENT, at="noon")  # type: ignore[arg-type]


def test_validities_are_stored_merged_and_exported(tmp_path: Path) -> None:
    random = Random(2)
    shadow: dict[int, tuple[int, datetime | None, datetime | None]] = {}
    stored = tamis.open(tmp_path / "index", clock=lambda: NOON)
    for n in range(150):
        begin = NOON + random.randint(-3, 1) * HOUR if random.random() < 0.4 else None
        end = NOON + random.randint(2, 4) * HOUR if random.random() < 0.4 else None
        shadow[n] = (random.randint(-2, 2), begin, end)
        stored.add(n, "a = 1", priority=shadow[n][0], valid_from=begin, valid_until=end)
        if n == 70:
            stored.optimize()
    stored.close()
    again = tamis.open(tmp_path / "index")
    save_rules(again, str(tmp_path / "rules.jsonl"))
    loaded = Matcher()
    load_rules(loaded, str(tmp_path / "rules.jsonl"))
    loaded.optimize()
    for matcher in (again, loaded):
        for hours in range(-4, 6):
            at = NOON + hours * HOUR
            valid = [
                n
                for n, (_, begin, end) in shadow.items()
                if (begin is None or begin <= at) and (end is None or at < end)
            ]
            assert answers(matcher, at) == valid
            expected = sorted(valid, key=lambda n: -shadow[n][0])[:20]
            assert matcher.first(EVENT, 20, at=at) == expected


def test_validities_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    path.write_text(
        "id,rule,priority,valid_from,valid_until\n"
        "r,a = 1,5,2026-05-01T12:00:00Z,\n"
        "s,a = 1,,,2026-05-01\n"
    )
    matcher = Matcher()
    load_rules(matcher, str(path))
    assert matcher.rule("r").priority == 5
    assert answers(matcher, NOON) == ["r"]
    assert answers(matcher, NOON - 20 * HOUR) == ["s"]
    path.write_text("id,rule,priority\nr,a = 1,high\n")
    with pytest.raises(tamis.InputFileError, match="priority is an integer, not 'high'"):
        load_rules(Matcher(), str(path))


def test_why_not_reports_that_a_rule_is_not_valid() -> None:
    matcher = Matcher()
    matcher.add("late", "a = 1", valid_from=NOON)
    assert str(matcher.why_not("late", {"a": 1}, at=NOON)) == "it matches"
    early = matcher.why_not("late", {"a": 1}, at=NOON - HOUR)
    assert str(early) == "it is not valid: only from 2026-05-01T12:00:00+00:00 on"
    assert early.to_json()["invalid"] == "only from 2026-05-01T12:00:00+00:00 on"
