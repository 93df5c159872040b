"""Renumbered rules give the same answers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tamis.encode.events import EventEncoder
from tamis.encode.reorder import reorder_rules
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.registry import ENGINES, load_engine
from tamis.expr.event import flatten
from tamis.expr.model import LOGICS, Expr, predicates
from tamis.expr.weights import EventWeights, RuleWeights
from tests import randoms
from tests.encode.test_rule_forms import TENTHS, single_conjunctions
from tests.randoms import EVERYTHING


def encode(random: Random, rules: list[Expr], weigh: bool) -> EncodedRules:
    encoder = RuleEncoder()
    for rule in rules:
        others = [p.positive for p in predicates(rule) if p.op not in ("=", "IN")]
        weights = {p: random.random() for p in others if weigh}
        encoder.add(rule, random.choice(LOGICS), RuleWeights.of(weights, rule))
    return encoder.finish()


def check(
    engine: str, random: Random, rules: EncodedRules, events: list[dict[str, object]]
) -> None:
    rule_order = np.array(random.sample(range(rules.size), rules.size))
    conjunctions = len(rules.forms.conjunction_start) - 1
    conjunction_order = np.array(random.sample(range(conjunctions), conjunctions))
    if len(rules.forms.owner) == 0:
        conjunction_order = rule_order
    ours, theirs = (
        load_engine(engine)(rules),
        load_engine(engine)(reorder_rules(rules, rule_order, conjunction_order)),
    )
    encoder = EventEncoder(rules)
    for event in events:
        row = encoder.encode_weighted(flatten(event), EventWeights.of(TENTHS))
        found = rule_order[theirs.order[theirs.match(row).rule]].tolist()
        assert sorted(found) == sorted(ours.order[ours.match(row).rule].tolist())
        top, other = ours.top(row, 1_000), theirs.top(row, 1_000)
        rules_found = rule_order[theirs.order[other.rule]].tolist()
        scores = dict(zip(rules_found, other.score.tolist(), strict=True))
        assert scores == dict(zip(ours.order[top.rule].tolist(), top.score.tolist(), strict=True))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weigh", [False, True])
def test_random_rules(engine: str, weigh: bool) -> None:
    random = Random(41)
    rules = [randoms.rule(random, EVERYTHING, 3) for _ in range(80)]
    events = [randoms.event(random, EVERYTHING, several=0.4) for _ in range(20)]
    check(engine, random, encode(random, rules, weigh), events)


@pytest.mark.parametrize("engine", ENGINES)
def test_single_conjunctions(engine: str) -> None:
    random = Random(42)
    rules = encode(random, single_conjunctions(random, 60), weigh=False)
    assert len(rules.forms.owner) == 0
    check(engine, random, rules, [{f"a{i}": [1, 2] for i in range(12)}, {"a1": 1, "a2": 3}])


def test_owners_rise() -> None:
    encoder = RuleEncoder()
    for text in ("a = 1 OR b = 1", "a = 1", "b = 1", "a = 1 OR c = 1"):
        encoder.add_text(text, "strong")
    forms = reorder_rules(encoder.finish(), np.array([3, 1, 0, 2]), np.array([2, 0, 1])).forms
    owners = np.split(forms.owner, forms.owner_start[1:-1])
    assert [owner.tolist() for owner in owners] == [[0], [0, 1, 2], [2, 3]]
