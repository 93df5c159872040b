"""Rules of every kind in one matcher: whatever `add` takes never disturbs a match."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tamis
from tamis.expr.model import LOGICS, Logic, Predicate
from tamis.expr.text.write import predicate_text_on
from tamis.joins import evaluate
from tests import randoms
from tests.randoms import EVERYTHING

SIGNS = ("=", "<>", "<", "<=", ">", ">=")
NAMES = [attribute.name for attribute in EVERYTHING]
FUNCTIONS = (
    "lower(s) = 'a'",
    "length(user.name) > 1",
    "n + small * 2 > 3",
    "abs(x) < 2.5",
    "n > small",
    "within_box(x, n, -10, -10, 10, 10.5)",
    "substring(s, 1, 1) IN ('a', 'é')",
)
REPEATED = "EXISTS (SELECT 1 FROM seen d WHERE (d.n = n OR d.n = n) AND d.s = s)"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _leaf(random: Random) -> str:
    """A comparison of two documents, or a test of one."""
    if random.random() < 0.4:
        sides = [f"d.{_quoted(random.choice(NAMES))}", _quoted(random.choice(NAMES))]
        random.shuffle(sides)
        return random.choice(SIGNS).join(sides)
    tested: Predicate = randoms.predicate(random, EVERYTHING)
    return predicate_text_on(tested, random.choice(("", "d.")) + _quoted(tested.attribute))


def _condition(random: Random, depth: int) -> str:
    """A condition of a subquery, some parts of which are repeated or in needless parentheses."""
    if depth == 0 or random.random() < 0.2:
        return _leaf(random)
    if random.random() < 0.2:
        return f"NOT ({_condition(random, depth - 1)})"
    parts = [_condition(random, depth - 1) for _ in range(random.randint(1, 3))]
    parts += random.choices(parts, k=random.randint(0, 2))
    form = random.choice(("{}", "({})"))
    return f"({random.choice((' AND ', ' OR ')).join(map(form.format, parts))})"


def _join(random: Random) -> str:
    where = f" WHERE {_condition(random, random.randint(0, 4))}" if random.random() < 0.8 else ""
    if random.random() < 0.5:
        return f"EXISTS (SELECT 1 FROM seen d{where})"
    old, new = _quoted(random.choice(NAMES)), _quoted(random.choice(NAMES))
    quantifier = random.choice(("ANY", "ALL", "SOME"))
    return f"{new} {random.choice(SIGNS)} {quantifier} (SELECT d.{old} FROM seen d{where})"


def draw_rule(random: Random) -> str:
    kind = random.random()
    if kind < 0.4:
        return tamis.to_sql(randoms.rule(random, EVERYTHING, 3))
    if kind < 0.5:
        return random.choice(FUNCTIONS)
    if kind < 0.8:
        return _join(random)
    parts = [draw_rule(random) for _ in range(2)]
    parts.append(parts[0])
    return f"({random.choice((') AND (', ') OR (', ') AND NOT (')).join(parts)})"


@pytest.mark.parametrize("seed", range(6))
def test_a_matcher_with_random_rules_of_every_kind_matches_and_publishes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    if seed % 2:
        # Few documents take the roads of many: selections and bit vectors.
        monkeypatch.setattr(evaluate, "_FEW", 0)
    matcher = tamis.Matcher()
    rules: dict[int, tuple[Any, Logic]] = {}
    for id in range(60):
        text, logic = draw_rule(random), random.choice(LOGICS)
        rules[id] = tamis.parse(text), logic
        if id < 30:
            matcher.add(id, text, logic=logic)
    items = [(id, tamis.to_sql(rule), logic) for id, (rule, logic) in rules.items()]
    matcher.add_many(items[30:])
    documents: list[dict[str, Any]] = []
    for step in range(12):
        event = randoms.flat_event(random, EVERYTHING)
        expected = [
            id
            for id, (rule, logic) in rules.items()
            if tamis.evaluate(rule, event, logic, documents=documents)
        ]
        assert matcher.match(event) == expected
        assert matcher.match_many([event])["rule"].to_pylist() == expected
        assert matcher.publish(event) == expected
        documents.append(event)
        if step == 6:
            matcher.optimize()


def test_a_join_predicate_that_repeats_itself_disturbs_no_other_rule() -> None:
    matcher = tamis.Matcher()
    matcher.add("join", REPEATED)
    matcher.add("plain", "n = 1")
    assert matcher.publish({"n": 1, "s": "a"}) == ["plain"]
    assert matcher.publish({"n": 1, "s": "a"}) == ["join", "plain"]


@pytest.mark.parametrize(
    "condition",
    [
        "(d.at = '2026-01-01' OR d.at = '2026-01-01T00:00') AND d.n = n",
        "d.at IN ('2026-01-01', '2026-01-01T00:00', '2025-12-31T23:00-01:00')",
        "d.at BETWEEN '2026-01-01' AND '2026-01-01T00:00'",
    ],
)
def test_texts_that_a_schema_reads_as_the_same_time(condition: str) -> None:
    matcher = tamis.Matcher(schema={"at": "timestamp"})
    matcher.add("join", f"EXISTS (SELECT 1 FROM seen d WHERE {condition})")
    assert matcher.publish({"at": "2026-01-01", "n": 1}) == []
    assert matcher.publish({"at": "2026-01-02", "n": 1}) == ["join"]
