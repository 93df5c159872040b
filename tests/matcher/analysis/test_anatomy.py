"""What an index is made of."""

from __future__ import annotations

import tamis
from tamis.workloads import begen


def test_figures_add_up() -> None:
    matcher = tamis.Matcher()
    matcher.add_many(begen.Workload(size=500, match_probability=0.01).rules_table())
    matcher.optimize()
    matcher.add("wide", " OR ".join(f"(x = {n} AND y > {n})" for n in range(5)))
    matcher.remove_many(list(matcher)[:100])
    found = matcher.anatomy()
    assert found.rules == len(matcher) == 401
    assert found.tail in (0, 1)  # The background may have built a segment from it.
    assert [figures.rules for figures in found.segments] == [500, 1]
    assert [figures.removed for figures in found.segments] == [100, 0]
    assert found.bytes == sum(figures.bytes for figures in found.segments)
    assert found.bytes >= sum(size for _, size in found.parts) > 0
    conjunctions = sum(figures.conjunctions for figures in found.segments)
    assert sum(count for _, count in found.conjunction_sizes) == conjunctions
    assert found.largest[0].rule == "wide"
    assert "5 conjunctions" in found.largest[0].reason
    assert [line.split()[2] for line in found.advice] == ["merge", "drop"]
    matcher.optimize()
    assert matcher.anatomy().advice == []


def test_an_empty_index() -> None:
    found = tamis.Matcher().anatomy()
    assert (found.rules, found.segments, found.attributes, found.largest) == (0, (), [], [])


def test_attributes_are_counted_once_for_each_conjunction() -> None:
    matcher = tamis.Matcher()
    matcher.add_many(
        {
            "twice": "a > 1 AND b = 2 AND a < 9",
            "either": "(a > 1 AND a < 9) OR (b = 2 AND a = 3)",
            "other": "c = 1 AND b = 7",
        }
    )
    uses = {use.attribute: use.conjunctions for use in matcher.uses()}
    assert uses == {"a": 3, "b": 3, "c": 1}
