"""Limits on the sizes of events, on every road by which events come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tamis

LARGE = {"tags": ["a", "b", {"c": ["d", None]}], "n": 1}
"""An event of four values, three characters, and a null, which is not a value."""


def calls(matcher: tamis.Matcher, event: Any) -> list[Any]:
    """Every call that takes one event."""
    return [
        lambda: matcher.match(event),
        lambda: matcher.match_array(event),
        lambda: matcher.first(event),
        lambda: matcher.top(event),
        lambda: matcher.publish(event),
        lambda: matcher.explain("r", event),
        lambda: matcher.why(event),
        lambda: matcher.why_not("r", event),
    ]


def test_every_call_refuses_an_event_with_too_many_values() -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(event_values=3))
    matcher.add("r", "n = 1")
    for call in calls(matcher, LARGE):
        with pytest.raises(tamis.EventError, match="more than 3 values, the limit event_values"):
            call()


def test_every_call_refuses_an_event_with_too_many_characters() -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(event_characters=2))
    matcher.add("r", "n = 1")
    for call in calls(matcher, LARGE):
        with pytest.raises(tamis.EventError, match="2 characters, the limit event_characters"):
            call()


def test_an_event_of_just_the_size_of_the_limits_is_matched() -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(event_values=4, event_characters=3))
    matcher.add("r", "n = 1")
    assert matcher.match(LARGE) == ["r"]


def test_an_error_in_a_batch_names_the_event() -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(event_values=3))
    matcher.add("r", "n = 1")
    with pytest.raises(tamis.EventError, match="event 1: the event has more than 3 values"):
        matcher.match_many([{"n": 1}, LARGE])


@pytest.mark.parametrize(
    ("values", "limit"), [([[1, 2, 3]], "event_values"), (["abcdefgh"], "event_characters")]
)
def test_limits_hold_for_arrow_columns(values: list[Any], limit: str) -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(event_values=2, event_characters=5))
    matcher.add("r", "x = 1")
    assert matcher.count_many(pa.table({"x": pa.array([[1, 2]])}))["matches"].to_pylist() == [1]
    with pytest.raises(tamis.EventError, match=f"event 0: .* the limit {limit}"):
        matcher.match_many(pa.table({"x": values}))


def test_a_stored_matcher_takes_limits(tmp_path: Any) -> None:
    with tamis.open(tmp_path / "rules", limits=tamis.Limits(event_values=3)) as matcher:
        matcher.add("r", "n = 1")
        assert matcher.limits.event_values == 3
        with pytest.raises(tamis.EventError, match="event_values"):
            matcher.match(LARGE)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "10"])
def test_a_limit_is_a_positive_number(value: Any) -> None:
    with pytest.raises(ValueError, match="the limit event_values is a positive number"):
        tamis.Limits(event_values=value)
