"""Costly predicates are evaluated only for events that may need them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import tamis
from tamis.encode.events import EventEncoder
from tamis.encode.guards import Guards
from tamis.encode.rules import RuleEncoder
from tamis.encode.text_predicates import TextIndex
from tamis.expr.names import JOINED
from tests.encode.test_events import matcher_of

Row = dict[str, Any]

GUARDED = (
    "kind = 4688 AND image RLIKE 'power.*shell'",
    "kind IN (1, 3) AND NOT image LIKE '%x_y%'",
    "port BETWEEN 10 AND 20 AND image LIKE '%cmd%' AND user = 'root'",
)


SCHEMA = pa.schema(
    {"kind": pa.int64(), "port": pa.int64()} | {f"t{i}": pa.string() for i in range(3)}
)


def matched_values(rules: Sequence[str], rows: Sequence[Row], as_table: bool = False) -> list[str]:
    """The values that text predicates are matched with when these events are matched."""
    matcher = matcher_of(rules)
    matcher.optimize()
    seen: list[str] = []
    match = TextIndex.match

    def match_and_note(index: TextIndex, attribute: int, value: str) -> tuple[int, ...]:
        seen.append(value)
        return match(index, attribute, value)

    with patch.object(TextIndex, "match", match_and_note):
        if as_table:
            names = dict.fromkeys(name for row in rows for name in row)
            matcher.match_many(pa.table({name: [row.get(name) for row in rows] for name in names}))
        else:
            for row in rows:
                matcher.match_array(row)
    return seen


@pytest.mark.parametrize("as_table", [False, True])
def test_a_text_is_matched_only_if_a_guard_holds(as_table: bool) -> None:
    rows: list[Row] = [
        {"kind": 4688, "image": "first"},
        {"kind": 7, "image": "second"},
        {"kind": 3, "image": "third"},
        {"kind": 7, "port": 15, "image": "fourth", "user": "root"},
        {"kind": 7, "port": 9, "image": "fifth", "user": "anna"},
        {"kind": None, "port": None, "image": "sixth"},
    ]
    assert matched_values(GUARDED, rows, as_table) == ["first", "third", "fourth"]


@pytest.mark.parametrize("as_table", [False, True])
def test_a_rule_of_texts_only_always_needs_them(as_table: bool) -> None:
    rules = [*GUARDED, "image ILIKE '%b_d%' AND user <> 'root'"]
    rows: list[Row] = [{"kind": 7, "image": "any"}, {"image": "other"}]
    assert matched_values(rules, rows, as_table) == ["any", "other"]


def test_a_value_is_matched_once() -> None:
    rows = [
        {"kind": 1, "image": "same"},
        {"kind": 3, "image": "same"},
        {"kind": 7, "image": "same"},
    ]
    assert matched_values(GUARDED, rows) == ["same"]


def test_a_program_is_guarded_by_its_cover() -> None:
    texts = " AND ".join(f"(image LIKE '%a_{i}%' OR user LIKE '%b_{i}%')" for i in range(16))
    rows = [
        {"kind": 5, "image": "a-1", "user": "b-1"},
        {"kind": 6, "image": "a-2", "user": "b-2"},
    ]
    assert matched_values([f"kind = 5 AND {texts}"], rows) == ["a-1", "b-1"]
    assert matched_values([texts], rows) == ["a-1", "b-1", "a-2", "b-2"]


def test_a_score_may_need_a_text_that_the_match_does_not() -> None:
    """The conjunction with the text is implied by the other one, but adds to the score."""
    rule = "kind = 1 OR (kind = 1 AND image LIKE '%x_y%')"
    matcher = matcher_of([rule])
    matcher.optimize()
    event = {"kind": 1, "image": "x-y"}
    assert matcher.top(event) == [(0, tamis.score(tamis.parse(rule), event))]


def test_more_attributes_than_bits() -> None:
    rules = [f"kind = {i} AND a{i} LIKE '%x_y%'" for i in range(100)]
    matcher = matcher_of(rules)
    matcher.optimize()
    for i in (0, 62, 63, 64, 99):
        event = {"kind": i, **{f"a{j}": f"x-y{i}" for j in range(100)}}
        assert matcher.match(event) == [i]


def test_random_rules_agree_with_evaluate() -> None:
    random = Random(5)
    kinds = [
        "kind = {}",
        "kind BETWEEN {} AND 9",
        "kind NOT IN ({}, 2)",
        "port >= {}",
        "port IS NULL",
    ]
    texts = ["t{} LIKE '%a_%'", "NOT t{} RLIKE 'b+'", "t{} ILIKE '_A%'", "t{} LIKE '%b%'"]
    for logic in ("strong", "weak"):
        rules = []
        for _ in range(300):
            parts = [random.choice(kinds).format(random.randrange(9)) for _ in range(2)]
            parts += [random.choice(texts).format(random.randrange(3)) for _ in range(2)]
            random.shuffle(parts)
            joins = [random.choice((" AND ", " OR ")) for _ in range(3)]
            rules.append(
                f"({parts[0]}{joins[0]}{parts[1]}){joins[1]}({parts[2]}{joins[2]}{parts[3]})"
            )
        matcher = matcher_of(rules, logic)
        matcher.optimize()
        trees = [tamis.parse(rule) for rule in rules]
        rows: list[Row] = []
        for number in range(60):
            names = random.sample(["kind", "port", "t0", "t1", "t2"], random.randint(1, 5))
            rows.append({})
            for name in names:
                is_text = name.startswith("t")
                value = f"{random.choice('abc')}{number}b" if is_text else random.randrange(12)
                rows[-1][name] = value
        expected = [
            [i for i, tree in enumerate(trees) if tamis.evaluate(tree, row, logic=logic)]
            for row in rows
        ]
        assert [sorted(matcher.match(row)) for row in rows] == expected
        counts = matcher.count_many(pa.Table.from_pylist(rows, schema=SCHEMA))
        assert counts["matches"].to_pylist() == [len(found) for found in expected]
        best = [dict(matcher.top(row, 300)) for row in rows]
        assert [sorted(found) for found in best] == expected
        assert best[0] == {i: tamis.score(trees[i], rows[0], logic=logic) for i in expected[0]}


def test_guards_are_not_computed_before_they_are_needed() -> None:
    matcher = matcher_of(GUARDED)
    matcher.optimize()
    with patch.object(Guards, "rows_that_need", side_effect=AssertionError):
        assert matcher.match({"kind": 1}) == []
        with pytest.raises(AssertionError):
            matcher.match({"kind": 1, "image": "x"})


@pytest.mark.parametrize("is_program", [False, True])
def test_join_predicates_are_guarded_by_other_atoms(is_program: bool) -> None:
    join = "EXISTS (SELECT 1 FROM seen d WHERE d.price > price)"
    rest = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(16 if is_program else 1))
    encoder = RuleEncoder()
    encoder.add_text(f"kind = 5 AND {rest} AND {join}", "strong")
    rules = encoder.finish()
    assert (len(rules.forms.program_rule) > 0) is is_program
    number = next(n for name, n in rules.dictionary.attributes.items() if name.startswith(JOINED))
    guards, events = Guards(rules, [number], texts=False), EventEncoder(rules)
    assert list(guards.attributes_needed(events.encode({"kind": 5}))) == [number]
    assert list(guards.attributes_needed(events.encode({"kind": 6, "price": 1}))) == []
