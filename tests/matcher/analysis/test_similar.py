"""Rules that match nearly the same events."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tamis

RULES = {
    "adults": "age >= 18 AND state IN ('CA', 'NY')",
    "almost": "age >= 19 AND state IN ('CA', 'NY')",
    "some": "age >= 18 AND state = 'CA'",
    "other": "price < 3",
    "same": "state IN ('NY', 'CA') AND NOT age < 18",
    "opposite": "age < 10",
}
SINGLE = {"age": "integer", "state": "string", "price": "double"}


@pytest.fixture
def made() -> tamis.Matcher:
    matcher = tamis.Matcher(schema=SINGLE)
    matcher.add_many(RULES)
    return matcher


def test_equivalent_rules_come_first(made: tamis.Matcher) -> None:
    found = made.similar("adults", 3)
    assert [one.id for one in found][:2] == ["same", "almost"]
    same, almost = found[:2]
    assert same.implied
    assert same.implies
    assert same.similarity == same.share == same.share_back == 1
    assert almost.implies
    assert not almost.implied
    assert 0 < almost.similarity < 1
    assert "opposite" not in [one.id for one in made.similar("adults")]


def test_the_given_rule_need_not_be_in_the_matcher(made: tamis.Matcher) -> None:
    assert made.similar("price < 3 AND color = 'red'")[0].id == "other"
    assert made.similar(tamis.parse("price < 2"))[0].id == "other"
    assert made.similar("age > 3 AND age < 2") == []
    assert made.similar("age > 3", 0) == []
    with pytest.raises(tamis.UnknownRuleError):
        made.similar(7)
    with pytest.raises(tamis.RuleSyntaxError):
        made.similar("no rule")


def test_shares_are_counted_on_given_events(made: tamis.Matcher) -> None:
    events = [{"age": age, "state": state} for age in range(15, 25) for state in ("CA", "NY")]
    for given in (events, pa.Table.from_pylist(events)):
        found = {one.id: one for one in made.similar("adults", events=given)}
        assert set(found) == {"same", "almost", "some"}
        assert found["almost"].similarity == pytest.approx(12 / 14)
        assert found["almost"].share == pytest.approx(12 / 14)
        assert found["almost"].share_back == 1
        assert found["some"].similarity == pytest.approx(0.5)
        assert found["same"].similarity == 1
    assert made.similar("adults", events=[]) == []


def test_a_seed_makes_answers_repeatable(made: tamis.Matcher) -> None:
    assert made.similar("adults", seed=5) == made.similar("adults", seed=5)
