"""What the demo's report tells about alerts, from a few flights."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from tamis.demo.flights import load_flights
from tamis.demo.telling import (
    count_kinds,
    count_weeks,
    explain_flight,
    find_overlaps,
    measure_costs,
)

RULES = {"late-1": "dep_delay > 10", "late-2": "dep_delay > 12", "far-3": "distance > 2000"}


def test_weeks_kinds_overlaps_and_an_example(tmp_path: Path) -> None:
    flights = load_flights(12_000)
    matcher = tamis.Matcher()
    matcher.add_many(RULES)
    found = matcher.match_many(flights)
    events, rules = found["event"].to_numpy(), found["rule"].to_pylist()
    pq.write_table(pa.table({"event_id": events, "rule": rules}), tmp_path / "matches.parquet")
    alerts = {rule: rules.count(rule) for rule in RULES}
    weeks = count_weeks(tmp_path, "event_id", flights)
    assert weeks[0][0] == "week of 2013-01-01"
    assert sum(count for _, count in weeks) == len(rules)
    assert count_kinds(alerts) == {
        "late": (2, alerts["late-1"] + alerts["late-2"]),
        "far": (1, alerts["far-3"]),
    }
    overlap = find_overlaps(tmp_path, "event_id", alerts)[0]
    assert set(overlap.rules) == {"late-1", "late-2"}
    assert overlap.shared == alerts["late-2"]
    assert overlap.share == alerts["late-2"] / alerts["late-1"]
    flight = flights.slice(int(events[0]), 1).to_pylist()[0]
    example = explain_flight(matcher, flight)
    assert example is not None
    assert "raised the most alerts" in example.title
    assert "held" in example.text
    assert explain_flight(tamis.Matcher(), flight) is None
    costs = measure_costs(matcher, flights)
    assert (costs.rules, costs.measured) == (3, 3)
    assert costs.microseconds > 0
    assert costs.typical > 0
