"""Bad rules, events and options: one clear error, and no partial change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis import And, Matcher, Not, Op, Or, Predicate
from tamis.encode import text_predicates as texts
from tamis.errors import (
    DuplicateRuleError,
    EventError,
    PatternError,
    RuleError,
    RuleSyntaxError,
    RuleTooLargeError,
    TamisError,
    UnknownEngineError,
    UnknownRuleError,
)
from tamis.expr.model import Atom

A = Predicate("a", Op.EQ, (1,))
MANY = 200
PROBES: list[dict[str, Any]] = [{}, {"a": 1}, {"a": 2, "b": "x"}]


def deep(wrap: Callable[[Any], Any], inside: Any, depth: int = 10_000) -> Any:
    for _ in range(depth):
        inside = wrap(inside)
    return inside


def matcher_of(size: int) -> Matcher:
    matcher = Matcher()
    matcher.add_many([(number, f"a = {number % 3}") for number in range(size)])
    matcher.add("old", "b LIKE '%x%'")
    return matcher


def state(matcher: Matcher) -> tuple[Any, ...]:
    """Everything that a caller sees of a matcher."""
    return (
        len(matcher),
        list(matcher),
        [matcher.match(event) for event in PROBES],
        matcher.match_many(PROBES).to_pylist(),
        matcher.stats()["rules"],
    )


# --- Rules ------------------------------------------------------------------------------

BAD_RULES: dict[str, tuple[Callable[[], Any], type[RuleError], str]] = {
    "no text": (lambda: "", RuleSyntaxError, "empty"),
    "unparsable": (lambda: "a = 1 AND AND b = 2", RuleSyntaxError, "expected a condition"),
    "unclosed string": (lambda: "a = 'x", RuleSyntaxError, "not closed"),
    "unclosed bracket": (lambda: "(a = 1", RuleSyntaxError, r"expected '\)'"),
    "unknown function": (lambda: "foo(a) = 'x'", RuleSyntaxError, "unknown function foo"),
    "subquery": (lambda: "a IN (SELECT 1)", RuleSyntaxError, "subquery"),
    "NULL": (lambda: "a = NULL", RuleSyntaxError, "IS NULL"),
    "NULL in a list": (lambda: "a IN (1, NULL)", RuleSyntaxError, "IS NULL"),
    "null in JSON": (lambda: {"attr": "a", "=": None}, RuleSyntaxError, "null"),
    "None in a model": (lambda: Predicate("a", Op.EQ, (None,)), RuleError, "NULL"),  # type: ignore[arg-type]
    "large integer": (lambda: "a = 18446744073709551616", RuleSyntaxError, "too large"),
    "large numeral": (lambda: f"a = {'9' * 5_000}", RuleSyntaxError, "too large"),
    "large double": (lambda: "a = 1e999", RuleSyntaxError, "too large"),
    "large integer in JSON": (lambda: {"attr": "a", "=": 2**64}, RuleSyntaxError, "too large"),
    "large integer in a model": (
        lambda: Predicate("a", Op.EQ, (-(2**64),)),
        RuleError,
        "too large",
    ),
    "infinity": (lambda: Predicate("a", Op.EQ, (float("inf"),)), RuleError, "too large"),
    "NaN": (lambda: Predicate("a", Op.EQ, (float("nan"),)), RuleError, "NaN"),
    "deep brackets": (
        lambda: "(" * 10_000 + "a = 1" + ")" * 10_000,
        RuleTooLargeError,
        "128 levels",
    ),
    "deep NOT": (lambda: "NOT " * 10_000 + "a = 1", RuleTooLargeError, "128 levels"),
    "deep JSON": (
        lambda: deep(lambda inner: {"not": inner}, {"attr": "a", "=": 1}),
        RuleTooLargeError,
        "128 levels",
    ),
    "deep JSON lists": (
        lambda: deep(lambda inner: {"and": [inner, True]}, {"attr": "a", "=": 1}),
        RuleTooLargeError,
        "128 levels",
    ),
    "deep model": (lambda: deep(Not, A), RuleTooLargeError, "128 levels"),
    "deep AND": (lambda: deep(lambda inner: And((A, inner)), A), RuleTooLargeError, "128 levels"),
    "invalid regular expression": (lambda: "a RLIKE '(['", PatternError, "invalid pattern"),
    "backreference": (lambda: r"a RLIKE '(a)\1'", PatternError, "invalid pattern"),
    "enormous regular expression": (
        lambda: "a RLIKE '((x{100}){100}){100}'",
        PatternError,
        "invalid pattern",
    ),
    "long regular expression": (
        lambda: f"a RLIKE '{'ab' * 60_000}'",
        PatternError,
        "120,000 characters",
    ),
    "regular expression in a model": (
        lambda: Predicate("a", Op.RLIKE, ("*",)),
        PatternError,
        "invalid pattern",
    ),
    "half an escape": (lambda: "a LIKE 'x!' ESCAPE '!'", PatternError, "escape"),
    "long escape": (lambda: "a LIKE 'x' ESCAPE '!!'", PatternError, "one character"),
    "LIKE a number": (lambda: "a LIKE 5", PatternError, "string"),
    "surrogate in a string": (lambda: "a = '\ud800'", RuleError, "surrogate"),
    "surrogate in a name": (lambda: '"a\udfff" = 1', RuleError, "surrogate"),
    "surrogate in a compared name": (lambda: '"a" > "\udfff"', RuleError, "surrogate"),
    "surrogate in a comment": (lambda: "a = 1 /* \udfff */", RuleError, "surrogate"),
    "surrogate in a model": (lambda: Predicate("\ud800", Op.PRESENT), RuleError, "surrogate"),
    "surrogate in a pattern": (lambda: "a RLIKE '\ud800'", RuleError, "surrogate"),
    "surrogate in JSON": (lambda: {"attr": "a", "=": "\ud800"}, RuleError, "surrogate"),
    "no name": (lambda: Predicate("", Op.EQ, (1,)), RuleError, "name"),
    "a name that is none": (lambda: Predicate(5, Op.EQ, (1,)), RuleError, "name"),  # type: ignore[arg-type]
    "an operator that is none": (
        lambda: Predicate("a", "==", (1,)),  # type: ignore[arg-type]
        RuleError,
        "operator",
    ),
    "an operator by its text": (
        lambda: Predicate("a", "=", (1,)),  # type: ignore[arg-type]
        RuleError,
        "operator",
    ),
    "one value, not in a tuple": (lambda: Predicate("a", Op.EQ, 1), RuleError, "values"),  # type: ignore[arg-type]
    "no values": (lambda: Predicate("a", Op.IN), RuleError, "at least one"),
    "three ends": (lambda: Predicate("a", Op.BETWEEN, (1, 2, 3)), RuleError, "two values"),
    "a value of no kind": (lambda: Predicate("a", Op.EQ, (b"x",)), RuleError, "bytes"),  # type: ignore[arg-type]
    "AND of one": (lambda: And((A,)), RuleError, "one child"),
    "children that are none": (lambda: And((A, 5)), RuleError, "int"),  # type: ignore[arg-type]
    "one child, not in a tuple": (lambda: And(A), RuleError, "children"),  # type: ignore[arg-type]
    "an atom": (lambda: Atom(A, negated=False, if_absent=False), RuleError, "Atom"),
    "an unknown key": (lambda: {"attr": "a", "eq": 1}, RuleSyntaxError, "unknown key 'eq'"),
    "a mapping, but no object": (lambda: MappingProxyType({"not": True}), RuleError, "object"),
    "a number": (lambda: 5, RuleError, "int"),
    "nothing": (lambda: None, RuleError, "NoneType"),
    "bytes": (lambda: b"a = 1", RuleError, "bytes"),
    "a list": (lambda: ["a = 1"], RuleError, "list"),
}


@pytest.mark.parametrize("size", [0, MANY])
@pytest.mark.parametrize("name", BAD_RULES)
def test_a_bad_rule_is_refused(name: str, size: int) -> None:
    """Alone, in a small and in a large batch: each is read by different code."""
    make, kind, words = BAD_RULES[name]
    rule = make()
    matcher = matcher_of(size)
    before = state(matcher)

    def add() -> None:
        matcher.add("bad", rule)

    def add_few() -> None:
        matcher.add_many([("good", "a = 1"), ("bad", rule)])

    def add_lots() -> None:
        good = [(f"good {number}", "a = 1") for number in range(MANY)]
        matcher.add_many([*good, ("bad", rule), ("after", "a = 1")])

    for attempt in (add, add_few, add_lots):
        with pytest.raises(kind, match=words) as caught:
            attempt()
        assert caught.value.rule_id == "bad"
        assert "rule 'bad'" in str(caught.value)
        assert len(str(caught.value)) < 1_000
    assert state(matcher) == before
    good = [(f"good {number}", "a = 1") for number in range(size)]
    report = matcher.add_many([*good, ("bad", rule)], on_error="skip")
    assert (report.added, [bad.id for bad in report.bad]) == (size, ["bad"])
    assert report.bad[0].message in str(caught.value)
    assert list(matcher) == [*before[1], *(id for id, _ in good)]


HUGE: dict[str, Callable[[], Any]] = {
    "text": lambda: " AND ".join(f"a{i} = 1" for i in range(1_000_000)),
    "model": lambda: Or((A,) * 1_000_000),
    "JSON": lambda: {"or": [{"attr": "a", "=": 1}] * 1_000_000},
}


@pytest.mark.parametrize("name", HUGE)
def test_a_rule_with_a_million_nodes_is_refused(name: str) -> None:
    rule = HUGE[name]()
    matcher = matcher_of(0)
    before = state(matcher)
    good = [(f"good {number}", "a = 1") for number in range(MANY)]
    for attempt in (
        lambda: matcher.add("bad", rule),
        lambda: matcher.add_many([*good, ("bad", rule)]),
    ):
        with pytest.raises(RuleTooLargeError, match=r"'bad'.*250,000 nodes"):
            attempt()
    assert state(matcher) == before


@pytest.mark.parametrize("size", [0, MANY])
def test_a_taken_id_in_a_batch_is_refused(size: int) -> None:
    matcher = matcher_of(size)
    before = state(matcher)
    for batch in (
        [("new", "a = 1"), ("old", "a = 1")],
        [("new", "a = 1"), ("new", "a = 1")],
        [*((f"n{i}", "a = 1") for i in range(MANY)), ("old", "a = 1")],
    ):
        with pytest.raises(DuplicateRuleError, match=r"'old'|'new'"):
            matcher.add_many(batch)
    assert state(matcher) == before


@pytest.mark.parametrize("id", ["\ud800", "x\udfff"])
def test_an_unpaired_surrogate_in_an_id_is_refused(id: str) -> None:
    matcher = matcher_of(0)
    before = state(matcher)
    with pytest.raises(RuleError, match=r"id.*surrogate"):
        matcher.add(id, "a = 1")
    with pytest.raises(RuleError, match=r"id.*surrogate"):
        matcher.add_many([("good", "a = 1"), (id, "a = 1")])
    assert state(matcher) == before


def test_a_syntax_error_shows_its_position() -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        Matcher().add("r", "a = 1 AND b = NULL")
    assert str(caught.value).splitlines() == [
        "rule 'r': NULL is not a value; write IS NULL or IS NOT NULL (at character 15)",
        "  a = 1 AND b = NULL",
        "                ^",
    ]


def test_patterns_that_exceed_the_memory_of_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is valid by itself; 64 of a few thousand states each exceed the memory of an RE2 set."""
    monkeypatch.setattr(texts, "_SET_MEMORY", 50_000)
    matcher = Matcher()
    matcher.add_many([(n, rf"s RLIKE '^{n}-?x\pL{{2}}$'") for n in range(70)])
    assert matcher.match({"s": "13-xéé"}) == [13]
    assert matcher.match({"s": "13-xé"}) == []
    assert matcher.match_many([{"s": "69xaa"}])["rule"].to_pylist() == [69]


