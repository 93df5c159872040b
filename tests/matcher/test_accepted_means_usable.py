"""Whatever `add` takes can be matched, optimised, saved and opened; whatever it refuses is named.

Rules of every kind and in every form, with every field, many of them malformed. After each rule
that was accepted the matcher does everything that a matcher does, and agrees with `evaluate`.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tamis
from tamis.expr.functions.conditions import CONDITIONS
from tamis.expr.functions.scalar import ALIASES, FUNCTIONS
from tamis.expr.model import Op, Predicate
from tests import randoms
from tests.matcher.test_accepted_rules import draw_rule
from tests.randoms import EVERYTHING

AT = datetime(2026, 5, 1, tzinfo=UTC)

STRANGE_TEXTS = [
    "", " ", "TRUE", "FALSE", "x", "x =", "= 1", "x = 1 AND", "x = 9223372036854775807",
    "x = 9223372036854775808", "x = 18446744073709551616", "x = -9223372036854775808", "x = 1e400",
    "x = 1e-400", "x = .5", "x = 'é🙂' AND y LIKE '%🙂%'", "x = 'a\x00b'", "x = '\ud800'",
    '"\ud800" = 1', '"" = 1', '"\x01x" = 1', "x IN ()", "x IN (NULL)", "x = NULL", "x RLIKE '('",
    "x RLIKE '(a{1000}){1000}'", "x RLIKE ''", "x LIKE '' ESCAPE ''", "x LIKE 'a!' ESCAPE '!'",
    "x BETWEEN 2 AND 1", "x > TIMESTAMP '9999-12-31 23:59:59.999999'", "x = DATE '0000-01-01'",
    "x = TIMESTAMP '0001-01-01 00:00:00+14:00'",
    "x" + " + x" * 300 + " > 1", "x" + "+1" * 600 + "=1",
    "NOT " * 127 + "x = 1", "NOT " * 200 + "x = 1", "(" * 127 + "x = 1" + ")" * 127,
    "x IN (" + ", ".join(map(str, range(3_000))) + ")", " OR ".join(f"x = {n}" for n in range(500)),
    " AND ".join(f"(x = {n} OR y = {n})" for n in range(40)),
    "EXISTS (SELECT 1 FROM seen d)", "EXISTS (SELECT 1 FROM received d)",
    "x > ALL (SELECT d.x FROM seen d WHERE d.y = 1 AND d.y = 1 OR d.y = 1)",
    "EXISTS (SELECT 1 FROM seen d WHERE d.x = x AND NOT (d.x = x))",
    "length(length(x)) = 1", "length(x) = 'a'", "size(x + 1) = 2", "x / 0 = 1", "x % 0 = 1",
    "number(x) = 1e308 * 10", "cidr(x, '10.0.0.0/33')", "subset(x, ())", "version(x) = 5",
    "at_zone(x, 'Nowhere') = 1", "to_timestamp(x, 'qqq') IS NULL", "within_km(x, y, 91, 0, 1)",
    "unheard(x) = 1",
]  # fmt: skip

STRANGE_IDS: list[Any] = [
    "", "\x00", "a\nb", "🙂", "\ud800", "x" * 10_000, 0, -1, -(2**63), 2**63 - 1, 2**63, True, 1.5,
    None, b"a", ("a",), float("nan"),
]  # fmt: skip

STRANGE_FIELDS: dict[str, list[Any]] = {
    "logic": ["weak", "strong", "fuzzy", "", 3],
    "payload": [
        None, {}, [], 0, "a", "\ud800", {"a": [1, None, 2.5, {"b": "🙂"}]}, 2**63, 2**64, 10**40,
        math.nan, math.inf, {1: 2}, {"a": {3}}, object, b"a", datetime(2020, 1, 1), "x" * 100_000,
    ],
    "tags": [
        [], ["a"], ["a", "a"], [""], ["\x00"], ["🙂 b"], ["\ud800"], "a", [1], None, ["x" * 9999],
    ],
    "priority": [0, 1, -1, 2**63 - 1, -(2**63), 2**63, 10**30, 1.5, "1", True, None],
    "valid_from": [
        None, AT, AT + timedelta(days=1), "2026-01-01", "0001-01-01T00:00:00+14:00", "soon", "", 3,
        "0001-01-01", datetime.min, datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ],
    "valid_until": [
        None, AT, AT - timedelta(days=1), "9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.999999",
        datetime.max, datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))), "2026-13-01",
        0.5,
    ],
    "weights": [
        None, {}, {("x", 1): 2.0}, {("x", 1): -1}, {("x", 1): math.nan}, {("x", 1): math.inf},
        {("x", 1): "2"}, {("nowhere", 1): 2.0}, {"x = 1": 2.0}, {"x >": 1.0}, {3: 1.0}, [], "x",
        {("x", 2**70): 1.0}, {"\ud800": 1.0}, {("x", 1): 1e308},
    ],
}  # fmt: skip


def draw_text(random: Random) -> str:
    """The text of a rule, which may be malformed."""
    kind = random.random()
    if kind < 0.3:
        return random.choice(STRANGE_TEXTS)
    if kind < 0.45:
        function = random.choice([*FUNCTIONS, *ALIASES, *CONDITIONS, "size"])
        literals = random.sample(["1", "-2.5", "'a'", "'10.0.0.0/8'", "('a', 2)", "TRUE", "52"], 3)
        given = ", ".join(["x", *literals][: random.randint(1, 4)])
        return (
            f"{function}({given}){random.choice([' = 1', ' > 2.5', ' IS NULL', '', ' IN (1, 2)'])}"
        )
    text = draw_rule(random)
    if kind < 0.7:
        return text
    at = random.randrange(len(text) + 1)
    added = random.choice(
        ["'", '"', "(", ")", " NOT ", "\x00", "🙂", "--", "/*", "`", ";", "\\", "9"]
    )
    return text[:at] + added + text[at + random.randrange(3) :]


def draw_source(random: Random) -> Any:
    """A rule as text, as a model or in the JSON form; or something that is no rule."""
    kind = random.random()
    if kind < 0.6:
        return draw_text(random)
    if kind < 0.75:
        return randoms.rule(random, EVERYTHING, 3)
    if kind < 0.9:
        return tamis.to_json(randoms.rule(random, EVERYTHING, 3))
    strange: list[Any] = [
        Predicate("x", Op.EQ, (math.nan,)), Predicate("x", Op.EQ, (2**80,)),
        Predicate("", Op.EQ, (1,)), Predicate("x", Op.IN, ()), Predicate("\x01a", Op.EQ, (1,)),
        Predicate("\x02a", Op.EQ, (True,)), tamis.And(()), tamis.Or(()), tamis.Not(tamis.And(())),
        {"and": [{"attr": "x", "=": 1}, {"attr": "x", "=": None}]}, {"attr": "x"},
        {"join": "x = 1"}, {"derived": "length(x)", "=": 1}, {"derived": "nothing", "=": 1},
        None, 5, [], b"x = 1", object(),
    ]  # fmt: skip
    return random.choice(strange)


def draw_fields(random: Random) -> dict[str, Any]:
    return {
        name: random.choice(values)
        for name, values in STRANGE_FIELDS.items()
        if random.random() < 0.1
    }


class Usage:
    """A matcher in which every accepted rule is used in every way."""

    def __init__(self, random: Random, folder: Path) -> None:
        self.random = random
        self.folder = folder
        self.matcher = tamis.Matcher()
        self.accepted = self.refused = 0

    def try_rule(self) -> None:
        random, matcher = self.random, self.matcher
        id = random.choice(STRANGE_IDS) if random.random() < 0.1 else random.randrange(10**6)
        source, fields, replace = draw_source(random), draw_fields(random), random.random() < 0.5
        before = list(matcher)
        try:
            if random.random() < 0.5:
                matcher.add(id, source, replace=replace, **fields)
            else:
                matcher.add_many([{"id": id, "rule": source, **fields}], replace=replace)
        except tamis.RuleError as error:
            self.refused += 1
            assert error.rule_id is id or error.rule_id == id, (error, id, source, fields)
            assert list(matcher) == before
            return
        self.accepted += 1
        self.use(id)

    def use(self, id: Any) -> None:
        """Do everything that a matcher does, as it is and after it was stored."""
        event = randoms.flat_event(self.random, EVERYTHING) | {"y": 1}
        expected = self.find_expected(event)
        self.check(self.matcher, event, expected)
        self.matcher.save(self.folder, overwrite=True)
        with tamis.open(self.folder) as opened:
            self.check(opened, event, expected)
            assert opened.rule(id) == self.matcher.rule(id)
            opened.optimize()
            self.check(opened, event, expected)
        if self.random.random() < 0.3:
            self.matcher.optimize()
            self.check(self.matcher, event, expected)

    def find_expected(self, event: dict[str, Any]) -> list[Any]:
        rules = [self.matcher.rule(id) for id in self.matcher]
        at = int(AT.timestamp()) * 1_000_000
        return [
            rule.id
            for rule in rules
            if rule.validity.begin <= at < rule.validity.end
            and tamis.evaluate(rule.expr, event, rule.logic, documents=[])
        ]

    def check(self, matcher: tamis.Matcher, event: dict[str, Any], expected: list[Any]) -> None:
        assert matcher.match(event, at=AT) == expected
        assert matcher.match_many([event], at=AT)["rule"].to_pylist() == expected
        assert {id for id, _ in matcher.top(event, 10**6, at=AT)} == set(expected)
        assert set(matcher.first(event, 10**6, at=AT)) == set(expected)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_accepted_can_be_used_and_what_is_refused_is_named(
    seed: int, tmp_path: Path
) -> None:
    usage = Usage(Random(seed), tmp_path / "rules")
    for _ in range(80):
        usage.try_rule()
    assert usage.accepted > 10
    assert usage.refused > 10
