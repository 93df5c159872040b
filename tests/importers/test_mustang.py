"""Criteria that Mustang's recorded tests lack, decided by its code and documentation."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.files import load_rules, write_rules
from tamis.importers import mustang, paths_of, widened
from tamis.matcher.rule import Rule, make_rule


def predicate(lhs: str, detail: Any, *operations: Any, **more: Any) -> dict[str, Any]:
    chain = {"preOperations": list(operations)} if operations else {}
    return {"type": "INCLUDED", "lhs": lhs, "detail": detail} | chain | more


def dnf(*predicates: dict[str, Any]) -> dict[str, Any]:
    return {"form": "DNF", "id": "c", "conjunctions": [{"predicates": list(predicates)}]}


def read_rule(document: dict[str, Any], **options: Any) -> Rule:
    imported = mustang.read([document], **options)
    assert not imported.refused, imported.refused
    return imported.rules[0]


def holds(document: dict[str, Any], event: dict[str, Any], **options: Any) -> bool:
    rule = read_rule(document, **options)
    return tamis.evaluate(rule.expr, widened(event, paths_of([rule])), rule.logic)


def equality(*values: Any) -> dict[str, Any]:
    return {"caveat": "EQUALITY", "values": list(values)}


def between(**bounds: Any) -> dict[str, Any]:
    return {"caveat": "RANGE", **bounds}


CASES: list[tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = [
    (
        predicate("$.x", equality(3, "a", True)),
        [{"x": 3.0}, {"x": "a"}, {"x": True}],
        [{"x": 1}, {}],
    ),
    ({"type": "INCLUDED", "lhs": "$.x", "values": ["a"]}, [{"x": "a"}, {"x": ["b", "a"]}], [{}]),
    ({"type": "EXCLUDED", "lhs": "$.x", "values": ["a"]}, [{"x": "b"}, {}], [{"x": ["b", "a"]}]),
    (predicate("$.x", between(upperBound=9)), [{"x": 8}], [{"x": 9}, {"x": -1}, {"x": 0}, {}]),
    (predicate("$.x", between(lowerBound=-5, includeLowerBound=True)), [{"x": -5}], [{"x": -6}]),
    (
        predicate("$.x", {"caveat": "REGEX", "regex": "a|b+"}),
        [{"x": "bb"}],
        [{"x": "ab"}, {"x": 1}],
    ),
    (
        predicate("$.x", {"caveat": "SUBSET", "values": ["a", "b"]}),
        [{"x": ["a"]}],
        [{"x": ["c"]}, {"x": "a"}, {}],
    ),
    (
        predicate("$.x", {"caveat": "SUPERSET", "values": ["a"]}),
        [{"x": ["a", "c"]}],
        [{"x": ["c"]}],
    ),
    (predicate("$.x", {"caveat": "EQUALSET", "values": [1, 2]}), [{"x": [2, 1, 2]}], [{"x": [1]}]),
    (predicate("$.x", {"caveat": "INTERSECTION", "values": [1, 2]}), [{"x": [2, 5]}], [{"x": [5]}]),
    (predicate("$.x", {"caveat": "EXISTENCE"}), [{"x": 0}], [{}, {"x": None}]),
    (predicate("$.x", {"caveat": "NON_EXISTENCE"}), [{}, {"x": None}], [{"x": 0}]),
    (
        predicate("$.x", {"caveat": "VERSIONING", "check": "EQUAL", "baseVersion": "1.0"}),
        [{"x": "1"}, {"x": "1.0.0"}],
        [{"x": "1.1"}],
    ),
    (
        predicate("$.x", equality(3), {"type": "MODULO", "rhs": 4}),
        [{"x": 7}],
        [{"x": 8}, {"x": "7"}],
    ),
    (predicate("$.x", equality("7"), {"type": "MODULO", "rhs": 4}), [{"x": "7"}], [{"x": 7}]),
    (
        predicate("$.x", equality(2), {"type": "DIVISION", "rhs": 3}),
        [{"x": 6}, {"x": 8.9}],
        [{"x": 9}, {"x": 5}],
    ),
    (
        predicate("$.x", equality(0), {"type": "DIVISION", "rhs": 3}),
        [{"x": -2}, {"x": 2}],
        [{"x": 3}],
    ),
    (
        predicate("$.x", equality(-2), {"type": "DIVISION", "rhs": 3}),
        [{"x": -6}, {"x": -8}],
        [{"x": -5}, {"x": -9}],
    ),
    (
        predicate("$.x", equality(-2), {"type": "DIVISION", "rhs": -3}),
        [{"x": 6}, {"x": 8}],
        [{"x": 9}],
    ),
    (
        predicate("$.x", between(lowerBound=1, upperBound=3), {"type": "DIVISION", "rhs": 10}),
        [{"x": 20}, {"x": 29}],
        [{"x": 19}, {"x": 30}],
    ),
    (predicate("$.x", equality(5), {"type": "ADDITION", "rhs": 2}), [{"x": 3}], [{"x": 5}]),
    (predicate("$.x", equality(0.3), {"type": "ADDITION", "rhs": 0.1}), [{"x": 0.2}], [{"x": 0.3}]),
    (predicate("$.x", equality(6), {"type": "MULTIPLICATION", "rhs": 2}), [{"x": 3}], [{"x": 6}]),
    (predicate("$.x", equality(2), {"type": "LENGTH"}), [{"x": "ab"}, {"x": 2}], [{"x": "a"}]),
    # SIZE counts the elements of a list, and leaves anything else as it is.
    (
        predicate("$.x", equality(2), {"type": "SIZE"}),
        [{"x": [7, 7]}, {"x": 2}, {"x": [{"a": 1}, {"a": 2}]}, {"x": [None, 1]}],
        [{"x": [2]}, {"x": 7}, {"x": "ab"}, {}, {"x": {"a": 1, "b": 2}}],
    ),
    (predicate("$.x", equality(0), {"type": "SIZE"}), [{"x": []}, {"x": 0}], [{"x": [0]}, {}]),
    (predicate("$.x", equality("ab"), {"type": "SIZE"}), [{"x": "ab"}], [{"x": ["ab"]}]),
    (
        predicate("$.x", between(lowerBound=3), {"type": "SIZE"}, {"type": "ADDITION", "rhs": 2}),
        [{"x": [7, 7]}, {"x": 1.5}],
        [{"x": [9]}, {"x": 1}],
    ),
    (
        predicate("$.x", equality(2), {"type": "LENGTH"}, {"type": "SIZE"}),
        [{"x": "ab"}, {"x": ["abc", "abc"]}],
        [{"x": ["ab"]}, {"x": "abc"}],
    ),
    (predicate("$.x", {"caveat": "EXISTENCE"}, {"type": "SIZE"}), [{"x": []}, {"x": 1}], [{}]),
    (
        predicate("$.x", equality(2), {"type": "SIZE"}, type="EXCLUDED"),
        [{"x": [2]}, {"x": 7}, {}],
        [{"x": [7, 7]}, {"x": 2}],
    ),
    (
        predicate("$.a[*].b", equality(2), {"type": "SIZE"}),
        [{"a": {"k": {"b": 1}, "l": {"b": 1}}}],
        [{"a": [2]}, {"a": [{"b": 2}]}],
    ),
    # [*] leads to the elements of a list and to the members of an object.
    (
        predicate("$.a[*].b", equality(1)),
        [{"a": [{"b": 1}]}, {"a": {"k": {"b": 1}}}],
        [{"a": {"b": 1}}, {"a": 1}, {}],
    ),
    (predicate("$.a[*]", equality(1)), [{"a": [2, 1]}, {"a": {"k": 1}}], [{"a": 1}, {"k": 1}]),
    (
        predicate("$.x", equality("b"), {"type": "SUBSTRING", "beginIndex": 1, "endIndex": 2}),
        [{"x": "abc"}],
        [{"x": "b"}],
    ),
    (
        predicate("$.x", equality("1" * 32), {"type": "BINARY_CONVERSION"}),
        [{"x": -1}],
        [{"x": 1}, {"x": "1"}],
    ),
    (predicate("$.x", equality("0" * 32), {"type": "BINARY_CONVERSION"}), [{"x": 0}], [{"x": 1}]),
    (
        predicate("$.x", equality(2024), {"type": "DATETIME", "extract": "YEAR"}),
        [{"x": 1704067200000}],
        [{"x": 1704067199999}, {"x": "2024"}],
    ),
    (
        predicate(
            "$.x",
            between(lowerBound=1704067200000, includeLowerBound=True),
            {"type": "TO_DATETIME", "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ssXXX"},
        ),
        [{"x": "2024-01-01T00:00:00Z"}],
        [{"x": "2024-01-01T00:00:00+01:00"}, {"x": "2024"}],
    ),
    (
        predicate("$.x", equality(1704067200000), {"type": "TO_DATETIME", "dateTimeFormat": "ISO"}),
        [{"x": "2024-01-01T00:00:00Z"}, {"x": "2024-01-01T00:00:00.5Z"}],
        [{"x": "2024-01-01T00:00:01Z"}],
    ),
    (
        predicate(
            "$.x",
            equality(1),
            {"type": "DATETIME", "extract": "HOUR_OF_DAY"},
            {"type": "MODULO", "rhs": 6},
        ),
        [{"x": 7 * 3_600_000}],
        [{"x": 6 * 3_600_000}],
    ),
    (
        predicate("$.a.b[*].c", equality(1)),
        [{"a": {"b": [{"c": 0}, {"c": 1}]}}],
        [{"a": {"b": []}}],
    ),
    (predicate("$['a']['b c']", equality(1)), [{"a": {"b c": 1}}], [{}]),
    (
        predicate("$.l[?(@.k == 'a')].v", equality(1)),
        [{"l": [{"k": "a", "v": 1}]}],
        [{"l": [{"k": "b", "v": 1}]}],
    ),
    (predicate("$.l[1]", equality(1)), [{"l": [0, 1]}], [{"l": [1, 0]}, {}]),
    (predicate("$..v", equality(1)), [{"l": [{"m": {"v": 1}}]}], [{"l": 1}]),
    (
        predicate("$.l[0]", equality(3), {"type": "ADDITION", "rhs": 1}),
        [{"l": [2, 3]}],
        [{"l": [3, 2]}],
    ),
]


def test_predicates_keep_their_meaning() -> None:
    for tested, matching, others in CASES:
        for event in matching:
            assert holds(dnf(tested), event), (tested, event)
        for event in others:
            assert not holds(dnf(tested), event), (tested, event)


def test_a_single_criteria_is_read() -> None:
    assert len(mustang.read(dnf(predicate("$.x", equality(1)))).rules) == 1


def test_typed_events_need_nothing_more() -> None:
    size, every = (
        read_rule(dnf(part), typed=True)
        for part in (
            predicate("$.a.x", equality(2), {"type": "SIZE"}),
            predicate("$.a[*].b", equality(1)),
        )
    )
    assert (size.text, every.text) == ("size(a.x) = 2", "a.b = 1")
    assert paths_of([size, every]) == []


def test_the_zone_decides_the_hour_of_a_time() -> None:
    at_midnight = dnf(predicate("$.x", equality(0), {"type": "DATETIME", "extract": "HOUR_OF_DAY"}))
    moment = {"x": 1704047400000}  # 2023-12-31 18:30 UTC
    assert holds(at_midnight, moment, zone="Asia/Kolkata")
    assert not holds(at_midnight, moment)
    with pytest.raises(tamis.RuleError, match="time zone"):
        mustang.read([], zone="Nowhere")


@pytest.mark.parametrize(
    "document",
    [
        {"form": "DNF", "id": "c", "conjunctions": []},
        {"form": "CNF", "id": "c", "disjunctions": []},
        {"form": "UNF", "id": "c", "type": "AND", "criterias": [], "predicates": []},
        {"form": "UNF", "id": "c", "type": "OR"},
    ],
)
def test_a_tautology_matches_everything(document: dict[str, Any]) -> None:
    assert holds(document, {})
    assert mustang.write(read_rule(document))["conjunctions"] == []


def test_weights_survive_a_file(tmp_path: Path) -> None:
    document = dnf(
        predicate("$.a", equality("x", "y"), weight=5),
        predicate("$.b", between(lowerBound=1), weight=7),
        predicate("$.c", equality(3), {"type": "MODULO", "rhs": 4}, weight=11),
        predicate("$.d", equality(1), weight=0),
        predicate("$.e", equality(1)),
    )
    write_rules([read_rule(document)], str(tmp_path / "rules.jsonl"))
    matcher = tamis.Matcher(engine="scan")
    load_rules(matcher, str(tmp_path / "rules.jsonl"))
    event = {"a": "x", "b": 2, "c": 7, "d": 1, "e": 1}
    assert matcher.top(event, 1) == [("c", 5 + 7 + 11 + 1 + 1)]
    assert mustang.write(read_rule(document))["conjunctions"][0]["predicates"][2]["weight"] == 11


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"form": "XNF", "id": "c"}, "DNF, CNF or UNF"),
        ({"form": "UNF", "id": "c", "type": "XOR"}, "AND or OR"),
        ({"form": "DNF"}, "no 'id'"),
        (dnf({"type": "INCLUDED"}), "'lhs'"),
        (dnf(predicate("$.x", {"caveat": "NEAR"})), "'NEAR'"),
        (dnf(predicate("$.x", equality())), "at least one value"),
        (dnf(predicate("$.x", equality(None))), "not a value"),
        (dnf(predicate("$.x", equality(1), type="MAYBE")), "INCLUDED or EXCLUDED"),
        (dnf(predicate("$.x", {"caveat": "REGEX", "regex": "(?=a)"})), "invalid pattern"),
        (dnf(predicate("$.x", equality(1), {"type": "UNHEARD"})), "UNHEARD"),
        (dnf(predicate("$.x", equality(1), {"type": "ADDITION"})), "takes a number"),
        (dnf(predicate("$.x", equality(1), {"type": "DATETIME", "extract": "ERA"})), "'ERA'"),
        (
            dnf(
                predicate(
                    "$.x", equality(1), {"type": "DIVISION", "rhs": 2}, {"type": "MODULO", "rhs": 2}
                )
            ),
            "after DIVISION",
        ),
        (
            dnf(predicate("$.x", {"caveat": "SUBSET", "values": [1]}, {"type": "LENGTH"})),
            "before SUBSET",
        ),
        (dnf(predicate("$.x[", equality(1))), "'\\$.x\\['"),
        (dnf(predicate("$", equality(1))), "no attribute"),
        (
            dnf(predicate("$.x", equality(1), weight=2), predicate("$.x", equality(1))),
            "has the weights",
        ),
        (dnf(predicate("$.x", equality(1), weight=-2)), "negative"),
    ],
)
def test_unsupported_rules_are_refused(document: dict[str, Any], reason: str) -> None:
    (refused,) = mustang.read([document]).refused
    assert pytest.raises(AssertionError, match=reason).matches(AssertionError(refused.reason))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonpath", None)
    assert len(mustang.read([dnf(predicate("$.l[*].m", equality(1)))]).rules) == 1
    with pytest.raises(tamis.MissingExtraError, match=r"tamis\[jsonpath\]"):
        mustang.read([dnf(predicate("$.never[7]", equality(1)))])


# Writing --------------------------------------------------------------------------------

RULES = [
    ("a = 1 AND b <> 2", "DNF"),
    ("a = 1 AND b = 2 OR c IN ('x', 'y')", "DNF"),
    ("(a = 1 OR b = 2) AND c IN ('x', 'y')", "CNF"),
    ("(a = 1 AND (b = 2 OR c = 'x')) OR c = 'y'", "UNF"),
    ("a BETWEEN 1 AND 2 AND b > 0 AND b <= 2", "DNF"),
    ("NOT (a < 2) AND a IS NOT NULL", "DNF"),
    ("a IS NULL OR b >= 2", "DNF"),
    ("NOT (a = 1 OR NOT (b = 2 AND c = 'x'))", "DNF"),
    ("c LIKE 'x%' OR c ILIKE '_Y' OR c RLIKE 'x|z$' OR regexp_full(c, '[x-z]+')", "DNF"),
    ("a % 2 = 1 AND length(c) < 3 OR substring(c, 2, 1) = 'y' OR a * 2 - 1 = 3", "DNF"),
    ("version(c) >= '1.5' AND version(c) < '2'", "DNF"),
    ("superset(l, (1, 2)) OR subset(l, (1, 3)) OR equalset(l, (2))", "DNF"),
    ("size(l) = 2 AND NOT (a = 1 AND l = 2)", "CNF"),
    ("TRUE", "DNF"),
]


@pytest.mark.parametrize("logic", ["strong", "weak"])
def test_written_criteria_mean_the_same(logic: str) -> None:
    dice = random.Random(8)
    events = [draw_event(dice) for _ in range(300)]
    for text, form in RULES:
        rule = make_rule("r", tamis.parse(text), logic)
        written = mustang.write(rule)
        if logic == "weak":
            assert written["form"] == form
        again = read_rule(written, typed=True)
        for event in events:
            expected = tamis.evaluate(rule.expr, event, rule.logic)
            assert tamis.evaluate(again.expr, event, "weak") == expected, (text, event, written)


def draw_event(dice: random.Random) -> dict[str, Any]:
    values: dict[str, list[Any]] = {
        "a": [0, 1, 2, 3, 1.5],
        "b": [0, 1, 2, -1],
        "c": ["x", "y", "xy", "zz", "1.6", "2.0-rc", ""],
        "l": [[1, 2], [1], [2, 2], [1, 2, 3], [3]],
    }
    return {name: dice.choice(choices) for name, choices in values.items() if dice.random() < 0.8}


@pytest.mark.parametrize(
    "text",
    [
        "FALSE",
        "a < 'x'",
        "a = TIMESTAMP '2020-01-01 00:00:00'",
        "abs(a) = 1",
        "a / 2 = 1",
        "a < b",
        "within_km(a, b, 1, 2, 3)",
        "version(c) BETWEEN '1' AND '2'",
        '"it\'s" = 1',
    ],
)
def test_rules_without_an_equivalent_in_mustang_are_refused(text: str) -> None:
    with pytest.raises(tamis.RuleError):
        mustang.write(make_rule("r", tamis.parse(text), "weak"))


def test_weights_without_an_equivalent_in_mustang_are_refused() -> None:
    with pytest.raises(tamis.RuleError, match="positive integer"):
        mustang.write(make_rule("r", tamis.parse("a IN (1, 2)"), "weak", {("a", 1): 2.0}))
    rule = make_rule("r", tamis.parse("a IN (1, 2)"), "weak", {("a", 1): 2.0, ("a", 2): 2.0})
    assert mustang.write(rule)["conjunctions"][0]["predicates"][0]["weight"] == 2