# --- Events -----------------------------------------------------------------------------

BAD_EVENTS: dict[str, tuple[Any, str]] = {
    "a number": (5, "mapping.*int"),
    "nothing": (None, "mapping.*NoneType"),
    "a string": ("a", "mapping.*str"),
    "a list": ([("a", 1)], "mapping.*list"),
    "a key that is not a string": ({1: "a"}, "1 is int"),
    "a nested key that is not a string": ({"a": {2: 1}}, "2 in 'a' is int"),
    "bytes": ({"a": b"x"}, "'a'.*bytes"),
    "a bytearray": ({"a": bytearray(b"x")}, "'a'.*bytearray"),
    "a long decimal": ({"a": Decimal(10**38 + 1)}, "'a'.*38 digits"),
    "a complex number": ({"a": 1j}, "'a'.*complex"),
    "a duration": ({"a": timedelta(1)}, "'a'.*timedelta"),
    "an object": ({"a": object()}, "'a'.*object"),
    "an object in a list": ({"b": 1, "a": [1, object()]}, "'a'.*object"),
    "an array": ({"a": np.arange(3)}, "'a'.*array"),
    "a huge integer": ({"a": 2**64}, "'a'.*18446744073709551616.*64 bits"),
    "a huge integer below": ({"b": "x", "a": [-(2**63) - 1]}, "'a'.*64 bits"),
    "a lone surrogate": ({"a": "\ud800"}, "'a'.*surrogate"),
    "a lone surrogate in a list": ({"a": ["x", "\udfff"]}, "'a'.*surrogate"),
    "deep lists": ({"a": deep(lambda inner: [inner], 1)}, "200 levels"),
}


