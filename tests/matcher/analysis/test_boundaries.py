"""How matching rules change along an attribute, compared with one search for each value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis
from tamis.expr.event import Kind
from tamis.matcher.write import builder

NUMBERS = st.one_of(st.integers(-5, 5), st.sampled_from([0.5, -0.5, 1e300, -1e300, 2**53, 2**60]))
PREDICATES = st.one_of(
    st.builds("x {} {}".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), NUMBERS),
    st.builds("x BETWEEN {0} AND {1}".format, NUMBERS, NUMBERS),
    st.builds("x NOT IN ({0}, {1})".format, NUMBERS, NUMBERS),
    st.just("y = 1"),
)


@given(st.lists(PREDICATES, min_size=1, max_size=8), st.lists(NUMBERS, min_size=1, max_size=20))
def test_each_value_lies_in_the_stretch_with_its_rules(rules: list[str], values: list[Any]) -> None:
    matcher = tamis.Matcher()
    matcher.add_many(enumerate(rules))
    if not any("x" in rule for rule in rules):
        return
    found = matcher.boundaries({"y": 1}, "x", limit=1000)
    assert found.current is None
    assert (found.cuts_below, found.cuts_above) == (0, 0)
    if found.kind != "number":
        # No value satisfies a predicate of x. What such predicates compare with may be forgotten.
        constant = [number for number, rule in enumerate(rules) if "x" not in rule]
        assert all(matcher.match({"x": value, "y": 1}) == constant for value in values)
        assert all("BETWEEN" in rule for rule in rules if "x" in rule)
        return
    for value in values:
        event = {"x": value, "y": 1}
        current = matcher.boundaries(event, "x", limit=1000).current
        assert current is not None
        stretch = found.stretches[current]
        expected = matcher.match(event)
        assert stretch.matches == len(expected)
        assert matcher.match({"x": stretch.value, "y": 1}) == expected
        # What was gained and lost on the way adds up to what matches here.
        rules_here = set(matcher.match({"x": found.stretches[0].value, "y": 1}))
        for passed in found.stretches[: current + 1]:
            rules_here = rules_here - set(passed.lost) | set(passed.gained)
        assert rules_here == set(expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_rules_that_never_hold_have_no_boundaries(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However they are read: a compiled reader leaves the second one to another."""
    monkeypatch.setattr(builder, "is_loaded", lambda: compiled)
    monkeypatch.setattr(builder, "is_compiled", lambda: compiled)
    matcher = tamis.Matcher()
    matcher.add_many(enumerate(["x BETWEEN 0 AND -1", "x BETWEEN 1e+300 AND 0"]))
    found = matcher.boundaries({"x": 0}, "x")
    assert [stretch.matches for stretch in found.stretches] == [0] * len(found.stretches)
    assert not any(stretch.gained or stretch.lost for stretch in found.stretches)


def test_only_the_values_around_the_own_are_looked_at() -> None:
    matcher = tamis.Matcher()
    matcher.add_many((n, f"x >= {n}") for n in range(1000))
    found = matcher.boundaries({"x": 500}, "x", limit=10)
    assert (found.cuts_below, found.cuts_above) == (495, 495)
    assert found.current is not None
    assert found.stretches[found.current].low == 500
    assert found.stretches[found.current].gained == (500,)


def test_times_texts_and_booleans() -> None:
    matcher = tamis.Matcher()
    matcher.add("late", "at > TIMESTAMP '2026-01-01 00:00:00'")
    matcher.add("named", "name = 'Ann'")
    matcher.add("on", "flag = TRUE")
    times = matcher.boundaries({"at": datetime(2025, 1, 1, tzinfo=UTC)}, "at")
    assert [(s.low, s.matches) for s in times.stretches] == [
        (None, 0), (datetime(2026, 1, 1, tzinfo=UTC), 0), (datetime(2026, 1, 1, tzinfo=UTC), 1),
    ]  # fmt: skip
    names = matcher.boundaries({"name": "Bob"}, "name")
    assert [s.matches for s in names.stretches] == [0, 1, 0]
    assert names.current == 2
    flags = matcher.boundaries({"flag": False}, "flag")
    assert [(s.value, s.matches) for s in flags.stretches] == [(False, 0), (True, 1)]
    with pytest.raises(tamis.EventError, match="no rule compares 'other'"):
        matcher.boundaries({}, "other")


def test_a_nested_attribute_is_replaced() -> None:
    matcher = tamis.Matcher()
    matcher.add("far", "trip.km > 100")
    found = matcher.boundaries({"trip": {"km": 50}}, "trip.km")
    assert [stretch.matches for stretch in found.stretches] == [0, 0, 1]


def test_rules_that_compute_may_change_anywhere() -> None:
    matcher = tamis.Matcher()
    matcher.add("direct", "x > 3")
    assert matcher.boundaries({"x": 1}, "x").is_complete
    matcher.add("computed", "x * 2 > 3")
    assert not matcher.boundaries({"x": 1}, "x").is_complete
    matcher.add("pattern", "name LIKE '%b%' OR name = 'Ann'")
    assert not matcher.mentioned("name").is_complete


def test_what_rules_mention() -> None:
    matcher = tamis.Matcher()
    matcher.add("a", "x > 3 AND name IN ('Ann', 'Bob')")
    matcher.add("b", "x < 7 OR lower(city) = 'nice'")
    matcher.optimize()
    matcher.add("c", "x = 5")
    uses = {use.attribute: use for use in matcher.uses()}
    assert matcher.uses()[0].attribute == "x"
    assert (uses["x"].predicates, uses["x"].conjunctions) == (3, 3)
    assert uses["name"].values == {"number": 0, "string": 2, "timestamp": 0}
    assert uses["city"].is_computed
    assert not uses["x"].is_computed
    assert matcher.mentioned("x").values[Kind.NUMBER] == [3, 5, 7]
    assert tamis.Matcher().uses() == []


def test_attributes_with_declared_types() -> None:
    matcher = tamis.Matcher(schema={"day": "timestamp", "n": "integer"})
    matcher.add("spring", "day >= DATE '2026-03-01' AND day < DATE '2026-06-01' AND n > 1")
    found = matcher.boundaries({"day": "2026-02-01T00:00:00Z", "n": 2}, "day")
    assert found.kind == "timestamp"
    assert [stretch.matches for stretch in found.stretches] == [0, 1, 1, 0, 0]
