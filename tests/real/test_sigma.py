"""2,815 real detection rules on 9,917 real Windows events: exactly the known hits.

The rules consist of text patterns, some 45,000, and the largest is equivalent to 4×10¹⁰
conjunctions.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

import tamis
from tamis.expr.model import Expr
from tamis.files.matching import Query, match_file
from tests.real.neutral import (
    UNSUPPORTED,
    build_sigma_rule,
    convert_sigma_event,
    group_by_event,
    list_operators,
    read_lines,
)
from tests.roads import count_roads, set_thresholds
from tests.thorough import share


class Sigma(NamedTuple):
    rules: dict[str, Expr]
    events: list[dict[str, list[str]]]
    hits: dict[int, set[str]]
    """The rules that each event matches; events without matches are left out."""


@pytest.fixture(scope="module")
def sigma(shared_data: Path) -> Sigma:
    with gzip.open(shared_data / "sigma_windows_rules.json.gz", "rt", encoding="utf-8") as file:
        corpus = json.load(file)
    rules = {
        r["id"]: build_sigma_rule(r["ast"])
        for r in corpus
        if not list_operators(r["ast"]) & UNSUPPORTED
    }
    events = map(convert_sigma_event, read_lines(shared_data / "windows_events.jsonl.gz"))
    hits = dict(read_lines(shared_data / "windows_hits.jsonl.gz"))
    known = {event: rules.keys() & found for event, found in hits.items()}
    return Sigma(rules, list(events), {event: found for event, found in known.items() if found})


def test_nearly_all_rules_are_supported(sigma: Sigma) -> None:
    assert len(sigma.rules) == 2_815
    assert sum(map(len, sigma.hits.values())) > 900


@pytest.mark.parametrize("engine", tamis.engines())
def test_every_event_raises_exactly_the_known_alerts(sigma: Sigma, engine: str) -> None:
    alerting = set().union(*sigma.hits.values())
    others = sorted(sigma.rules.keys() - alerting)
    chosen = alerting.union(others[:: share(engine, 1, 6)])
    matcher = tamis.Matcher(engine=engine, logic="weak")
    matcher.add_many({id: sigma.rules[id] for id in sorted(chosen)})
    found = group_by_event(matcher.match_many(sigma.events))
    assert {event: sorted(rules) for event, rules in found.items()} == {
        event: sorted(rules) for event, rules in sigma.hits.items()
    }


def test_texts_of_json_raise_exactly_the_known_alerts(sigma: Sigma, tmp_path: Path) -> None:
    """As a column, as bytes and as a file of lines; functions make Python read attributes."""
    alerting = set().union(*sigma.hits.values())
    others = sorted(sigma.rules.keys() - alerting)
    matcher = tamis.Matcher(logic="weak")
    matcher.add_many({id: sigma.rules[id] for id in sorted(alerting.union(others[::6]))})
    matcher.add("never", "length(EventID) > 99 OR length(Image) > 9999")
    matcher.optimize()
    texts = [json.dumps(event) for event in sigma.events]
    with set_thresholds("low", "encode.json"), count_roads() as taken:
        for column in (pa.array(texts), pa.array(texts, pa.binary())):
            found = group_by_event(matcher.match_many(column))
            assert {event: set(rules) for event, rules in found.items()} == sigma.hits
        path = tmp_path / "events.jsonl"
        path.write_text("".join(f"{text}\n" for text in texts))
        found = {}
        for part in match_file(matcher, str(path), Query()):
            for event, rules in group_by_event(part.table).items():
                found[int(part.keys[event])] = rules
        assert {event: set(rules) for event, rules in found.items()} == sigma.hits
    assert taken["JSON by kernels"]
    assert taken["JSON, captured"]


def test_direct_evaluation_agrees(sigma: Sigma) -> None:
    """Every rule that raises an alert, on every tenth event that raises one."""
    alerting = set().union(*sigma.hits.values())
    for event in list(sigma.hits)[::10]:
        for name in alerting:
            held = tamis.evaluate(sigma.rules[name], sigma.events[event], "weak")
            assert held == (name in sigma.hits[event])


def test_rules_are_the_same_after_writing_and_parsing(sigma: Sigma) -> None:
    for rule in sigma.rules.values():
        assert tamis.parse(tamis.to_sql(rule)) == rule