@pytest.mark.parametrize("size", [0, MANY])
@pytest.mark.parametrize("name", BAD_EVENTS)
def test_a_bad_event_is_refused(name: str, size: int) -> None:
    event, words = BAD_EVENTS[name]
    matcher = matcher_of(size)
    matcher.add("both", "a = 5 OR b LIKE '%x%'")
    before = state(matcher)
    for ask in (
        lambda: matcher.match(event),
        lambda: matcher.match_array(event),
        lambda: matcher.top(event),
        lambda: matcher.explain("both", event),
        lambda: tamis.evaluate(A, event),
    ):
        with pytest.raises(EventError, match=words):
            ask()
    for ask_many in (matcher.match_many, matcher.count_many, matcher.top_many):
        with pytest.raises(EventError, match=f"event 2: .*{words}"):
            ask_many([{}, {"a": 1}, event])
    assert state(matcher) == before


UNMENTIONED: list[dict[Any, Any]] = [
    {"q": 2**64},
    {"q": b"x"},
    {"q": timedelta(1)},
    {"q": Decimal(10**38 + 1)},
    {"q": object()},
    {"q": "\ud800"},
    {"q": [1, 2**64, None]},
    {"q": {"z": 2**70, 1: 2}},
    {"q": [{"a": 2**70}]},
    {"q": deep(lambda inner: {"b": inner}, 1)},
    {"q": deep(lambda inner: [inner], 1)},
    {"a": {"q": b"x"}},
]


