"""Rules with join predicates in a matcher: publishing, all searches, the pre-filter."""

from __future__ import annotations

import threading
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis.expr.model import LOGICS
from tests.joins import random_joins

SAME = "EXISTS (SELECT 1 FROM seen d WHERE d.price = price)"


def test_example_5() -> None:
    """The paper's profiles, documents, document bit vectors and answer."""
    matcher = tamis.Matcher()
    texts = [
        "price < ANY (SELECT d.price FROM seen d)",
        "year > ALL (SELECT d.year FROM seen d)",
        "EXISTS (SELECT 1 FROM seen d WHERE d.author = author)",
    ]
    matcher.add_many([(f"P{i}", text) for i, text in enumerate(texts, 1)])
    matcher.documents.add({"price": 10, "year": 2000, "author": "Smith"})
    matcher.documents.add({"price": 25, "year": 1999})
    new = {"price": 30, "year": 2001, "author": "Smith"}
    vectors = ["".join("01"[bit] for bit in matcher.documents.bits(text, new)) for text in texts]
    assert vectors == ["00", "11", "10"]
    found = matcher.match(new)
    assert "".join("01"[f"P{i}" in found] for i in (1, 2, 3)) == "011"


def evaluated(matcher: tamis.Matcher, event: dict[str, Any]) -> tuple[list[Any], int]:
    """The matches, and how many join predicates were evaluated to find them."""
    before = matcher.documents.stats()["evaluated"]
    return matcher.match(event), matcher.documents.stats()["evaluated"] - before


@pytest.mark.parametrize(
    ("constant", "useless", "useful", "event", "evaluations"),
    [
        # A constraint of a single value replaces the join predicate: a document with it suffices.
        ("price = 10", 11, 10, 10, 0),
        ("price < 10", 10, 9, 9, 1),
        ("price BETWEEN 5 AND 10", 4, 7, 7, 1),
    ],
)
def test_examples_6_and_7(
    constant: str, useless: int, useful: int, event: int, evaluations: int
) -> None:
    """No join predicate is evaluated before a document comes that makes it possible."""
    matcher = tamis.Matcher()
    matcher.add("r", f"{constant} AND {SAME}")
    matcher.optimize()
    matcher.documents.add({"price": useless})
    assert evaluated(matcher, {"price": event}) == ([], 0)
    assert matcher.documents.stats()["ruled_out"] == 1
    id = matcher.documents.add({"price": useful})
    assert evaluated(matcher, {"price": event}) == (["r"], evaluations)
    matcher.documents.remove(id)
    assert evaluated(matcher, {"price": event}) == ([], 0)


def test_other_join_predicates_that_are_ruled_out() -> None:
    matcher = tamis.Matcher()
    matcher.add("missing", "EXISTS (SELECT 1 FROM seen d WHERE d.isbn = isbn)")
    matcher.add("constant", "EXISTS (SELECT 1 FROM seen d WHERE d.x > x AND d.year > 2000)")
    matcher.add("all", "z > 5 AND z < ALL (SELECT d.z FROM seen d)")
    matcher.optimize()
    matcher.documents.add({"x": 5, "year": 1999, "z": 5})
    event = {"isbn": "1", "x": 1, "z": 6}
    assert evaluated(matcher, event) == ([], 0)
    matcher.documents.clear()
    matcher.documents.add({"x": 5, "year": 2001, "isbn": "1", "z": 9})
    assert evaluated(matcher, event) == (["missing", "constant", "all"], 3)


def test_several_values_are_never_ruled_out() -> None:
    """One may satisfy the constant and another the join predicate."""
    matcher = tamis.Matcher()
    matcher.add("r", f"price < 10 AND {SAME}")
    matcher.optimize()
    matcher.documents.add({"price": 50})
    assert matcher.match({"price": [5, 50]}) == ["r"]
    assert matcher.match({"price": 50}) == []


