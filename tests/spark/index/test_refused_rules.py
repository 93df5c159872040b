"""Building refuses bad tables, and puts bad rules into quarantine."""

from __future__ import annotations

from pathlib import Path

import pytest

import tamis
from tamis import DuplicateRuleError, RuleError, RuleSyntaxError, StorageError
from tamis import spark as ts
from tests.spark.indexes import read_quarantine, read_texts

RULES = "id string, rule string"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index"


# --- Found before any job runs ---


def test_missing_columns_are_named(spark, path: Path) -> None:
    table = spark.createDataFrame([("a", "x = 1")], "key string, text string")
    with pytest.raises(
        RuleError, match=r"rules has no column 'id'; it has key, text; name it with id="
    ):
        ts.build(table, path)
    with pytest.raises(RuleError, match="no column 'rule'"):
        ts.build(table, path, id="key")
    with pytest.raises(RuleError, match=r"no column 'weak'.* pass default_logic='weak'"):
        ts.build(table, path, id="key", rule="text", logic="weak")
    assert not path.exists()


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        ("id double, rule string", {}, "'id' .* double; id has to be a string or an integer"),
        ("id string, rule int", {}, "'rule' .* int; rule has to be a string"),
        ("id string, rule struct<x:int>", {}, r"struct<x:int>; .* to_json\(\)"),
        ("id string, rule string, l int", {"logic": "l"}, "'l' .* int; logic has to be a string"),
        ("id string, rule string, t string", {"tags": "t"}, "an array of strings"),
        ("id string, rule string, t array<int>", {"tags": "t"}, "an array of strings"),
        ("id string, rule string, w map<string,double>", {"weights": "w"}, "a string"),
    ],
)
def test_columns_of_a_wrong_type_are_named(
    spark, path: Path, columns: str, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(RuleError, match=message):
        ts.build(spark.createDataFrame([], columns), path, **arguments)  # type: ignore[arg-type]
    assert not path.exists()


# --- Found by the job ---


def test_null_ids_are_refused(spark, path: Path) -> None:
    before = ts.build(spark.createDataFrame([("a", "x = 1")], RULES), path)
    rows = [("a", "x = 1"), (None, "y = 2"), (None, "y = 2")]
    with pytest.raises(RuleError, match=r"'id' is null in 2 rows, for example .* rule 'y = 2'"):
        ts.build(spark.createDataFrame(rows, RULES), path)
    assert ts.versions(path) == [before]


def test_duplicate_ids_are_refused(spark, path: Path) -> None:
    rows = [*((f"r{i}", f"x = {i}") for i in range(30)), ("r7", "x = 70"), ("r9", "x = 90")]
    with pytest.raises(DuplicateRuleError, match="4 rows share an id with another") as caught:
        ts.build(spark.createDataFrame(rows, "key string, rule string"), path, id="key", shards=3)
    assert "the column 'key'" in str(caught.value)
    assert caught.value.rule_id in ("r7", "r9")
    number = str(caught.value.rule_id)[1:]
    assert f"'x = {number}'" in str(caught.value)
    assert f"'x = {number}0'" in str(caught.value)
    with pytest.raises(StorageError, match="no version is published"):
        ts.current(path)


BAD = {
    "no value": "x =",
    "pattern": "name RLIKE '('",
    "null": None,
    "json": '{"attr": "x", "is": 1}',
    "no json": '{"attr": ',
    "type": "seen > 'soon'",
}


def test_refused_rules_go_to_quarantine(spark, path: Path) -> None:
    good = {f"r{i}": f"x = {i}" for i in range(20)}
    table = spark.createDataFrame([*good.items(), *BAD.items()], RULES)
    version = ts.build(table, path, shards=2, schema={"seen": "timestamp"})
    assert read_texts(version) == good
    found = read_quarantine(version)
    assert {id: rule for id, rule, _, _ in found} == BAD
    assert version.bad == len(BAD)
    # Position and message are those of `tamis.parse`.
    with pytest.raises(RuleSyntaxError) as caught:
        tamis.parse("x =")
    position, message = next(row[2:] for row in found if row[0] == "no value")
    assert (position, message) == (caught.value.position, caught.value.message)
    messages = {id: message for id, _, _, message in found}
    assert messages["null"] == "the rule is null"
    assert "malformed JSON" in messages["no json"]
    assert "unknown key 'is'" in messages["json"]
    assert "'seen'" in messages["type"]


def test_plain_texts_are_refused_like_any_rule(spark, path: Path) -> None:
    """Tables without JSON go to the matcher as columns."""
    rows = [("a", "x = 1"), ("b", "x ="), ("c", "x = 1 AND AND y = 2"), ("d", "")]
    version = ts.build(spark.createDataFrame(rows, RULES), path)
    assert read_texts(version) == {"a": "x = 1"}
    assert [row[:2] for row in read_quarantine(version)] == rows[1:]


def test_bad_logic_weights_and_payloads_are_refused(spark, path: Path) -> None:
    rows = [
        ("a", "x = 1", "fuzzy", None, None),
        ("b", "x = 1", None, "[1]", None),
        ("c", "x = 1", None, "[", None),
        ("d", "x = 1", None, None, "{"),
        ("e", "x = 1", "weak", "[]", "null"),
    ]
    columns = f"{RULES}, l string, w string, p string"
    version = ts.build(
        spark.createDataFrame(rows, columns), path, logic="l", weights="w", payload="p"
    )
    assert read_texts(version) == {"e": "x = 1"}
    messages = {id: message for id, _, _, message in read_quarantine(version)}
    assert "fuzzy" in messages["a"]
    assert "a weight is" in messages["b"]
    assert "the weights are not JSON" in messages["c"]
    assert "the payload is not JSON" in messages["d"]


def test_raise_publishes_nothing(spark, path: Path) -> None:
    before = ts.build(spark.createDataFrame([("a", "x = 1")], RULES), path)
    table = spark.createDataFrame([("a", "x = 1"), ("b", "x = = 2")], RULES)
    with pytest.raises(RuleSyntaxError) as caught:
        ts.build(table, path, on_error="raise")
    assert (caught.value.rule_id, caught.value.text) == ("b", "x = = 2")
    with pytest.raises(RuleSyntaxError) as alone:
        tamis.parse("x = = 2")
    assert caught.value.position == alone.value.position
    with pytest.raises(RuleError, match=r"rule 'j': .*unknown key"):
        ts.build(spark.createDataFrame([("j", BAD["json"])], RULES), path, on_error="raise")
    assert ts.versions(path) == [before]
    assert len(list((path / "versions").iterdir())) == 1


# --- How many may be refused ---


def test_an_index_without_a_single_rule_is_not_published(spark, path: Path) -> None:
    bad = spark.createDataFrame([("a", "x ="), ("b", "= 1")], RULES)
    with pytest.raises(
        RuleError, match=r"2 of 2 rules are refused, so nothing is published; .*'a'"
    ):
        ts.build(bad, path)
    with pytest.raises(StorageError):
        ts.current(path)
    assert ts.build(bad, path, max_bad=1.0).bad == 2
    assert ts.build(spark.createDataFrame([], RULES), path).rules == 0


def test_a_number_or_a_share_of_refused_rules(spark, path: Path) -> None:
    table = spark.createDataFrame([("a", "x ="), ("b", "x = 1"), ("c", "x = 2")], RULES)
    for allowed in (0, 0.3):
        with pytest.raises(RuleError, match=f"1 of 3 rules .*max_bad={allowed} allows fewer"):
            ts.build(table, path, max_bad=allowed)
    assert ts.build(table, path, max_bad=1).number == 1
    changes = spark.createDataFrame([("d", "x =")], RULES)
    with pytest.raises(RuleError, match="2 of 4 rules"):
        ts.update(path, changes, delete=None, max_bad=1)
    assert ts.current(path).number == 1
    assert ts.update(path, changes, delete=None, max_bad=0.5).bad == 2


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "1"])
def test_max_bad_is_checked(spark, path: Path, wrong: object) -> None:
    table = spark.createDataFrame([("a", "x = 1")], RULES)
    with pytest.raises(ValueError, match="max_bad is a number of rules, or a share"):
        ts.build(table, path, max_bad=wrong)  # type: ignore[arg-type]
