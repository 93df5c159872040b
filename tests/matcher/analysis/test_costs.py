"""What searches cost, measured."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import tamis
from tamis.expr.event import Event
from tamis.matcher.analysis import costs

PEOPLE = [{"age": age, "name": "abcabc" * 20, "country": "FR"} for age in range(20)]


def test_rules_that_compute_stand_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_MOST_RULES", 40)
    monkeypatch.setattr(costs, "_GROUP", 8)
    monkeypatch.setattr(costs, "_SLOWEST_GROUPS", 2)
    matcher = tamis.Matcher()
    matcher.add_many({n: f"age = {n} AND country = 'FR'" for n in range(500)})
    matcher.add(
        "slow", " OR ".join(f"lower(name) LIKE '%x{n}%' AND length(name) > {n}" for n in range(9))
    )
    found = matcher.costs(PEOPLE)
    assert (found.rules, found.measured, found.events) == (501, 40, 20)
    assert found.slowest[0].rule == "slow"
    assert found.slowest[0].microseconds > found.typical > 0
    assert sum(part.rules for part in found.parts) == 501


def test_what_merging_gains_is_measured_on_a_copy() -> None:
    matcher = tamis.Matcher()
    for start in range(3):
        matcher.add_many({f"{start}-{n}": f"age = {n} AND x > {start}" for n in range(300)})
    found = matcher.costs(PEOPLE)
    if len(found.parts) > 1:
        assert found.merged is not None
        assert found.merged > 0
    assert "optimize()" in found.advice[0]
    matcher.optimize()
    found = matcher.costs(PEOPLE)
    assert [part.name for part in found.parts] == ["segment 1"]
    assert found.merged is None
    assert "nothing" in found.advice[0]


def test_rules_alone_do_not_have_the_default_engine_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of what the demo compiles were kernels for indexes of a few rules."""
    engines: list[str] = []
    measure = costs.CostMeter.measure

    def note_engine(meter: costs.CostMeter, events: Iterable[Event]) -> costs.Costs:
        engines.append(meter._fresh().stats()["engine"])
        return measure(meter, events)

    monkeypatch.setattr(costs.CostMeter, "measure", note_engine)
    matcher = tamis.Matcher()
    matcher.add("adults", "age >= 18")
    assert matcher.costs(PEOPLE).measured == 1
    assert engines == ["scan"]


def test_the_words_say_what_was_measured() -> None:
    parts = (costs.PartCost("segment 1", 90, 80.0), costs.PartCost("tail", 10, 20.0))
    assert "75% less" in costs._advise(100.0, parts, 25.0)[0]
    assert "gain nothing" in costs._advise(100.0, parts, 99.0)[0]
    assert "segment 1 with 90 rules takes 80 µs" in costs._advise(100.0, parts, None)[0]


def test_events_are_drawn_where_there_are_none() -> None:
    matcher = tamis.Matcher()
    assert matcher.costs().events == 0
    matcher.add("adults", "age >= 18")
    found = matcher.costs(seed=1)
    assert found.events == 64
    assert found.microseconds > 0
