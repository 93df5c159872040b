"""Differences between an index and the language are found and reduced."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.engines.scan import Scan
from tamis.expr.evaluate import evaluate
from tests import randoms

RULES = {
    "adults": "age >= 18 AND (state = 'CA' OR state = 'NY')",
    "teens": "age BETWEEN 13 AND 19 AND state <> 'TX'",
    "names": "name LIKE 'A%' OR NOT name ILIKE '%b%'",
}


def matcher(rules: Any = RULES, **settings: Any) -> tamis.Matcher:
    made = tamis.Matcher(**settings)
    made.add_many(rules)
    made.optimize()
    return made


def test_a_sound_index_agrees() -> None:
    random = Random(4)
    rules = {n: randoms.rule(random, randoms.EVERYTHING, 3) for n in range(150)}
    found = matcher(rules).ratify(seconds=0, seed=1, processes=2)
    assert found.agrees
    assert (found.rules, found.events) == (150, 8)
    made, seconds = matcher(rules, logic="weak"), 2.0
    # A slow machine needs longer for more than the first events.
    while (longer := made.ratify(seconds=seconds, sample=100, processes=0)).events <= 8:
        seconds *= 2
    assert longer.agrees
    assert longer.rules == 100
    assert longer.matches > 100


def test_a_missed_rule_is_reported_with_a_minimal_event(monkeypatch: pytest.MonkeyPatch) -> None:
    made = matcher(engine="scan")
    honest = Scan.find_places

    def forgetful(self: Scan, event: Any, mask: Any = None) -> Any:
        places = honest(self, event, mask)
        return places[places != 0]

    monkeypatch.setattr(Scan, "find_places", forgetful)
    found = made.ratify(seconds=5, processes=0, limit=1)
    assert not found.agrees
    (difference,) = found.differences
    assert (difference.method, difference.found, difference.holds) == ("match", False, True)
    # In a matcher of its own, each rule is the first, so its parts are missed as well.
    assert difference.text.count("AND") == difference.text.count("OR") == 0
    assert len(difference.event) <= 2
    assert difference.rule in RULES
    assert "match does not find" in str(difference)
    assert difference.to_json()["holds"] is True


def test_a_false_match_in_a_batch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = matcher(engine="scan")
    honest = Scan.match

    def eager(self: Scan, events: Any, *others: Any) -> Any:
        found = honest(self, events, *others)
        count = len(found.start) - 1
        rules = np.tile(np.arange(len(self.order), dtype=np.int32), count)
        return found._replace(start=np.arange(count + 1) * len(self.order), rule=rules)

    monkeypatch.setattr(Scan, "match", eager)
    found = made.ratify(seconds=5, processes=0)
    assert found.differences
    for difference in found.differences:
        assert (difference.method, difference.found, difference.holds) == (
            "match_many",
            True,
            False,
        )
        assert not evaluate(tamis.parse(RULES[str(difference.rule)]), difference.event)


def test_limits_are_respected() -> None:
    assert tamis.Matcher().ratify(seconds=0).rules == 0
    seen: list[float] = []
    matcher().ratify(seconds=0.3, processes=0, watch=lambda events, part: seen.append(part))
    assert seen == sorted(seen)
    assert seen[-1] <= 1


def test_drawn_events_conform_to_the_schema() -> None:
    made = matcher(
        {"a": "when > '2024-01-01' AND n > 3", "b": "tags = 'x' AND tags = 'y'"},
        schema={"when": "timestamp", "n": "integer", "tags": "string[]"},
    )
    found = made.ratify(seconds=0.5, processes=0)
    assert found.agrees
    assert found.matches > 0


def test_a_rule_removed_meanwhile_is_not_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = matcher()
    asked = made.match_many

    def removing(events: Any, **options: Any) -> Any:
        if "teens" in made:
            made.remove("teens")
        return asked(events, **options)

    monkeypatch.setattr(made, "match_many", removing)
    assert made.ratify(seconds=1, processes=0).agrees
