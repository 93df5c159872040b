"""The road for rules of two levels: the same rules and errors as from the full parse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.scan import Scan
from tamis.errors import RuleError, RuleTooLargeError
from tamis.expr.evaluate import evaluate
from tamis.expr.model import LOGICS, MAX_NODES, Expr, Logic, Op, Predicate
from tamis.expr.text.bulk import BulkReader
from tamis.expr.text.grammar import parse
from tamis.expr.text.predicates import is_half_between, read_predicate
from tamis.expr.text.write import to_sql
from tests import randoms
from tests.randoms import EVERYTHING
from tests.strategies import expressions, predicates


def outcome(read: Any, text: str) -> tuple[object, ...] | None:
    """The error that `read` raises for `text`; None if there is none."""
    try:
        read(text)
    except RuleError as error:
        return (type(error), str(error), error.position)
    return None


def encode_texts(texts: Sequence[str], logic: Logic) -> EncodedRules:
    encoder = RuleEncoder()
    for text in texts:
        encoder.add_text(text, logic)
    return encoder.finish()


def encode_models(texts: Sequence[str], logic: Logic) -> EncodedRules:
    encoder = RuleEncoder()
    for text in texts:
        encoder.add(parse(text), logic)
    return encoder.finish()


AND_OF_ONE = -3
"""A single predicate may be encoded as an AND of one, which scores the same."""


def arrays(rules: EncodedRules) -> list[np.ndarray[Any, Any]]:
    code = rules.scores.code
    return [*rules.atoms, *rules.forms, code[code != AND_OF_ONE]]


def agree(*texts: str) -> None:
    """Compare `texts`, new and repeated, with the full parse."""
    twice = [*texts, *texts]
    for logic in LOGICS:
        fast, full = encode_texts(twice, logic), encode_models(twice, logic)
        assert fast.size == full.size
        assert fast.dictionary.attributes == full.dictionary.attributes
        for ours, theirs in zip(arrays(fast), arrays(full), strict=True):
            np.testing.assert_array_equal(ours, theirs)


# --- Equal to the full parse ------------------------------------------------------------


@given(st.lists(st.lists(predicates(wild=True), min_size=1, max_size=5), min_size=1, max_size=4))
def test_random_conjunctions(rules: list[list[Predicate]]) -> None:
    agree(*[" AND ".join(map(to_sql, rule)) for rule in rules])


@given(
    st.lists(
        st.lists(st.lists(predicates(wild=True), min_size=1, max_size=4), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_random_ors_of_conjunctions(rules: list[list[list[Predicate]]]) -> None:
    texts = [[" AND ".join(map(to_sql, part)) for part in rule] for rule in rules]
    agree(*[" OR ".join(f"({part})" for part in rule) for rule in texts])
    agree(*[" OR ".join(rule) for rule in texts])
    agree(*[" OR ".join([*(f"({part})" for part in rule), rule[0]]) for rule in texts])


@given(
    st.lists(
        st.lists(st.lists(predicates(wild=True), min_size=1, max_size=4), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 2**32),
)
def test_random_ands_of_ors(rules: list[list[list[Predicate]]], seed: int) -> None:
    random = Random(seed)
    for rule in rules:
        # As in rules that are written by copying.
        rule += [random.sample(part, random.randint(1, len(part))) for part in rule[1:]]
    texts = [[" OR ".join(map(to_sql, part)) for part in rule] for rule in rules]
    agree(*[" AND ".join(f"({part})" for part in rule) for rule in texts])
    agree(*[" AND ".join(f"({p})" if " OR " in p else p for p in rule) for rule in texts])


@pytest.mark.parametrize(("parts", "size"), [(4, 3), (5, 3), (3, 7), (128, 2), (64, 1), (65, 1)])
def test_ands_of_ors_within_and_past_the_budget(parts: int, size: int) -> None:
    agree(
        " AND ".join(
            f"({' OR '.join(f'a{part}_{i} = 1' for i in range(size))})" for part in range(parts)
        )
    )


@given(st.lists(expressions(), min_size=1, max_size=4), st.integers(0, 2**32))
def test_random_rules_find_the_same_events(rules: list[Expr], seed: int) -> None:
    random = Random(seed)
    texts = [to_sql(rule) for rule in rules] * 2
    texts += [" AND ".join(random.choices(texts, k=2))]
    events = [randoms.event(random, EVERYTHING) for _ in range(3)]
    events += [{"a": [1, "ab"], "b": 2, "age": 0.5, "state": "CA", "in": True}]
    for logic in LOGICS:
        found = encode_texts(texts, logic)
        matches = Scan(found).match(EventEncoder(found).encode_many(events))
        for i, event in enumerate(events):
            held = sorted(matches.rule[matches.start[i] : matches.start[i + 1]].tolist())
            assert held == [n for n, t in enumerate(texts) if evaluate(parse(t), event, logic)]


@pytest.mark.parametrize(
    "texts",
    [
        ("a = 1",),
        ("a = 1 AND b = 2", "b = 2 AND a = 1", "a = 1 AND c = 3"),
        ("s = 'x AND y' AND t = 'z'", "s = 'x' AND t = 'z'"),
        ("s = ' AND ' AND t = 1", "s = 'it''s AND b = 2'", "s = 'a' AND t = 'b AND c = ''d'"),
        ("x BETWEEN 1 AND 2", "x BETWEEN 1 AND 2 AND y = 3", "y = 3 AND x BETWEEN 1 AND 2"),
        ("x BETWEEN 1 AND 2 AND y BETWEEN 3 AND 4", "x NOT BETWEEN -1.5 AND 2e3 AND y = 1"),
        ("x BETWEEN 'a AND b' AND 'c'", "x BETWEEN 'a' AND 'b AND c' AND y = 1"),
        ('"0ad-data@v" = 1 AND `a b` = 2', '"a AND b" = 1', '"it\'s" = 1 AND `"` = 2'),
        ('"`a`" = 1 AND `"b"` = 2', '"\'a" = 1 AND c = 2'),
        ('"a""b" = 1 AND c = 2', '"in" = 1 AND "and" = 2', '"a.b" = 1 AND c = 2'),
        ("a.b = 1 AND c = 2", 'a."b c".`d` = 1 AND c = 2', "order.from = 1 AND c = 2"),
        ('a.b = 1 AND "a.b" = 2', "x > 3 AND x > 5", "x = 1 AND x = 1"),
        ("date = 1 AND timestamp = 2", "escape = 1 AND cast = 2", "a.and = 1 AND b = 2"),
        ("a IN (1, 'x AND y', -2.5) AND b NOT IN (1,2)", "a IS NULL AND b IS NOT NULL"),
        ("a LIKE 'x%' AND b NOT ILIKE '%y AND z%'", "a LIKE 'x!%' ESCAPE '!' AND b = 1"),
        ("a = 1 AND b = TRUE", "a = 1 AND TRUE", "a = 1 AND d = DATE '2020-01-31'"),
        ("a = 1 and b = 2", "a = 1  AND  b = 2", "a = 1\nAND b = 2", " a = 1 AND b = 2 "),
        ("a = 1 AND b = 2 OR c = 3", "c = 3 OR a = 1 AND b = 2", "a = 1 AND (b = 2 OR c = 3)"),
        ("(a = 1 AND b = 2) OR (a = 1 AND b = 2 AND c = 3)", "(a = 1 AND b = 2) OR a = 1"),
        ("(a = 1 AND b = 2) OR (b = 2 AND a = 1)", "(b = 2 AND c = 3) OR (a = 1)", "(a = 1)"),
        ("(a = 1) AND (b = 2)", "(a = 1 OR b = 2) AND c = 3", "((a = 1 AND b = 2) OR c = 3)"),
        ("s = 'x OR y' AND t = 1", "(s = ') OR (' AND t = 1) OR u = 2", "s = 'a'' OR b = ''c'"),
        ("(a IN (1, 2)) OR (b = 3 AND c NOT IN (4))", "(a BETWEEN 1 AND 2) OR (b = 3 AND c = 4)"),
        ("a = 1 OR b = 2 AND c = 3 OR d BETWEEN 1 AND 2 AND e = 1", "(a = 1) OR (a = 2)"),
        ("(a = 1 AND a = 2) OR (b = 1 AND c = 2)", "a = 1 OR a = 2 OR b = 3", "(a = 1 or b = 2)"),
        (
            "(a = 1 OR b = 2) AND (a = 1 OR c = 3)",
            "(a = 1 OR b = 2) AND a = 1 AND (b = 2 OR a = 1)",
        ),
        ("(a = 1 OR a = 1) AND b = 2", "(a = 1 OR a = 2) AND b = 2", "(a = 1 OR b = 2) AND a = 2"),
        (
            "(a = 1 OR b = 2) AND (a = 1 OR b = 2)",
            "(a = 1) AND (a = 1 OR b = 2)",
            "(a = 1 OR b = 2)",
        ),
        ("(x BETWEEN 1 AND 2 OR b = 2) AND c = 3", "x BETWEEN 1 AND 2 AND (b = 2 OR c = 3)"),
        ("(b = 2 OR x BETWEEN 1 AND 2) AND (x BETWEEN 1 AND 2 OR b NOT BETWEEN 3 AND 4)",),
        ("(s = ')' OR t = '(') AND u = 1", "(s = ' AND (' OR t = 1) AND (u = ' OR ' OR v = 1)"),
        ("(a IN (1, 2) OR b = 1) AND (c NOT IN (3) OR d = 1)", "(a = 1 OR b = 2) AND NOT c = 3"),
        (
            "((a = 1 OR b = 2)) AND c = 3",
            "(a = 1 OR b = 2 AND d = 1) AND c = 3",
            "(a = 1 OR TRUE) AND b = 1",
        ),
        ("a = 1 AND NOT b = 2", "NOT a = 1 AND b = 2", "NOT (a = 1 AND b = 2)"),
        ("a=1 AND b<>2 AND c!=3 AND d<=4 AND e>=5 AND f<6 AND g>7",),
        ("3 < a AND b = 1", "a = -5 AND b = - 5", "a = 1. AND b = .5", "a = 1e5 AND b = 007"),
        ("ä = 1 AND b = 'é'", "a = '🙂' AND b = '\\'"),
    ],
)
def test_texts_by_hand(texts: tuple[str, ...]) -> None:
    agree(*texts)


@pytest.mark.parametrize("length", [199, 200, 201, 255, 256, 257, 300, 513])
def test_long_conjunctions(length: int) -> None:
    """Engines count atoms in a byte, so longer conjunctions become programs on this road, too."""
    agree(" AND ".join(f"a{i} = 1" for i in range(length)))


# --- Errors are those of the full parse -------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        " AND ",
        "a = 1 AND ",
        " AND a = 1",
        "a = 1 AND AND b = 2",
        "a = 1 AND b",
        "a = 1 AND b =",
        "a = 1 AND in = 2",
        "null = 1 AND b = 2",
        "a = NULL AND b = 2",
        "a IN () AND b = 1",
        "a IN (1, NULL) AND b = 1",
        "x BETWEEN 1",
        "x BETWEEN 1 AND",
        "x BETWEEN 1 AND y = 2",
        "x BETWEEN 1 AND 2 AND",
        "y = 1 AND x BETWEEN 'a'",
        "a = 'x AND b = 'y'",
        'a = 1 AND "b = 2',
        "a = 18446744073709551616 AND b = 1",
        "a = 1 AND b = 1e999",
        "a = '\ud800' AND b = 1",
        '"\ud800" = 1 AND b = 1',
        '"" = 1 AND b = 1',
        "a LIKE 5 AND b = 1",
        "a RLIKE '(' AND b = 1",
        "lower(a) = 5 AND b = 1",
        "a = 1 AND b = 2 AND c == 3",
        "a = 1 AND b = 2)",
        "(a = 1 AND b = 2",
        " OR a = 1",
        "(a = 1 AND b = 2) OR ",
        "(a = 1 AND b = 2) OR (c = )",
        "(c = 1 AND d = 2) OR (e = 3",
        "(c = 1 AND d = 2) OR ()",
        "(x BETWEEN 1) AND (2 OR y = 1)",
        "(x BETWEEN 1 OR y = 1) AND 2",
        "(c = 1 OR d = 2) AND x BETWEEN 1",
        "(c = 1 OR d = 2) AND (e = 3 OR )",
        "(c = 1 OR d = 2) AND (e = 3 OR f = 4",
        "(c = 1 OR d = 2)) AND (e = 3",
        "(c = 1 OR d = 2) AND ",
        "(c = 'x OR y = 'z')",
        "a = 1 {# AND b = 2",
    ],
)
def test_malformed_texts(text: str) -> None:
    expected = outcome(parse, text)
    assert expected is not None
    encoder = RuleEncoder()
    good = "a = 1 AND b = 2"
    encoder.add_text(good, "strong")
    for _ in range(3):
        assert outcome(lambda text: encoder.add_text(text, "strong"), text) == expected
    encoder.add_text(good, "strong")
    rules = encoder.finish()
    assert rules.size == 2
    assert set(rules.dictionary.attributes) == {"a", "b"}, "a refused rule leaves no atoms"


EDITS = [*"'\"`.-() 0", "''", " AND ", "AND", " BETWEEN ", " OR ", "NOT ", "{#", "é"]


@given(
    st.lists(predicates(), min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(EDITS), st.integers(0, 3)), max_size=3),
    st.sampled_from(["{0}", "({0}) OR ({0} AND z = 1)", "({1}) AND ({1} OR z = 1) AND y = 1"]),
)
def test_mutated_texts(
    rule: list[Predicate], edits: list[tuple[float, str, int]], form: str
) -> None:
    parts = [to_sql(predicate) for predicate in rule]
    text = form.format(" AND ".join(parts), " OR ".join(parts))
    encoder = RuleEncoder()
    for where, piece, removed in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + removed :]
        expected = outcome(parse, text)
        assert outcome(lambda text: encoder.add_text(text, "weak"), text) == expected


def test_a_conjunction_of_too_many_nodes() -> None:
    text = " AND ".join([f"a{i} = 1" for i in range(MAX_NODES)])
    encoder = RuleEncoder()
    with pytest.raises(RuleTooLargeError, match="250,000 nodes"):
        encoder.add_text(text, "strong")
    assert not encoder.finish().dictionary.attributes, "a refused rule leaves no atoms"


# --- The road is taken ------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{0} AND {1}", "({0}) OR ({1})", "({0} OR {1}) AND c = 1"])
def test_a_predicate_is_read_once(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    read: Counter[str] = Counter()

    def read_and_count(piece: str) -> Predicate | None:
        predicate = read_predicate(piece)
        read[piece] += predicate is not None
        return predicate

    def refuse(text: str) -> Expr:
        raise AssertionError(f"parsed in full: {text}")

    monkeypatch.setattr("tamis.expr.text.two_levels.read_predicate", read_and_count)
    monkeypatch.setattr("tamis.expr.text.bulk.parse", refuse)
    random = Random(1)
    pool = [f"a{i} = {i}" for i in range(20)] + [f"b{i} BETWEEN {i} AND 50" for i in range(10)]
    encoder = RuleEncoder()
    for _ in range(500):
        encoder.add_text(form.format(*random.sample(pool, 2)), "strong")
    wanted = {*pool, "c = 1"} if "c = 1" in form else {*pool}
    assert +read == Counter(wanted)
    assert len(encoder.finish().atoms.table) == len(wanted)


@pytest.mark.parametrize(
    "piece",
    [
        "a = 1", "a=1", "a <> 'it''s'", "a != -1.5", "a <= 1e3", "a.b > 2", '"a b" < 3', "`a` >= 4",
        "a IN (1, 'x')", "a NOT IN (1,2)", "a BETWEEN 1 AND 2", "a NOT BETWEEN 'x' AND 'y'",
        "a LIKE 'x%'", "a NOT ILIKE '_y'", "a IS NULL", "a IS NOT NULL", "date = 1",
    ],
)  # fmt: skip
def test_single_predicates(piece: str) -> None:
    assert read_predicate(piece) == parse(piece)


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a = ", "= 1", "NOT a = 1", "(a = 1)", "a = 1 OR b = 2", "a = 1 AND b = 2", "TRUE",
        "in = 1", "not = 1", "a = NULL", "a = 1e999", "a = 18446744073709551616", "a IN ()",
        "1 = a", "a BETWEEN 1", "a = 'x", "a = 'x'y'", '"" = 1', "a = '\ud800'", "a RLIKE 'x'",
    ],
)  # fmt: skip
def test_texts_that_are_not_one_common_predicate(text: str) -> None:
    assert read_predicate(text) is None


def test_halves_of_between() -> None:
    assert is_half_between("a BETWEEN 1")
    assert is_half_between("a.b NOT BETWEEN 'it''s'")
    for text in ("a BETWEEN", "a BETWEEN 1 AND 2", "a = 1", "a BETWEEN 'x", "a BETWEEN x"):
        assert not is_half_between(text)


def test_a_predicate_keeps_its_logic() -> None:
    encoder = RuleEncoder()
    for logic in (*LOGICS, *LOGICS):
        encoder.add_text("a <> 1 AND b = 2", logic)
    rules = encoder.finish()
    assert len(rules.atoms.table) == 3
    matches = Scan(rules).match(EventEncoder(rules).encode({"b": 2}))
    assert matches.rule.tolist() == [1, 3]


def test_a_predicate_is_adapted() -> None:
    def rename(predicate: Predicate) -> Predicate:
        return Predicate("z", Op.EQ, (7,), predicate.negated)

    encoder = RuleEncoder(reader=BulkReader(rename))
    for _ in range(2):
        encoder.add_text("a <> 1", "strong")
    assert list(encoder.finish().dictionary.attributes) == ["z"]
