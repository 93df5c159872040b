"""Searches that consider only some of the rules."""

from __future__ import annotations

from typing import Any

import pytest

from tamis import Matcher, tagged
from tamis.errors import RuleError
from tests.matcher.matchers import SIZES, filled


@SIZES
def test_only_takes_ids(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([("r", "a = 1"), ("s", "a = 1"), (5_000, "a = 1"), ("no", "a = 2")])
    event = {"a": 1}
    only: Any
    expected: list[Any]
    for only, expected in (
        (["s", "r"], ["r", "s"]),
        ({5_000}, [5_000]),
        (iter(["s"]), ["s"]),
        (["no"], []),
        (["unknown", None, [], "r"], ["r"]),
        ([], []),
        (None, ["r", "s", 5_000]),
    ):
        kept: Any = None if only is None else list(only)
        assert matcher.match(event, only=kept) == expected
        assert matcher.match_array(event, only=kept).tolist() == expected
        assert matcher.match_many([event], only=kept)["rule"].to_pylist() == expected
        assert matcher.count_many([event], only=kept)["matches"].to_pylist() == [len(expected)]
        assert matcher.top(event, only=kept) == [(id, 1.0) for id in expected]
        assert matcher.top_many([event], only=kept)["rule"].to_pylist() == expected
    matcher.remove("r")
    assert matcher.match(event, only=["r", "s"]) == ["s"]


@SIZES
def test_only_takes_tags(size: int) -> None:
    matcher = filled(size)
    matcher.add("gold", "a = 1", tags=["gold"])
    matcher.add("both", "a = 1", tags={"gold", "silver"})
    matcher.add("none", "a = 1")
    matcher.add("no match", "a = 2", tags=("gold",))
    event = {"a": 1}
    for only, expected in (
        (tagged("gold"), ["gold", "both"]),
        (tagged("silver"), ["both"]),
        (tagged("silver", "gold"), ["gold", "both"]),
        (tagged("lead"), []),
        (tagged(), []),
    ):
        assert matcher.match(event, only=only) == expected
        assert matcher.match_array(event, only=only).tolist() == expected
        assert matcher.match_many([event], only=only)["rule"].to_pylist() == expected
        assert matcher.count_many([event], only=only)["matches"].to_pylist() == [len(expected)]
        assert matcher.top(event, only=only) == [(id, 1.0) for id in expected]
    matcher.remove("gold")
    matcher.add("both", "a = 1", replace=True)
    assert matcher.match(event, only=tagged("gold", "silver")) == []


@pytest.mark.parametrize("tags", ["gold", [5], [None], 5, [["gold"]]])
def test_bad_tags_are_refused(tags: Any) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError, match="tag"):
        matcher.add("r", "a = 1", tags=tags)
    assert len(matcher) == 0


def test_a_string_is_not_a_list_of_ids() -> None:
    matcher = filled()
    for ask in (
        lambda: matcher.match({}, only="r"),
        lambda: matcher.match_array({}, only="r"),
        lambda: matcher.top({}, only="r"),
        lambda: matcher.match_many([{}], only="r"),
        lambda: matcher.count_many([{}], only="r"),
        lambda: matcher.top_many([{}], only="r"),
    ):
        with pytest.raises(RuleError, match="only= takes a list of ids or tagged"):
            ask()
