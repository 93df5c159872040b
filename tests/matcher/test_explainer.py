"""Explanations of why a rule matches an event or does not."""

from __future__ import annotations

import itertools
import json
from datetime import datetime
from random import Random
from typing import Any

import pytest

from tamis import Matcher, Retention, UnknownRuleError, tagged
from tests import randoms
from tests.matcher.matchers import SIZES, filled
from tests.randoms import EVERYTHING

EXPLAINED = "age IN (3, 4) AND (state <> 'CA' OR NOT (a = 1 AND b = 1)) AND tags LIKE 'x%'"


@SIZES
def test_an_explanation_prints_as_a_tree(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", EXPLAINED)
    explanation = matcher.explain("r", {"age": 3, "a": 1, "tags": ["y", "xz"]})
    assert not explanation.held
    assert str(explanation).splitlines() == [
        "? AND   [unknown]",
        "  ✓ age IN (3, 4)   [age = 3: held]",
        "  ? OR   [unknown]",
        "    ∅ state <> 'CA'   [state is absent: absent]",
        "    ? NOT   [unknown]",
        "      ? AND   [unknown]",
        "        ✓ a = 1   [a = 1: held]",
        "        ∅ b = 1   [b is absent: absent]",
        "  ✓ tags LIKE 'x%'   [tags = ['y', 'xz']: held]",
    ]


def test_an_explanation_lists_the_documents_that_it_counts() -> None:
    random = Random(1)
    readings = itertools.accumulate(random.choice((0, 1, 9)) for _ in itertools.count())
    matcher = Matcher(documents=Retention(age=60, clock=lambda: float(next(readings))))
    matcher.add("r", "(SELECT COUNT(*) FROM seen d) > 3 AND a = 1")
    for _ in range(30):
        matcher.publish({"a": 1})
        counted = matcher.explain("r", {"a": 1}).children[0]
        assert counted.values == (len(counted.documents),)


def test_an_explanation_as_json() -> None:
    matcher = Matcher()
    matcher.add("r", "a = 1 AND t > DATE '2024-01-01' AND TRUE")
    explanation = matcher.explain("r", {"a": [2, 3], "t": datetime(2024, 1, 2)})
    assert json.loads(json.dumps(explanation.to_json())) == {
        "text": "AND",
        "status": "did not hold",
        "children": [
            {"text": "a = 1", "status": "did not hold", "attribute": "a", "values": [2, 3]},
            {
                "text": "t > TIMESTAMP '2024-01-01 00:00:00'",
                "status": "held",
                "attribute": "t",
                "values": ["2024-01-02T00:00:00+00:00"],
            },
            {"text": "TRUE", "status": "held"},
        ],
    }


@pytest.mark.parametrize(
    ("text", "logic", "event", "status"),
    [
        ("a = 1", "strong", {"a": 1}, "held"),
        ("a = 1", "strong", {"a": 2}, "did not hold"),
        ("a = 1", "strong", {}, "absent"),
        ("a = 1", "weak", {}, "absent"),
        ("a <> 1", "strong", {}, "absent"),
        ("a <> 1", "weak", {}, "held"),
        ("a <> 1", "weak", {"a": [1, 2]}, "did not hold"),
        ("a IS NULL", "strong", {}, "held"),
        ("a IS NOT NULL", "strong", {}, "absent"),
        ("NOT (a = 1)", "strong", {}, "unknown"),
        ("NOT (a = 1)", "weak", {}, "held"),
        ("NOT (a = 1 OR b = 1)", "strong", {"a": 1}, "did not hold"),
        ("TRUE", "strong", {}, "held"),
        ("FALSE", "weak", {}, "did not hold"),
    ],
)
def test_the_status_of_each_part(text: str, logic: str, event: Any, status: str) -> None:
    matcher = Matcher(logic=logic)
    matcher.add("r", text)
    explanation = matcher.explain("r", event)
    assert explanation.status == status
    assert explanation.held == (matcher.match(event) == ["r"])


def test_explanations_agree_with_matches() -> None:
    random = Random(9)
    matcher = Matcher()
    for number in range(100):
        rule = randoms.rule(random, EVERYTHING, 4)
        matcher.add(number, rule, logic=random.choice(["strong", "weak"]))
    for _ in range(15):
        event = randoms.event(random, EVERYTHING)
        held = [id for id in matcher if matcher.explain(id, event).held]
        assert held == matcher.match(event)


@SIZES
def test_why_explains_every_match(size: int) -> None:
    matcher = filled(size)
    matcher.add("r", EXPLAINED, tags=["x"])
    event = {"age": 3, "state": "NY", "tags": "xy"}
    why = matcher.why(event)
    assert list(why) == matcher.match(event)
    assert why["r"] == matcher.explain("r", event)
    assert list(matcher.why(event, only=tagged("x"))) == ["r"]
    assert matcher.why({}, only=["r"]) == {}


def test_why_not_agrees_with_matches() -> None:
    random = Random(10)
    matcher = Matcher(schema={"t": "timestamp"})
    for number in range(100):
        rule = randoms.rule(random, EVERYTHING, 3)
        matcher.add(number, rule, logic=random.choice(["strong", "weak"]))
    matcher.add("t", "t > '2024-01-01'")
    for _ in range(15):
        event = randoms.event(random, EVERYTHING)
        event.pop("t", None)
        held = [id for id in matcher if matcher.why_not(id, event).changes == ()]
        assert held == matcher.match(event)
    (change,) = matcher.why_not("t", {"t": "2023-05-01"}).changes or ()
    assert change.to_json()["values"] == ["2023-05-01T00:00:00+00:00"]
    with pytest.raises(UnknownRuleError, match="'unknown'"):
        matcher.why_not("unknown", {})


def test_a_long_list_of_values_is_cut_short_in_print_only() -> None:
    matcher = Matcher()
    matcher.add("r", "a = 99")
    explanation = matcher.explain("r", {"a": list(range(100))})
    assert str(explanation).endswith("[a = [0, 1, 2, 3, 4, 5, 6, 7, … 92 more]: held]")
    assert explanation.to_json()["values"] == list(range(100))
