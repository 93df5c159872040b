"""Semantic versions: the order that https://semver.org gives as its example, and GrowthBook's."""

from __future__ import annotations

from itertools import combinations

import pytest

import tamis
from tamis.expr.functions.semver import semver_key

ORDERED = [
    "0",
    "0.0.9",
    "1.0.0-0",
    "1.0.0-9",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
    "100000000000000000000.0.0",
]


def test_the_order() -> None:
    for lower, upper in combinations(ORDERED, 2):
        assert semver_key(lower) < semver_key(upper), (lower, upper)


@pytest.mark.parametrize("other", ["v1.2.3", "1.2.3+build.5", "01.2.3", "1-2-3"])
def test_parts_that_are_ignored(other: str) -> None:
    assert semver_key(other) == semver_key("1.2.3")


def test_rules_on_semantic_versions() -> None:
    rule = tamis.parse("semver(app) >= '1.0.0-rc.1' AND semver(app) < '2.0.0'")
    assert tamis.parse(tamis.to_sql(rule)) == rule
    matcher = tamis.Matcher(engine="scan")
    matcher.add("r", rule)
    found = [
        matcher.match({"app": app}) for app in ("1.0.0-beta", "v1.0.0-rc.1", "1.9.9", 1, "2.0.0")
    ]
    assert found == [[], ["r"], ["r"], [], []]
    with pytest.raises(tamis.RuleError, match="semantic version"):
        tamis.parse("semver(app) = 3")
