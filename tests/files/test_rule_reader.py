"""Rules from files: their fields, and rules that are invalid."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import tamis
from tamis.files import (
    load_rule,
    load_rules,
    read_events,
)
from tests.files.samples import (
    load_matcher,
    write,
)


def test_a_rule_keeps_all_fields_of_its_line(tmp_path: Path) -> None:
    line = {
        "id": 7,
        "rule": {"or": [{"attr": "author", "=": "Smith"}, {"attr": "price", ">": 10}]},
        "logic": "weak",
        "weights": [["author", "Smith", 2.0], ["price > 10", 0.5]],
        "payload": {"owner": ["me"]},
        "tags": ["gold"],
        "comment": "not of interest",
    }
    matcher = load_matcher(write(tmp_path / "rules.jsonl", [line]))
    rule = matcher.rule(7)
    assert str(rule) == "author = 'Smith' OR price > 10"
    assert rule.logic == "weak"
    assert rule.payload == {"owner": ["me"]}
    assert rule.tags == {"gold"}
    assert matcher.top({"author": "Smith", "price": 1}) == [(7, 2.0)]
    assert matcher.top({"author": "Jones", "price": 11}) == [(7, 0.5)]


def test_a_weight_can_be_for_a_timestamp(tmp_path: Path) -> None:
    stamp = {"timestamp": "2020-01-02T00:00:00Z"}
    line = {"id": 1, "rule": {"attr": "day", "=": stamp}, "weights": [["day", stamp, 3]]}
    matcher = load_matcher(write(tmp_path / "rules.jsonl", [line]))
    assert matcher.top({"day": date(2020, 1, 2)}) == [(1, 3.0)]


def test_tags_come_from_parquet_too(tmp_path: Path) -> None:
    rules = [{"id": 1, "rule": "TRUE", "tags": ["a", "b"]}, {"id": 2, "rule": "TRUE", "tags": None}]
    matcher = load_matcher(write(tmp_path / "rules.parquet", rules))
    assert matcher.match({}, only=tamis.tagged("b")) == [1]


def test_ids_in_csv_are_texts_and_rules_can_be_long(tmp_path: Path) -> None:
    long = "x IN (" + ", ".join(map(str, range(50_000))) + ")"
    path = write(
        tmp_path / "rules.csv", [{"id": "007", "rule": long}, {"id": "7", "rule": "a\n=1"}]
    )
    assert list(load_matcher(path)) == ["007", "7"]


def test_the_default_logic_applies_to_rules_that_name_none(tmp_path: Path) -> None:
    rules = [{"id": 1, "rule": "a <> 1", "logic": "strong"}, {"id": 2, "rule": "a <> 1"}]
    for name in ("rules.jsonl", "rules.csv", "rules.parquet"):
        matcher = load_matcher(write(tmp_path / name, rules), logic="weak")
        assert [str(id) for id in matcher.match({})] == ["2"]


BAD_RULES = {
    "no id": ({"rule": "TRUE"}, "the rule has no 'id'"),
    "no rule": ({"id": 1}, "the rule has no 'rule'"),
    "null id": ({"id": None, "rule": "TRUE"}, "the rule has no 'id'"),
    "id of a wrong type": ({"id": 1.5, "rule": "TRUE"}, "id is a string or an integer"),
    "large id": ({"id": 2**63, "rule": "TRUE"}, "64 bits"),
    "rule of a wrong type": ({"id": 1, "rule": 5}, "rule 1: a rule is a text"),
    "wrong JSON form": ({"id": 1, "rule": {"attr": "a", "~": 1}}, "rule 1: "),
    "unknown logic": ({"id": 1, "rule": "TRUE", "logic": "fuzzy"}, "unknown logic 'fuzzy'"),
    "logic of a wrong type": ({"id": 1, "rule": "TRUE", "logic": 3}, "unknown logic 3"),
    "tags of a wrong type": ({"id": 1, "rule": "TRUE", "tags": "gold"}, "tags are a list"),
    "tag of a wrong type": ({"id": 1, "rule": "TRUE", "tags": [5]}, "a tag is a string"),
    "weights of a wrong type": ({"id": 1, "rule": "a = 1", "weights": {"a": 1}}, "weights are a"),
    "weight of a wrong form": ({"id": 1, "rule": "a = 1", "weights": [["a"]]}, r"\[attribute, val"),
    "idle weight": ({"id": 1, "rule": "a = 1", "weights": [["a", 2, 1.0]]}, "no effect"),
    "negative weight": ({"id": 1, "rule": "a = 1", "weights": [["a", 1, -1]]}, "negative"),
    "weight of a wrong type": ({"id": 1, "rule": "a = 1", "weights": [["a", 1, "x"]]}, "a number"),
    "weighed twice": (
        {"id": 1, "rule": "a = 1", "weights": [["a", 1, 1], ["a", 1, 2]]},
        "has two weights",
    ),
    "taken id": ({"id": "first", "rule": "TRUE"}, "rule 'first': the id is taken by line 1"),
    "unparsable": ({"id": 1, "rule": "a = "}, r"rule 1: .*\(at character"),
    "unknown function": ({"id": 1, "rule": "foo(a) = 1"}, "foo"),
    "NULL": ({"id": 1, "rule": "a = NULL"}, "IS NULL"),
    "large number": ({"id": 1, "rule": "a = 99999999999999999999"}, "too large"),
    "deep": ({"id": 1, "rule": "(" * 10_000 + "a = 1" + ")" * 10_000}, "nested"),
    "pattern": ({"id": 1, "rule": "a RLIKE '('"}, "invalid pattern"),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_an_invalid_rule_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    line, message = BAD_RULES[case]
    path = write(tmp_path / "rules.jsonl", [{"id": "first", "rule": "TRUE"}, line])
    matcher = tamis.Matcher()
    with pytest.raises(tamis.InputFileError, match=message) as caught:
        load_rules(matcher, path)
    assert (caught.value.path, caught.value.line) == (path, 2)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, tamis.RuleError)
    assert len(matcher) == 0


@pytest.mark.parametrize("case", BAD_RULES)
def test_an_invalid_rule_can_be_skipped(case: str, tmp_path: Path) -> None:
    line, message = BAD_RULES[case]
    lines = [{"id": "first", "rule": "TRUE"}, line, {"id": "last", "rule": "FALSE"}]
    matcher = tamis.Matcher()
    report = load_rules(matcher, write(tmp_path / "rules.jsonl", lines), skip_bad=True)
    assert list(matcher) == ["first", "last"]
    (bad,) = report.bad
    assert bad.line == 2
    with pytest.raises(tamis.InputFileError, match=message):
        raise bad


def test_a_bad_row_of_a_table_is_named(tmp_path: Path) -> None:
    rules = [{"id": "a", "rule": "TRUE"}, {"id": "b", "rule": "x = "}]
    with pytest.raises(tamis.InputFileError, match="row 2: rule 'b'"):
        load_rules(tamis.Matcher(), write(tmp_path / "rules.parquet", rules))
    with pytest.raises(tamis.InputFileError, match="rule 'b'") as caught:
        load_rules(tamis.Matcher(), write(tmp_path / "rules.csv", rules))
    assert caught.value.line == 3


@pytest.mark.parametrize("name", ["rules.csv", "rules.parquet"])
def test_a_table_without_a_column_of_rules_is_refused(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, [{"id": "a", "text": "TRUE"}])
    with pytest.raises(tamis.InputFileError, match="no column 'rule'; it has id, text"):
        load_rules(tamis.Matcher(), path)


def test_an_unclosed_quote_in_csv_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    path.write_text('id,rule\n1,"a = 1\n')
    with pytest.raises(tamis.InputFileError, match="malformed CSV"):
        load_rules(tamis.Matcher(), str(path))


def test_one_rule_is_loaded_even_if_others_are_invalid(tmp_path: Path) -> None:
    lines = [{"id": 1, "rule": "a = "}, {"id": 2, "rule": "a = 1"}, {"id": 3, "rule": "b ="}]
    path = write(tmp_path / "rules.jsonl", lines)
    matcher = tamis.Matcher()
    assert load_rule(matcher, path, "2").id == 2
    assert matcher.match({"a": 1}) == [2]
    with pytest.raises(tamis.InputFileError, match="rule 3") as caught:
        load_rule(matcher, path, "3")
    assert caught.value.line == 3
    with pytest.raises(tamis.UnknownRuleError, match=r"rules\.jsonl: there is no rule '4'"):
        load_rule(matcher, path, "4")


def test_a_path_is_as_good_as_its_text(tmp_path: Path) -> None:
    rules, events = tmp_path / "rules.jsonl", tmp_path / "events.jsonl"
    rules.write_text('{"id": "teens", "rule": "age BETWEEN 13 AND 19"}\n')
    events.write_text('{"age": 15}\n')
    matcher = tamis.Matcher()
    assert [rule.id for rule in load_rules(matcher, rules).rules] == ["teens"]
    assert len(load_rules(tamis.Matcher(), [rules]).rules) == 1
    (batch,) = read_events(events)
    assert matcher.match_many(batch.events)["rule"].to_pylist() == ["teens"]