@pytest.mark.parametrize("size", [0, MANY])
@pytest.mark.parametrize("event", UNMENTIONED, ids=range(len(UNMENTIONED)))
def test_values_of_attributes_that_no_rule_mentions_are_ignored(
    event: dict[Any, Any], size: int
) -> None:
    matcher = matcher_of(size)
    plain, with_more = {"b": "xy"}, {"b": "xy", **event}
    assert matcher.match(with_more) == matcher.match(plain) == ["old"]
    assert matcher.top(with_more) == matcher.top(plain)
    assert matcher.match_many([{}, with_more])["rule"].to_pylist() == ["old"]
    assert matcher.explain("old", with_more) == matcher.explain("old", plain)
    assert tamis.evaluate("b = 'xy'", with_more)
    with_schema = Matcher(schema={"b": "string"})
    with_schema.add("r", "b = 'xy'")
    assert with_schema.match(with_more) == ["r"]
    assert with_schema.match_many([with_more])["rule"].to_pylist() == ["r"]
    with pytest.raises(EventError, match=r"event 1: .*'c'"):
        Matcher(schema={"c": "string"}).match_many([{}, {"c": b"x"}])


@pytest.mark.parametrize("size", [0, MANY])
@pytest.mark.parametrize(
    ("rule", "event"),
    [
        ("q + 1 > 3", {"q": 2**64}),
        ("length(q) = 3", {"q": b"x"}),
        ("size(q) = 3", {"q": [b"x"]}),
        ("q.z = 1", {"q": {1: 2}}),
        ("q.b.b = 1", {"q": {"b": {2: 3}}}),
        ("q = ANY (SELECT d.y FROM seen d)", {"q": b"x"}),
        ("EXISTS (SELECT 1 FROM seen d WHERE d.y = 1 AND q = 3)", {"q": b"x"}),
    ],
)
def test_values_that_a_rule_reads_in_other_ways_are_refused(
    rule: str, event: dict[str, Any], size: int
) -> None:
    matcher = matcher_of(size)
    matcher.add("new", rule)
    for ask in (
        lambda: matcher.match(event),
        lambda: matcher.top(event),
        lambda: matcher.explain("new", event),
        lambda: tamis.evaluate(rule, event),
        lambda: matcher.publish(event),
    ):
        with pytest.raises(EventError, match="'q"):
            ask()
    with pytest.raises(EventError, match=r"event 1: .*'q"):
        matcher.match_many([{}, event])


