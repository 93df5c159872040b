"""Searches with an event expression."""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import pytest

from tamis import EventError, Matcher, Op, Predicate, RuleSyntaxError, tagged
from tests.matcher.matchers import SIZES, filled, settle


@SIZES
def test_an_expression_finds_rules_that_some_event_satisfies(size: int) -> None:
    matcher = filled(size)
    matcher.add("cheap", "price < 25 AND genre IN ('classics', 'poetry')")
    matcher.add("dear", "price > 50")
    matcher.add("between", "price > 30 AND price < 31")
    matcher.add("both ends", "price < 21 AND price > 39")
    matcher.add("other", "price < 25 AND author = 'Smith'")
    event = "price BETWEEN 20 AND 40 AND genre = 'classics'"
    assert matcher.match_expression(event) == ["cheap", "between"]
    matcher.remove("cheap")
    assert matcher.match_expression(event) == ["between"]


@SIZES
def test_an_expression_may_be_limited_to_some_rules(size: int) -> None:
    matcher = filled(size)
    matcher.add("gold", "a = 1", tags=["gold"])
    matcher.add("plain", "a = 1")
    assert matcher.match_expression("a > 0", only=tagged("gold")) == ["gold"]
    assert matcher.match_expression("a > 0", only=["plain", "unknown"]) == ["plain"]


def test_an_expression_in_every_form() -> None:
    matcher = filled()
    matcher.add("r", "a = 1")
    forms: list[Any] = ["a < 2", Predicate("a", Op.LT, (2,)), {"attr": "a", "<": 2}]
    for event in forms:
        assert matcher.match_expression(event) == ["r"]


@SIZES
def test_an_expression_with_alternatives(size: int) -> None:
    matcher = filled(size)
    matcher.add_many([("a", "a = 1"), ("b", "b = 1"), ("both", "a = 1 AND b = 1")])
    assert matcher.match_expression("a = 1 OR b = 1") == ["a", "b"]
    assert matcher.match_expression("FALSE") == []


@SIZES
def test_declared_integers_have_gaps(size: int) -> None:
    """No integer lies between 3 and 4, and 3.5 is not a value."""
    rules = [("gap", "n > 3 AND n < 4"), ("half", "n = 3.5"), ("next", "n > 3"), ("not", "n <> 3")]
    free, declared = filled(size), filled(size, schema={"n": "integer"})
    for matcher in (free, declared):
        matcher.add_many(rules)
    assert free.match_expression("n < 4 AND n > 0") == ["gap", "half", "next", "not"]
    assert declared.match_expression("n < 4 AND n > 0") == ["not"]
    assert declared.match_expression("n < 4 AND n > 2") == []
    assert declared.match_expression("n BETWEEN 3.2 AND 4.7") == ["next", "not"]
    assert declared.match_expression("n = 'a'") == []


def test_declared_timestamps_are_read() -> None:
    matcher = filled(schema={"seen": "timestamp"})
    matcher.add("january", "seen >= '2026-01-01' AND seen < '2026-02-01'")
    assert matcher.match_expression("seen > '2026-01-31T23:59:59.999998'") == ["january"]
    assert matcher.match_expression("seen > '2026-01-31T23:59:59.999999'") == []


@SIZES
def test_patterns_are_decided_for_listed_strings(size: int) -> None:
    matcher = filled(size)
    matcher.add_many(
        [("ends", "s LIKE '%b'"), ("not", "s NOT LIKE '%b'"), ("starts", "s LIKE 'a%'")]
    )
    assert matcher.match_expression("s IN ('ab', 'bb')") == ["ends", "starts"]
    assert matcher.match_expression("s IN ('ab', 'c')") == ["ends", "not", "starts"]
    assert matcher.match_expression("s = 7") == ["not"]
    with pytest.raises(EventError, match="cannot decide whether the event matches rule 'ends'"):
        matcher.match_expression("s > 'a'")
    assert matcher.match_expression("s > 'a'", only=["starts"]) == ["starts"]


@SIZES
def test_a_rule_that_is_encoded_as_a_tree(size: int) -> None:
    matcher = filled(size)
    clauses = [f"(a = {i} OR b = {i} OR c{i} = 1)" for i in range(12)]
    matcher.add("large", " AND ".join(clauses))
    given = [f"c{i} = 1" for i in range(2, 12)]
    assert matcher.match_expression(" AND ".join([*given, "a < 9", "b < 9"])) == ["large"]
    assert matcher.match_expression(" AND ".join([*given, "a < 9"])) == []


@pytest.mark.parametrize("event", ["a >", "SELECT 1"])
def test_bad_expressions_are_refused(event: str) -> None:
    with pytest.raises(RuleSyntaxError):
        filled().match_expression(event)