def test_negated_or_unconstrained_join_predicates_are_not_ruled_out() -> None:
    matcher = tamis.Matcher()
    matcher.documents.add({"price": 50})
    matcher.add("low", f"price < 10 AND {SAME}")
    matcher.optimize()
    assert matcher.match({"price": 50}) == []
    matcher.add("other", f"price > 40 AND NOT {SAME}")
    assert matcher.match({"price": 45}) == ["other"]
    assert matcher.match({"price": 50}) == []
    matcher.add("free", f"a = 1 OR {SAME}")
    for _ in range(2):
        assert matcher.match({"price": 50}) == ["free"]
        matcher.optimize()


def test_constants_come_first_if_joins_are_many_or_costly() -> None:
    """The join predicates of rules whose constants fail are not evaluated."""
    matcher = tamis.Matcher()
    rules = [
        (i, f"topic = {i} AND EXISTS (SELECT 1 FROM seen d WHERE d.a = a AND d.b > {i})")
        for i in range(40)
    ]
    matcher.add_many(rules)
    matcher.documents.add_many([{"a": 1, "b": b} for b in range(30)])
    for topic in range(40):
        found, count = evaluated(matcher, {"topic": topic, "a": 1})
        assert found == ([topic] if topic < 29 else [])
        assert count <= 1
    assert matcher.documents.stats()["spared"] >= 40 * 39


@pytest.mark.parametrize("seed", range(3))
def test_all_searches_agree_with_the_reference(seed: int) -> None:
    random = Random(seed)
    matcher = tamis.Matcher(engine=("tiles", "scan", "tiles")[seed])
    rules: dict[str, Any] = {}
    for number in range(90):
        text, logic = random_joins.rule(random)[0], random.choice(LOGICS)
        rules[f"r{number}"] = tamis.parse(text), logic
    items = [(id, tamis.to_sql(rule), logic) for id, (rule, logic) in rules.items()]
    matcher.add_many(items[:60])
    matcher.add_many(items[60:75])
    for id, text, logic in items[75:]:
        matcher.add(id, text, logic=logic)
    documents: list[dict[str, Any]] = []
    events = [random_joins.document(random) for _ in range(25)]

    def expected(event: dict[str, Any]) -> list[str]:
        return [
            id
            for id, (rule, logic) in rules.items()
            if tamis.evaluate(rule, event, logic, documents=documents)
        ]

    for step, event in enumerate(events):
        answer = expected(event)
        assert matcher.match(event) == answer
        assert sorted(matcher.match_array(event)) == sorted(answer)
        assert {id for id, _ in matcher.top(event, n=1000)} == set(answer)
        assert list(matcher.why(event)) == answer
        assert all(matcher.explain(id, event).held is (id in answer) for id in list(rules)[::9])
        assert matcher.publish(event) == answer
        documents.append(event)
        if step == 12:
            matcher.optimize()
    answers = [expected(event) for event in events]
    pairs = [(row, id) for row, found in enumerate(answers) for id in found]
    columns = {name: [event.get(name) for event in events] for name in "nmxsb"}
    for many in (events, pa.table(columns)):
        found = matcher.match_many(many)
        rows = zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True)
        assert list(rows) == pairs
        counts = matcher.count_many(many)["matches"].to_pylist()
        assert counts == [len(answer) for answer in answers]
        tops = matcher.top_many(many, n=1000)
        assert sorted(
            zip(tops["event"].to_pylist(), tops["rule"].to_pylist(), strict=True)
        ) == sorted(pairs)


def test_text_predicates_beside_a_join_predicate() -> None:
    matcher = tamis.Matcher()
    matcher.add("r", f"name LIKE '%x%' AND {SAME}")
    matcher.optimize()
    matcher.documents.add({"price": 1})
    event = {"price": 1, "name": "axb"}
    for _ in range(130):
        assert matcher.match(event) == ["r"]
    assert matcher.match_many(pa.table({"price": [1], "name": ["axb"]})).num_rows == 1