def test_an_integer_of_more_than_64_bits_is_refused_beside_an_equal_double() -> None:
    for count in (1, MANY):
        matcher = Matcher()
        matcher.add_many([(n, f"x = 18446744073709551616.0 AND y <> {n}") for n in range(count)])
        for _ in range(2):
            assert len(matcher.match({"x": 2.0**64, "y": -1})) == count
            with pytest.raises(EventError, match="'x' holds 18446744073709551616"):
                matcher.match({"x": 2**64, "y": -1})
            matcher.optimize()


def test_an_error_names_the_number_of_a_bad_event_in_a_batch() -> None:
    events: list[Any] = [{"a": 1}] * 9_000
    events[8_500] = {"a": b"x"}
    with pytest.raises(EventError, match=r"event 8500: .*'a'"):
        matcher_of(MANY).match_many(events)


def test_a_matcher_works_after_bad_events() -> None:
    """A bad event leaves no traces in the workspace that engines reuse."""
    matcher = matcher_of(MANY)
    expected = [matcher.match(event) for event in PROBES]
    for event, _ in BAD_EVENTS.values():
        with pytest.raises(TamisError):
            matcher.match_many([{"a": 1, "b": "x"}, event])
        assert [matcher.match(event) for event in PROBES] == expected


def test_bad_events_are_refused_even_without_rules() -> None:
    matcher = Matcher()
    assert matcher.count_many([{"a": 1}, {}])["matches"].to_pylist() == [0, 0]
    for ask in (matcher.match_many, matcher.count_many, matcher.top_many):
        with pytest.raises(EventError, match=r"event 1: .*mapping.*int"):
            ask([{}, 5])


def test_values_that_equal_an_id_but_are_of_another_type_are_unknown() -> None:
    matcher = Matcher()
    matcher.add(1, "TRUE")
    assert True not in matcher
    assert matcher.match({}, only=[True]) == []
    for id in (True, 1.0):
        with pytest.raises(UnknownRuleError):
            matcher.rule(id)  # type: ignore[arg-type]


# --- Options ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["", "fast", "Scan", None, 5])
def test_an_unknown_engine_is_refused(engine: Any) -> None:
    with pytest.raises(UnknownEngineError, match="expected one of auto, scan, "):
        Matcher(engine=engine)


def test_rules_in_the_place_of_an_engine() -> None:
    with pytest.raises(UnknownEngineError, match="add_many add rules"):
        Matcher({"adults": "age >= 18"})  # type: ignore[arg-type]


@pytest.mark.parametrize("logic", ["", "STRONG", "fuzzy", None, 3])
def test_an_unknown_logic_is_refused(logic: Any) -> None:
    with pytest.raises(RuleError, match="'strong' or 'weak'"):
        Matcher(logic=logic)
    with pytest.raises(RuleError, match="'strong' or 'weak'"):
        tamis.evaluate(A, {"a": 1}, logic=logic)


@pytest.mark.parametrize("logic", ["STRONG", "fuzzy", 3])
def test_an_unknown_logic_of_a_rule_is_refused(logic: Any) -> None:
    matcher = matcher_of(0)
    with pytest.raises(RuleError, match="rule 'r': unknown logic"):
        matcher.add("r", "a = 1", logic=logic)
    with pytest.raises(RuleError, match="unknown logic"):
        matcher.add_many([("good", "a = 1"), ("r", "a = 1", logic)])
    table = pa.table({"id": ["r"], "rule": ["a = 1"], "logic": [str(logic)]})
    with pytest.raises(RuleError, match="unknown logic"):
        matcher.add_many(table)
    assert list(matcher) == ["old"]


@pytest.mark.parametrize("only", ["old", 5, b"old"])
def test_a_bad_only_argument_is_refused(only: Any) -> None:
    matcher = matcher_of(0)
    with pytest.raises(RuleError, match="only="):
        matcher.match({"b": "x"}, only=only)
