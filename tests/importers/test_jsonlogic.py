"""JsonLogic, compared with an independent implementation."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from json_logic import jsonLogic

import tamis
from tamis.importers import jsonlogic
from tamis.importers.jsonlogic import parse_logic

X, Y = {"var": "x"}, {"var": "y.z"}

RULES: list[Any] = [
    True,
    X,
    {"!": X},
    {"!!": [X]},
    {"!": [{"var": ["x", 1]}]},
    {"===": [X, "a"]},
    {"===": [3, X]},
    {"!==": [X, "a"]},
    {"===": [X, None]},
    {"==": [X, "a"]},
    {"!=": [X, "a"]},
    {"==": [{"var": ["x", "a"]}, "a"]},
    {"<": [X, "b"]},
    {">=": ["b", X]},
    {"in": [X, ["a", 3, True]]},
    {"in": [X, ["a", None]]},
    {"in": [{"var": ["x", "a"]}, ["a"]]},
    {"!": {"in": [X, ["a", ""]]}},
    {"and": [{"===": [X, "a"]}, {"!==": [Y, 3]}]},
    {"or": [{"===": [X, "a"]}, Y]},
    {"if": [{"===": [X, "a"]}, Y, {"===": [X, "b"]}, False, True]},
    {"?:": [X, {"===": [Y, 3]}, Y]},
    {"missing": ["x", "y.z"]},
    {"!": {"missing": ["x"]}},
    {"missing_some": [1, ["x", "y.z"]]},
    {"missing_some": [2, ["x", "y.z"]]},
]

TYPED: list[Any] = [
    {"<": [X, 3]},
    {"<": [3, X]},
    {">=": [X, 0]},
    {"<=": [X, -1]},
    {"<": [-1, X, 4]},
    {"<=": [3, X, 3]},
    {"==": [X, 3]},
    {">": [{"var": ["x", 5]}, 4]},
    {"==": [{"%": [X, 2]}, 0]},
    {"<": [{"-": [X, 1]}, 2]},
    {">": [{"-": [1, X]}, 2]},
    {">=": [{"*": [X, 2]}, 6]},
    {"<": [{"/": [X, 2]}, 1]},
    {"<": [X, Y]},
    {">=": [X, Y]},
    {"!==": [X, Y]},
]

VALUES: list[Any] = [None, "a", "b", "", "ab", 0, 3, -2, 3.5, True, False]
NUMBERS: list[Any] = [None, 0, 3, -1, -2, 3.5, 5]


def events(values: list[Any]) -> list[dict[str, Any]]:
    both = [{"x": x, "y": {"z": z}} for x, z in product(values, values)]
    return [{}, {"y": {"z": 3}}, *both]


@pytest.mark.parametrize(("rules", "values"), [(RULES, VALUES), (TYPED, NUMBERS)])
def test_rules_keep_their_meaning(rules: list[Any], values: list[Any]) -> None:
    for rule in rules:
        expr = parse_logic(rule, typed=rules is TYPED)
        for event in events(values):
            expected = bool(jsonLogic(rule, event))
            assert tamis.evaluate(expr, event, "weak") is expected, (rule, event)


# In JavaScript, null equals only null, and a remainder has the sign of the dividend. The other
# implementation treats null as 0 there, and divides as Python does.
JAVASCRIPT: list[tuple[Any, dict[str, Any], bool]] = [
    ({"==": [X, None]}, {}, True),
    ({"==": [X, None]}, {"x": 0}, False),
    ({"!=": [X, None]}, {"x": 0}, True),
    ({"==": [X, 0]}, {}, False),
    ({"!=": [X, 0]}, {}, True),
    ({"==": [{"var": ["x", 0]}, 0]}, {}, True),
    ({"==": [{"var": ["x", "0"]}, 0]}, {}, True),
    ({"==": [X, Y]}, {"y": {"z": 0}}, False),
    ({"==": [X, Y]}, {"x": 3, "y": {"z": 3}}, True),
    ({"<": [0, X, Y]}, {"x": 3}, False),
    ({"===": [{"%": [X, 2]}, -1]}, {"x": -1}, True),
    ({"===": [{"+": [X, 1]}, 1]}, {}, False),
    ({"===": [{"-": [X, 1]}, -1]}, {}, True),
]


def test_null_and_remainders_follow_javascript() -> None:
    for rule, event, expected in JAVASCRIPT:
        assert tamis.evaluate(parse_logic(rule, typed=True), event, "weak") is expected, (
            rule,
            event,
        )


LISTS: list[Any] = [
    {"some": [{"var": "l"}, {"===": [{"var": ""}, 3]}]},
    {"none": [{"var": "l"}, {"in": [{"var": ""}, ["a", 3]]}]},
    {"some": [{"var": "o"}, {"===": [{"var": "k"}, "a"]}]},
    {"some": [{"var": "o"}, {"or": [{"===": [{"var": "k"}, "a"]}, {"===": [{"var": "n"}, 3]}]}]},
]


def test_some_and_none_test_elements_of_lists() -> None:
    for rule in LISTS:
        for values, objects in product(
            [[], [3], ["a", "b"], [1, 2]],
            [[], [{"k": "a"}], [{"k": "b", "n": 3}, {"k": "c"}], [{"n": 1}]],
        ):
            event = {"l": values, "o": objects}
            expected = bool(jsonLogic(rule, event))
            assert tamis.evaluate(parse_logic(rule), event, "weak") is expected, (rule, event)


def test_in_finds_a_text_within_a_text() -> None:
    rule = parse_logic({"in": ["Spring", {"var": "city"}]}, typed=True)
    assert tamis.evaluate(rule, {"city": "Springfield"}, "weak")
    assert not tamis.evaluate(rule, {"city": "spring"}, "weak")
    assert not tamis.evaluate(rule, {}, "weak")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"==": [X, 3]}, "converts between texts and numbers"),
        ({"==": [X, "3"]}, "converts between texts and numbers"),
        ({"!=": [X, ""]}, "converts between texts and numbers"),
        ({"<": [X, 3]}, "converts between texts and numbers"),
        ({"in": ["a", X]}, "text or a list"),
        ({"in": [X, "abc"]}, "text in a variable"),
        ({"<": [X, True]}, "of True"),
        ({"==": [X, Y]}, "converts between texts and numbers"),
        ({"==": [1, 1]}, "of two values"),
        ({">": [2, 1]}, "of two values"),
        ({"===": [X, {"var": ["y", 1]}]}, "with a default"),
        ({"===": [{"+": [X, 1]}, 3]}, "converts between texts and numbers"),
        ({"===": [X, ["a"]]}, "list"),
        ({"===": [{"cat": [X, "a"]}, "ab"]}, "'cat'"),
        ({"map": [X, Y]}, "'map'"),
        ({"all": [X, Y]}, "'all'"),
        ({"and": []}, "at least one"),
        ({"a": 1, "b": 2}, "one key"),
        ({"var": ""}, "not a path"),
        ({"var": "a.0"}, "one position"),
        ({"some": [X, {"and": [Y, X]}]}, "one element"),
        ({"missing_some": [2, ["a", "b", "c"]]}, "one or all names"),
    ],
)
def test_unsupported_rules_are_refused(rule: Any, reason: str) -> None:
    with pytest.raises(tamis.RuleError, match=reason):
        parse_logic(rule)


def test_refused_rules_are_named() -> None:
    imported = jsonlogic.read({"a": {"===": [X, "a"]}, "b": {"<": [X, 1]}})
    assert [rule.id for rule in imported.rules] == ["a"]
    assert [refused.id for refused in imported.refused] == ["b"]
    assert len(jsonlogic.read({"b": {"<": [X, 1]}}, typed=True).rules) == 1
