"""Shared by the contract suite: random events, and what a matcher must answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import tamis
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import flatten
from tamis.expr.model import Expr, Logic
from tests import randoms

RuleId = str | int
Event = dict[str, Any]


class Rule(NamedTuple):
    expr: Expr
    logic: Logic


def random_events(random: Random, among: Sequence[randoms.Attribute], count: int) -> list[Event]:
    """Events with few and with many values for each attribute, and empty ones."""
    shares = (0, 0.3, 0.9)
    filled = [randoms.event(random, among, several=shares[i % 3]) for i in range(count)]
    return [*filled, {}, {"in no rule": 1}]


def find_expected(rules: dict[Any, Rule], events: Iterable[Event]) -> list[list[RuleId]]:
    """Find matching rules by `evaluate`; each event is flattened once for all rules."""
    return [
        [i for i, rule in rules.items() if evaluate_flat(rule.expr, flat, rule.logic) is True]
        for flat in map(flatten, events)
    ]


def check(matcher: tamis.Matcher, events: list[Event], expected: list[list[RuleId]]) -> None:
    """Check that all ways to match find what is expected, lists in the order of addition."""
    for event, ids in zip(events, expected, strict=True):
        assert matcher.match(event) == ids
        assert Counter(matcher.match_array(event).tolist()) == Counter(ids)
    found = group_by_event(matcher.match_many(events), len(events))
    assert list(map(Counter, found)) == list(map(Counter, expected))
    counts = matcher.count_many(events)
    assert counts["event"].to_pylist() == list(range(len(events)))
    assert counts["matches"].to_pylist() == [len(ids) for ids in expected]


def group_by_event(found: pa.Table, size: int) -> list[list[RuleId]]:
    rules: list[list[RuleId]] = [[] for _ in range(size)]
    for event, rule in zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True):
        rules[event].append(rule)
    return rules


def check_table(found: pa.Table, expected: list[list[Any]]) -> None:
    """Check a table of events and rules, in which the rules of an event come in any order."""
    event, rule = found["event"].to_numpy(), found["rule"].to_numpy()
    order = np.lexsort((rule, event))
    rules = [id for ids in expected for id in sorted(ids)]
    assert np.array_equal(event[order], np.repeat(range(len(expected)), list(map(len, expected))))
    assert np.array_equal(rule[order], rules)