@pytest.mark.parametrize("engine", ["scan", "auto"])
def test_answers_agree_with_all_events_over_small_integers(engine: str) -> None:
    """Declared integers from 0 to 7, so that DuckDB can try all events."""
    random = Random(5)
    rules = [_conjunction(random, 3) for _ in range(300)]
    matcher = Matcher(engine=engine, schema={"a": "integer", "b": "integer"})
    matcher.add_many(list(enumerate(rules)))
    settle(matcher)
    with duckdb.connect() as world:
        world.execute("CREATE TABLE events AS SELECT * FROM range(-1, 9) x(a), range(-1, 9) y(b)")
        matching = ", ".join(f"coalesce(bool_or({rule}), false)" for rule in rules)
        for _ in range(25):
            event = f"a BETWEEN 0 AND 7 AND b BETWEEN 0 AND 7 AND {_conjunction(random, 2)}"
            found = world.execute(f"SELECT {matching} FROM events WHERE {event}").fetchone()
            assert found is not None
            expected = [number for number, matches in enumerate(found) if matches]
            assert matcher.match_expression(event) == expected


def _conjunction(random: Random, size: int) -> str:
    def literal() -> int:
        return random.randint(0, 7)

    parts = []
    for _ in range(random.randint(1, size)):
        name = random.choice("ab")
        parts.append(
            random.choice(
                [
                    f"{name} = {literal()}",
                    f"{name} <> {literal()}",
                    f"{name} > {literal()}",
                    f"{name} <= {literal()}",
                    f"{name} IN ({literal()}, {literal()}, {literal()})",
                    f"{name} NOT IN ({literal()}, {literal()})",
                    f"{name} NOT BETWEEN {literal()} AND {literal()}",
                ]
            )
        )
    return " AND ".join(parts)


@SIZES
def test_many_expressions_at_once(size: int) -> None:
    matcher = filled(size)
    matcher.add("low", "a < 5")
    matcher.add("high", "a > 3")
    events = ["a = 1", "a BETWEEN 4 AND 6", "b = 1", "a = 9 OR b = 1"]
    found = matcher.match_expression_many(events)
    assert found.to_pydict() == {"event": [0, 1, 1, 3], "rule": ["low", "low", "high", "high"]}
    lists = matcher.match_expression_many(events, form="lists").to_pydict()
    assert lists == {"event": [0, 1, 2, 3], "rules": [["low"], ["low", "high"], [], ["high"]]}
    for number, event in enumerate(events):
        assert matcher.match_expression(event) == lists["rules"][number]
    assert matcher.match_expression_many([], only=["low"]).num_rows == 0
    assert matcher.match_expression_many(events, only=["low"])["event"].to_pylist() == [0, 1]


def test_many_expressions_without_rules() -> None:
    matcher = Matcher()
    assert matcher.match_expression_many(["a = 1"]).num_rows == 0
    lists = matcher.match_expression_many(["a = 1", "b = 1"], form="lists").to_pydict()
    assert lists == {"event": [0, 1], "rules": [[], []]}


def test_a_bad_expression_among_many_is_named_or_skipped() -> None:
    matcher = filled()
    matcher.add("a", "a = 1")
    events = ["a = 1", "a LIKE '%x%'", "a >", "a = 1"]
    with pytest.raises(EventError, match="event 1: an event cannot contain"):
        matcher.match_expression_many(events)
    bad: list[Any] = []
    found = matcher.match_expression_many(events, on_error="skip", skipped=bad, form="lists")
    assert found.to_pydict() == {"event": [0, 3], "rules": [["a"], ["a"]]}
    assert [item.event for item in bad] == [1, 2]
    with pytest.warns(UserWarning, match="2 events were skipped"):
        matcher.match_expression_many(events, on_error="skip")
    with pytest.raises(TypeError, match="pass a single one in a list"):
        matcher.match_expression_many("a = 1")
    with pytest.raises(ValueError, match="form is"):
        matcher.match_expression_many(events, form="rows")  # type: ignore[arg-type]


def test_pieces_of_an_expression_are_read_once_and_mean_what_the_whole_means() -> None:
    """Two predicates on one attribute, a BETWEEN cut at its AND, an AND inside a string."""
    matcher = filled()
    matcher.add("five", "a = 5")
    matcher.add("text", "s = 'x AND b = 1'")
    matcher.add("pattern", "s LIKE 'ab%'")
    for _ in range(2):
        assert matcher.match_expression("a > 4 AND a < 6") == ["five"]
        assert matcher.match_expression("a BETWEEN 5 AND 6 AND b = 1") == ["five"]
        assert matcher.match_expression("a > 5 AND a < 6") == []
        assert matcher.match_expression("s = 'x AND b = 1'") == ["text"]
        assert matcher.match_expression("s IN ('abc', 'x') AND s LIKE '%c'") == ["pattern"]
        assert matcher.match_expression("a = 5 AND a IS NULL") == []
        assert matcher.match_expression("b IS NULL AND a = 5") == ["five"]
        with pytest.raises(RuleSyntaxError):
            matcher.match_expression("a BETWEEN 5 AND")
