"""2,815 real detection rules on 9,917 real Windows events: exactly the known hits.

The rules are text through and through (some 45,000 patterns), and the largest of them stands
for 4×10¹⁰ conjunctions.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pytest

import tamis
from tamis.expr.model import Expr
from tests.real.neutral import (
    UNSUPPORTED,
    operators,
    read_lines,
    rules_by_event,
    sigma_event,
    sigma_rule,
)
from tests.thorough import share


class Sigma(NamedTuple):
    rules: dict[str, Expr]
    events: list[dict[str, list[str]]]
    hits: dict[int, set[str]]
    """By event, the rules it matches; only events that match any."""


@pytest.fixture(scope="module")
def sigma(shared_data: Path) -> Sigma:
    with gzip.open(shared_data / "sigma_windows_rules.json.gz", "rt", encoding="utf-8") as file:
        corpus = json.load(file)
    rules = {r["id"]: sigma_rule(r["ast"]) for r in corpus if not operators(r["ast"]) & UNSUPPORTED}
    events = map(sigma_event, read_lines(shared_data / "windows_events.jsonl.gz"))
    hits = dict(read_lines(shared_data / "windows_hits.jsonl.gz"))
    known = {event: rules.keys() & found for event, found in hits.items()}
    return Sigma(rules, list(events), {event: found for event, found in known.items() if found})


def test_hardly_a_rule_is_left_out(sigma: Sigma) -> None:
    assert len(sigma.rules) == 2_815
    assert sum(map(len, sigma.hits.values())) > 900


@pytest.mark.parametrize("engine", tamis.engines())
def test_every_event_raises_exactly_the_known_alerts(sigma: Sigma, engine: str) -> None:
    alerting = set().union(*sigma.hits.values())
    others = sorted(sigma.rules.keys() - alerting)
    asked = alerting.union(others[:: share(engine, 1, 6)])
    matcher = tamis.Matcher(engine=engine, logic="weak")
    matcher.add_many({id: sigma.rules[id] for id in sorted(asked)})
    found = rules_by_event(matcher.match_many(sigma.events))
    assert {event: sorted(rules) for event, rules in found.items()} == {
        event: sorted(rules) for event, rules in sigma.hits.items()
    }


def test_the_reference_agrees(sigma: Sigma) -> None:
    """Every rule that raises an alert at all, on every tenth event that raises one."""
    alerting = set().union(*sigma.hits.values())
    for event in list(sigma.hits)[::10]:
        for name in alerting:
            held = tamis.evaluate(sigma.rules[name], sigma.events[event], "weak")
            assert held == (name in sigma.hits[event])


def test_the_rules_survive_their_text(sigma: Sigma) -> None:
    for rule in sigma.rules.values():
        assert tamis.parse(tamis.to_sql(rule)) == rule