def test_arrow_columns_of_all_shapes() -> None:
    matcher = tamis.Matcher()
    matcher.add("r", "EXISTS (SELECT 1 FROM seen d WHERE d.user.id = user.id)")
    matcher.documents.add({"user": {"id": 7}})
    nested = pa.table({"user": [{"id": 7}, {"id": 8}, None], "other": [1, 2, 3]})
    assert matcher.match_many(nested)["event"].to_pylist() == [0]
    flat = pa.table({"user.id": [8, 7, None]})
    assert matcher.match_many(flat)["event"].to_pylist() == [1]
    assert matcher.attributes() == {"user.id"}


def test_a_schema_reads_documents_and_their_constants() -> None:
    matcher = tamis.Matcher(schema={"at": "timestamp", "x": "integer"})
    matcher.add("r", "EXISTS (SELECT 1 FROM seen d WHERE d.at >= '2026-01-01' AND d.x < x)")
    assert matcher.publish({"at": "2026-02-01", "x": 1}) == []
    assert matcher.publish({"at": "2025-02-01", "x": 2}) == ["r"]
    assert matcher.documents[0]["at"] == datetime.fromisoformat("2026-02-01T00:00+00:00")
    with pytest.raises(tamis.SchemaError):
        matcher.publish({"x": "a"})
    assert len(matcher.documents) == 2
    with pytest.raises(tamis.RuleError, match="not an ISO date"):
        matcher.add("s", "EXISTS (SELECT 1 FROM seen d WHERE d.at >= 'soon')")


def test_explanations_show_the_predicate() -> None:
    matcher = tamis.Matcher()
    matcher.add("r", f"a = 1 AND {SAME} AND price < ALL (SELECT d.price FROM seen d)")
    matcher.documents.add({})
    shown = str(matcher.explain("r", {"a": 1, "price": 3}))
    assert f"✗ {SAME}   [did not hold]" in shown
    assert "? price < ALL (SELECT d.price FROM seen d)   [unknown]" in shown
    assert "\x02" not in shown + str(matcher.why_not("r", {"a": 1}))


def test_match_remembers_nothing() -> None:
    matcher = tamis.Matcher()
    matcher.add("r", "EXISTS (SELECT 1 FROM seen d)")
    assert matcher.match({}) == []
    assert matcher.match_many([{}, {}]).num_rows == 0
    assert matcher.publish({}, id="first") == []
    assert matcher.match({}) == ["r"]
    assert list(matcher.documents) == ["first"]
    assert matcher.stats()["documents"] == 1


def test_rules_without_joins_may_publish_too() -> None:
    matcher = tamis.Matcher(documents=tamis.Retention(count=1))
    matcher.add("r", "x > 1")
    assert matcher.publish({"x": 2}) == ["r"]
    assert matcher.publish({"x": 3}, only=["other"]) == []
    assert [matcher.documents[id] for id in matcher.documents] == [{"x": 3}]


def test_join_predicates_can_be_switched_off() -> None:
    matcher = tamis.Matcher(documents=False)
    matcher.add("r", "x > 1")
    with pytest.raises(tamis.RuleError, match="needs the documents seen before"):
        matcher.add("s", f"x > 1 AND {SAME}")
    with pytest.raises(tamis.RuleError, match="needs the documents seen before"):
        matcher.add("s", "x = ANY (SELECT d.x FROM seen d)")
    rules = [(f"t{i}", f"x = {i} OR NOT {SAME}") for i in range(20)]
    report = matcher.add_many([*rules, ("u", "y = 1")], on_error="skip")
    assert report.added == 1
    assert len(report.bad) == 20


def test_concurrent_publishers_see_each_other() -> None:
    """Of several equal events exactly one is the first."""
    matcher = tamis.Matcher()
    matcher.add("new", "x <> ALL (SELECT d.x FROM seen d)")
    found: list[int] = []

    def publish() -> None:
        found.extend([x for x in range(200) if matcher.publish({"x": x})])

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(200))
