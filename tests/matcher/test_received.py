"""Rules of subscriptions: which receive what is published, and refer to it by FROM received."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis.expr.joins.received import mentions_received
from tamis.files.rule_reader import load_rules
from tamis.files.rule_writer import save_rules

AGAIN = "user = ANY (SELECT d.user FROM received d)"


def test_a_rule_sees_what_its_own_subscription_received() -> None:
    m = tamis.Matcher()
    m.add("ann again", AGAIN, subscription="ann")
    m.add("bob again", AGAIN, subscription="bob")
    m.add("ann large", "size > 10", subscription="ann")
    m.add("bob red", "colour = 'red'", subscription="bob")
    m.add("seen", "user = ANY (SELECT d.user FROM seen d)")
    assert m.publish({"user": 1, "size": 20}) == ["ann large"]
    assert m.publish({"user": 1, "colour": "red"}) == ["ann again", "bob red", "seen"]
    assert m.publish({"user": 1}) == ["ann again", "bob again", "seen"]
    assert m.publish({"user": 2}) == []
    assert [sorted(m.documents.received_by(id)) for id in m.documents] == [
        ["ann"],
        ["ann", "bob"],
        ["ann", "bob"],
        [],
    ]
    assert m.documents[0] == {"user": 1, "size": 20}


def test_without_a_subscription_it_is_refused() -> None:
    m = tamis.Matcher()
    with pytest.raises(tamis.RuleError, match="subscription='…', or write FROM seen"):
        m.add("a", AGAIN)
    many = [(number, AGAIN) for number in range(40)]
    assert len(m.add_many(many, on_error="skip").bad) == 40
    with pytest.raises(tamis.RuleError, match="subscription"):
        m.add("a", tamis.parse(AGAIN))
    with pytest.raises(tamis.RuleError, match="subscription"):
        tamis.evaluate(AGAIN, {"user": 1})
    assert len(m) == 0
    assert tamis.evaluate(AGAIN, {"user": 1}, documents=[{"user": 1}], received=[]) is False
    assert tamis.evaluate(AGAIN, {"user": 1}, received=[{"user": 1}]) is True


@pytest.mark.parametrize("name", ["", 5, b"x", "\ud800"])
def test_bad_names_are_refused(name: Any) -> None:
    m = tamis.Matcher()
    with pytest.raises(tamis.RuleError, match="subscription's name"):
        m.add("a", "x = 1", subscription=name)
    with pytest.raises(tamis.EventError, match="subscription's name"):
        m.publish({"x": 1}, received_by=[name])
    with pytest.raises(tamis.EventError, match="list of names"):
        m.publish({"x": 1}, received_by="ann")
    assert len(m.documents) == 0


def test_the_caller_says_who_received_an_event() -> None:
    m = tamis.Matcher()
    m.add("ann", AGAIN, subscription="ann")
    m.add("bob", AGAIN, subscription="bob")
    m.add("large", "size > 10", subscription="ann")
    m.publish({"user": 1, "size": 20}, received_by=["bob"])
    assert m.match({"user": 1}) == ["bob"]
    m.publish({"user": 2, "size": 20}, received_by=lambda found: found - {"ann"})
    assert m.match({"user": 2}) == []
    m.documents.add({"user": 3}, received_by=["ann"])
    assert m.match({"user": 3}) == ["ann"]


def test_a_model_cannot_name_the_receivers() -> None:
    m = tamis.Matcher()
    m.add("a", AGAIN, subscription="ann")
    bound = tamis.Rule("b", AGAIN, subscription="ann").bound_expr
    with pytest.raises(tamis.RuleError, match="FROM received"):
        m.add("c", bound)
    with pytest.raises(tamis.RuleError, match="control character"):
        m.add("c", "EXISTS (SELECT 1 FROM seen d WHERE d.\"\x03received by\" = 'ann')")
    with pytest.raises(tamis.EventError, match="control character"):
        m.publish({"\x03received by": "ann"})


@pytest.mark.parametrize("form", ["objects", "mappings", "arrow"])
def test_every_form_of_a_rule_has_its_subscription(form: str) -> None:
    fields: list[dict[str, Any]] = [
        {
            "id": number,
            "rule": f"x = {number}",
            "subscription": f"s{number % 3}" if number else None,
        }
        for number in range(40)
    ]
    m = tamis.Matcher()
    if form == "objects":
        m.add_many([tamis.Rule(f["id"], f["rule"], subscription=f["subscription"]) for f in fields])
    else:
        m.add_many(fields if form == "mappings" else pa.Table.from_pylist(fields))
    m.add("late", "x = 1", subscription="late")
    assert [m.rule(f["id"]).subscription for f in fields] == [f["subscription"] for f in fields]
    assert m.subscriptions() == {"s0", "s1", "s2", "late"}
    m.optimize()
    m.remove("late")
    assert m.rule(5).subscription == "s2"
    assert m.subscriptions() == {"s0", "s1", "s2"}
    m.publish({"x": [0, 4, 5]})
    assert m.documents.received_by(0) == {"s1", "s2"}


def test_files_keep_subscriptions(tmp_path: Path) -> None:
    m = tamis.Matcher()
    m.add("a", AGAIN, subscription="ann", weights=None, tags=["t"])
    m.add("b", "x = 1")
    save_rules(m, str(tmp_path / "rules.jsonl"))
    (tmp_path / "rules.csv").write_text(f"id,rule,subscription\na,{AGAIN},ann\nb,x = 1,\n")
    for name in ("rules.jsonl", "rules.csv"):
        n = tamis.Matcher()
        load_rules(n, str(tmp_path / name))
        assert [(id, n.rule(id).subscription) for id in n] == [("a", "ann"), ("b", None)]


def test_a_directory_keeps_subscriptions_and_receivers(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "rules") as m:
        m.add("again", AGAIN, subscription="ann")
        m.add("large", "size > 10", subscription="ann")
        m.publish({"user": 1, "size": 20})
    with tamis.open(tmp_path / "rules") as m:
        m.add("more", AGAIN, subscription="bob")  # in the log only
        assert m.match({"user": 1}) == ["again"]
        reader = tamis.open(tmp_path / "rules", read_only=True)
        assert (reader.rule("more").subscription, reader.rule("again").subscription) == (
            "bob",
            "ann",
        )
        assert reader.match({"user": 1}) == ["again"]
        reader.close()
        m.publish({"user": 2}, received_by=["bob"])
    with tamis.open(tmp_path / "rules") as m:
        assert m.match({"user": 2}) == ["more"]
        assert m.documents.received_by(1) == {"bob"}


def test_explanations_and_lint_follow_the_subscription() -> None:
    m = tamis.Matcher()
    m.add("ann", f"x > 0 AND {AGAIN}", subscription="ann")
    m.add("bob", f"x > 0 AND {AGAIN}", subscription="bob")
    m.add("bob too", f"x > 0 AND {AGAIN}", subscription="bob")
    m.add("wide", "x > 0", subscription="carl")
    m.publish({"user": 1}, received_by=["ann"])
    assert m.explain("ann", {"user": 1, "x": 1}).held
    assert not m.explain("bob", {"user": 1, "x": 1}).held
    assert str(m.explain("bob", {"user": 1, "x": 1}).children[1].text) == AGAIN
    assert "FROM received d" in str(m.why_not("bob", {"user": 1, "x": 1}))
    assert [(f.rule, f.other) for f in m.lint()] == [("bob too", "bob")]


def test_texts_that_only_look_like_it_are_plain_rules() -> None:
    m = tamis.Matcher()
    m.add("a", "received = 1 AND note = 'FROM received'")
    assert mentions_received("received = 1")
    assert m.match({"received": 1, "note": "FROM received"}) == ["a"]


@pytest.mark.parametrize("seed", range(3))
def test_random_subscriptions_agree_with_evaluate(seed: int) -> None:
    random = Random(seed)
    names = ["ann", "bob", "carl"]
    texts = [
        AGAIN,
        "x < ALL (SELECT d.x FROM received d)",
        "EXISTS (SELECT 1 FROM received d WHERE d.user = user AND d.x > x)",
        "NOT EXISTS (SELECT 1 FROM received d WHERE d.x > 3)",
        "x > 3 AND EXISTS (SELECT 1 FROM seen d WHERE d.user = user)",
        "x > 5 OR user = 1",
    ]
    rules = [
        tamis.Rule(number, random.choice(texts), random.choice(["strong", "weak"]),
                   subscription=random.choice(names))
        for number in range(30)
    ]  # fmt: skip
    m = tamis.Matcher()
    m.add_many(rules[:20])
    for rule in rules[20:]:
        m.add_many([rule])
    seen: list[dict[str, int]] = []
    received: dict[str, list[dict[str, int]]] = {name: [] for name in names}
    for _ in range(25):
        event = {n: random.randrange(8) for n in ("user", "x") if random.random() < 0.9}
        expected = [
            rule.id
            for rule in rules
            if tamis.evaluate(
                rule.expr,
                event,
                rule.logic,
                documents=seen,
                received=received[str(rule.subscription)],
            )
        ]
        assert m.match_many([event])["rule"].to_pylist() == expected
        assert m.publish(event) == expected
        seen.append(event)
        for name in {str(m.rule(id).subscription) for id in expected}:
            received[name].append(event)
