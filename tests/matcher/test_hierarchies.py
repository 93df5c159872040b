"""Hierarchies that a schema declares: a rule names any node, an event a leaf."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tamis

PLACES = {
    "Bonn": "NRW",
    "Köln": "NRW",
    "NRW": "Germany",
    "Berlin": "Germany",
    "Paris": "France",
    "Germany": "Europe",
    "France": "Europe",
}
SCHEMA: dict[str, Any] = {"city": PLACES, "date": "levels(year, month, day)"}


def is_below(value: str, node: str, name: str) -> bool:
    """Whether a value is a node or lies below it, by the definition."""
    if name == "date":
        return value == node or value.startswith(f"{node}/")
    above: str | None = value
    while above is not None and above != node:
        above = PLACES.get(above)
    return above == node


def test_a_rule_names_any_node() -> None:
    m = tamis.Matcher(schema=SCHEMA)
    m.add("germany", "city = 'Germany'")
    m.add("not nrw", "city <> 'NRW'")
    m.add("not nrw, weak", "city NOT IN ('NRW')", logic="weak")
    m.add("2008", "date IN ('2006/12', '2007', '2008', '2009/01')")
    m.add("not 2008", "date <> '2008'")
    assert m.match({"city": "Bonn"}) == ["germany"]
    assert m.match({"city": "Paris"}) == ["not nrw", "not nrw, weak"]
    assert m.match({"city": "NRW"}) == ["germany"]
    assert m.match({"city": ["Bonn", "Berlin"]}) == ["germany"]
    assert m.match({"city": "Atlantis"}) == ["not nrw", "not nrw, weak"]
    assert m.match({"date": "2008/2"}) == ["not nrw, weak", "2008"]
    assert m.match({"date": "2008"}) == ["not nrw, weak", "2008"]
    assert m.match({"date": "20081"}) == ["not nrw, weak", "not 2008"]
    assert m.match({"date": "2009/02/01"}) == ["not nrw, weak", "not 2008"]
    assert m.match({"date": "2009/01/31"}) == ["not nrw, weak", "2008", "not 2008"]


def test_other_operators_see_the_value_itself() -> None:
    m = tamis.Matcher(schema=SCHEMA)
    m.add("like", "city LIKE 'G%'")
    m.add("order", "date >= '2008/02'")
    m.add("any", "city IS NOT NULL")
    assert m.match({"city": "Bonn"}) == ["any"]
    assert m.match({"date": "2008/01/31"}) == []
    assert m.match({"date": "2008/02"}) == ["order"]


def test_explain_names_the_node_that_held() -> None:
    m = tamis.Matcher(schema=SCHEMA)
    m.add("r", "city IN ('Germany', 'France') AND date = '2008'")
    explained = m.explain("r", {"city": "Bonn", "date": "2008/02/14"})
    assert str(explained).splitlines() == [
        "✓ AND   [held]",
        "  ✓ city IN ('Germany', 'France')   [city = 'Bonn', in 'Germany': held]",
        "  ✓ date = '2008'   [date = '2008/02/14', in '2008': held]",
    ]
    assert explained.children[0].to_json()["nodes"] == ["Germany"]
    assert m.why({"city": "Bonn", "date": "2008"})["r"].held
    assert not m.explain("r", {"city": "Rome", "date": "2008"}).held
    assert "city IN ('Germany', 'France')   [city = 'Rome']" in str(
        m.why_not("r", {"city": "Rome", "date": "2008"})
    )


def test_unknown_nodes_are_refused_in_rules() -> None:
    m = tamis.Matcher(schema=SCHEMA)
    with pytest.raises(tamis.RuleError, match="'Germny' is not in the taxonomy of 'city'; did you"):
        m.add("r", "city = 'Germny'")
    with pytest.raises(tamis.RuleError, match="not in the taxonomy"):
        m.add("r", "city IN (5)")
    for text in ("date = '2008/02/14/12'", "date = '2008//14'", "date = 2008", "date = ''"):
        with pytest.raises(tamis.RuleError, match="has the levels year/month/day"):
            m.add("r", text)
    many = [(n, "city = 'Nowhere'" if n == 7 else "city = 'Bonn'") for n in range(40)]
    assert [bad.id for bad in m.add_many(many, on_error="skip").bad] == [7]
    with pytest.raises(tamis.SchemaError, match="declared as string"):
        m.match({"city": 3})


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "a cycle: a → b → c → a"),
        ({"x": "a", "a": "a"}, "a cycle: a → a"),
        ([("a", "b"), ("a", "c")], "two parents of 'a': 'b' and 'c'"),
        ([("a",)], "pairs of a child and its parent"),
        ({"a": 3}, "non-empty strings, not 3"),
        ("levels()", "levels that have no names"),
        ("levels(a, a)", "levels that have no names"),
        ("taxonomy(x)", "cannot be read"),
        ("levels(a", "or a hierarchy"),
        (3, "or a hierarchy"),
    ],
)
def test_malformed_hierarchies(declared: Any, message: str) -> None:
    with pytest.raises(tamis.SchemaError, match=message):
        tamis.Matcher(schema={"x": declared})


def test_pairs_and_tables_declare_the_same() -> None:
    pairs = [*PLACES.items(), ("Europe", None)]
    table = pa.table({"child": [a for a, _ in pairs], "parent": [b for _, b in pairs]})
    for declared in (PLACES, pairs, table):
        m = tamis.Matcher(schema={"city": declared})
        m.add("r", "city = 'Europe'")
        assert m.match({"city": "Bonn"}) == ["r"]


def test_weights_of_nodes() -> None:
    m = tamis.Matcher(schema=SCHEMA)
    weights = {("city", "Germany"): 2.0, ("city", "NRW"): 5.0, ("date", "2008"): 3.0}
    m.add("r", "city IN ('Germany', 'NRW') OR date = '2008'", weights=weights)
    assert m.top({"city": "Berlin"}) == [("r", 2.0)]
    assert m.top({"city": "Bonn"}) == [("r", 5.0)]
    assert m.top({"city": ["Berlin", "Bonn"]}) == [("r", 7.0)]
    assert m.top({"date": "2008/01"}) == [("r", 3.0)]
    assert m.top({"date": "2008"}) == [("r", 3.0)]
    assert m.top({"city": "Bonn"}, weights={("city", "Bonn"): 0.5}) == [("r", 2.5)]


def test_a_directory_keeps_hierarchies(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "rules", schema=SCHEMA) as m:
        m.add_many([(n, f"city = 'Germany' AND date = '{2000 + n}'") for n in range(40)])
        m.add("tail", "date = '2008/02'")
    with tamis.open(tmp_path / "rules", schema=SCHEMA) as m:
        assert m.match({"city": "Bonn", "date": "2008/02/14"}) == [8, "tail"]
        m.add("new", "city = 'France'")
    with tamis.open(tmp_path / "rules", read_only=True) as m:
        assert m.match({"city": "Paris"}) == ["new"]
    with pytest.raises(tamis.StorageError, match="its schema is"):
        tamis.open(tmp_path / "rules", schema={"city": {"Bonn": "Germany"}})


def test_lint_and_check_know_hierarchies() -> None:
    m = tamis.Matcher(schema=SCHEMA)
    m.add("germany", "city = 'Germany'")
    m.add("bonn", "city = 'Bonn'")
    m.add("feb", "date = '2008/02'")
    m.add("2008", "date = '2008'")
    assert [(f.kind, f.rule, f.other) for f in m.lint()] == [
        ("subsumed", "bonn", "germany"),
        ("subsumed", "feb", "2008"),
    ]
    report = m.check([{"city": "Bonn", "date": "2008"}])
    assert (report.findings, report.possible) == ([], 4)
    assert m.ratify(seconds=0.2, processes=1).differences == []


@pytest.mark.parametrize("engine", ["auto", "shared", "betree", "kindex", "scan"])
def test_all_engines_agree_with_the_definition(engine: str) -> None:
    random = Random(3)
    nodes = sorted({*PLACES, *PLACES.values()})
    dates = ["2007", "2008", "2008/02", "2008/02/14", "2008/12", "2009/01/01"]
    rules = []
    for number in range(60):
        name = random.choice(["city", "date"])
        some = random.sample(nodes if name == "city" else dates, random.randrange(1, 3))
        rules.append((number, name, some, random.random() < 0.3))
    m = tamis.Matcher(engine=engine, schema=SCHEMA)
    texts = [
        (number, f"{name} {'NOT ' * negated}IN ({', '.join(map(repr, some))})")
        for number, name, some, negated in rules
    ]
    m.add_many(texts[:40])
    for number, text in texts[40:]:
        m.add(number, text)
    events = [
        {
            "city": random.choice([*nodes, "Rome"]),
            "date": random.choice([*dates, "2008/1", "20081"]),
        }
        for _ in range(40)
    ]
    expected = [
        [
            number
            for number, name, some, negated in rules
            if any(is_below(event[name], node, name) for node in some) is not negated
        ]
        for event in events
    ]
    assert [m.match(event) for event in events] == expected
    lists = m.match_many(pa.Table.from_pylist(events), form="lists")["rules"].to_pylist()
    assert lists == expected
    assert m.match_many(events, form="lists")["rules"].to_pylist() == expected
