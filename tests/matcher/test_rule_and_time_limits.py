"""Limits on the sizes of rules and on the time of a search."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis import deadline

LONG = "x IN (1, 2, 3, 4, 5)"
DEEP = "x = 1 AND (y = 2 OR NOT (z = 3 AND y = 4))"
"""A rule of eight nodes."""


def adders(matcher: tamis.Matcher, text: str) -> list[Any]:
    """Every call that adds a rule, in every form of a rule."""
    return [
        lambda: matcher.add("r", text),
        lambda: matcher.add("r", tamis.parse(text)),
        lambda: matcher.add("r", tamis.to_json(tamis.parse(text))),
        lambda: matcher.add_many([("r", text)]),
        lambda: matcher.add_many({"r": text}),
        lambda: matcher.add_many([{"id": "r", "rule": text}]),
        lambda: matcher.add_many(pa.table({"id": ["r"], "rule": [text]})),
        lambda: matcher.add_many([(n, "x = 1") for n in range(100)] + [("r", text)]),
        lambda: matcher.replace_all({"r": text}),
    ]


@pytest.mark.parametrize(
    ("limits", "text", "reason"),
    [
        (tamis.Limits(rule_bytes=19), LONG, "more than 19 bytes, the limit rule_bytes"),
        (tamis.Limits(rule_bytes=9), "x = 'éé'", "more than 9 bytes"),
        (tamis.Limits(rule_nodes=7), DEEP, "more than 7 nodes, the limit rule_nodes"),
    ],
)
def test_every_way_to_add_a_rule_refuses_one_that_is_too_large(
    limits: tamis.Limits, text: str, reason: str
) -> None:
    matcher = tamis.Matcher(limits=limits)
    for add in adders(matcher, text):
        with pytest.raises(tamis.RuleTooLargeError, match=reason) as caught:
            add()
        assert str(caught.value).startswith("rule 'r': ")
        assert len(matcher) == 0


def test_a_rule_of_just_the_size_of_the_limits_is_taken() -> None:
    text = tamis.to_sql(tamis.parse(DEEP))
    limits = tamis.Limits(rule_nodes=8, rule_bytes=max(len(text), len(DEEP)))
    for number, _ in enumerate(adders(tamis.Matcher(), DEEP)):
        matcher = tamis.Matcher(limits=limits)
        adders(matcher, DEEP)[number]()
        assert matcher.match({"x": 1, "y": 2})[-1] == "r"


def test_rules_that_are_too_large_can_be_skipped() -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(rule_bytes=10))
    report = matcher.add_many([("a", "x = 1"), ("b", LONG)], on_error="skip")
    assert (report.added, [bad.id for bad in report.bad]) == (1, ["b"])
    assert "rule_bytes" in report.bad[0].message


def test_stored_rules_open_whatever_the_limits(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "rules") as matcher:
        matcher.add("r", DEEP)
    with tamis.open(tmp_path / "rules", limits=tamis.Limits(rule_nodes=1)) as matcher:
        assert matcher.match({"x": 1, "y": 2}) == ["r"]
        matcher.optimize()
        with pytest.raises(tamis.RuleTooLargeError):
            matcher.add("s", DEEP)


# --- Time -------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock that advances by a second whenever it is looked at; lists the looks."""
    looks: list[int] = []
    seconds = itertools.count()

    def look() -> float:
        looks.append(1)
        return next(seconds)

    monkeypatch.setattr(deadline, "perf_counter", look)
    return looks


def searches(matcher: tamis.Matcher, event: dict[str, Any]) -> list[Any]:
    return [
        lambda: matcher.match(event),
        lambda: matcher.match_array(event),
        lambda: matcher.first(event),
        lambda: matcher.top(event),
        lambda: matcher.publish(event),
        lambda: matcher.match_many([event]),
        lambda: matcher.count_many(pa.Table.from_pylist([event])),
        lambda: matcher.top_many([event]),
    ]


def matcher_of_all_parts(limits: tamis.Limits) -> tamis.Matcher:
    """Rules in a segment and in the tail, with patterns and join predicates."""
    matcher = tamis.Matcher(limits=limits)
    matcher.add_many(
        [(n, f"s RLIKE 'a.*b{n}' OR n < ANY (SELECT d.n FROM seen d)") for n in range(30)]
    )
    matcher.add("tail", "n = 1")
    return matcher


@pytest.mark.usefixtures("clock")
def test_every_search_ends_when_its_time_is_up() -> None:
    limits = tamis.Limits(milliseconds=1500)
    for search in searches(matcher_of_all_parts(limits), {"s": "aabb1", "n": 1}):
        with pytest.raises(tamis.TimeLimitError, match=r"Limits.milliseconds \(1500 ms per event"):
            search()


@pytest.mark.usefixtures("clock")
def test_an_event_that_took_too_long_is_not_remembered() -> None:
    matcher = matcher_of_all_parts(tamis.Limits(milliseconds=1500))
    with pytest.raises(tamis.TimeLimitError):
        matcher.publish({"n": 1})
    assert len(matcher.documents) == 0


def test_a_search_looks_at_the_clock_before_each_pattern_and_each_join(clock: list[int]) -> None:
    matcher = matcher_of_all_parts(tamis.Limits(milliseconds=1e9))
    matcher.match({"n": 1})
    clock.clear()
    matcher.match({"s": "a" + "x" * 10_000 + "".join(f"b{n}" for n in range(30)), "n": 1})
    assert len(clock) > 30


def test_no_deadline_outlives_its_search() -> None:
    tamis.Matcher(limits=tamis.Limits(milliseconds=1e-9))
    limited = matcher_of_all_parts(tamis.Limits(milliseconds=1e-9))
    free = matcher_of_all_parts(tamis.Limits())
    with pytest.raises(tamis.TimeLimitError):
        limited.match({"n": 1})
    assert free.match({"n": 1}) == ["tail"]
    deadline.check_time()


@pytest.mark.usefixtures("clock")
def test_many_events_share_the_sum_of_their_times() -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(milliseconds=10_000))
    matcher.add_many([(n, f"s RLIKE 'a.*{n}'") for n in range(3)])
    events = [{"s": f"a{n}"} for n in range(50)]
    assert matcher.count_many(events)["matches"].to_pylist()[:3] == [1, 1, 1]


def test_a_matcher_without_limits_never_looks_at_the_clock(clock: list[int]) -> None:
    for search in searches(matcher_of_all_parts(tamis.Limits()), {"s": "aab1", "n": 1}):
        search()
    assert clock == []
