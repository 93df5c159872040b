"""Keys, counts, matrices and overlaps of matches, in frames, SQL and pipelines."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import tamis
import tamis.pandas  # registers df.tamis
import tamis.polars
from tamis import results
from tamis.duckdb import register
from tamis.sklearn import RuleTransformer

EVENTS = [{"name": n, "age": a} for n, a in (("ann", 5), ("bob", 20), ("cid", 70))]


@pytest.fixture
def matcher() -> tamis.Matcher:
    m = tamis.Matcher()
    m.add("adults", "age >= 18")
    m.add("seniors", "age >= 65")
    m.add("never", "age < 0")
    return m


def draw(seed: int, mixed: bool) -> tuple[tamis.Matcher, list[dict[str, int]]]:
    choose = random.Random(seed)
    m = tamis.Matcher()
    for n in range(30):
        m.add(n if mixed and n % 2 else f"r{n}", f"a >= {choose.randrange(9)} AND b < {n % 7}")
    return m, [{"a": choose.randrange(10), "b": choose.randrange(8)} for _ in range(50)]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("form", ["pairs", "lists"])
def test_counts_and_matrices_agree_with_matching_one_by_one(form: Any, mixed: bool) -> None:
    m, events = draw(1, mixed)
    one_by_one = [m.match(event) for event in events]
    found = m.match_many(events, form=form)
    matrix, rules = results.build_matrix(found, len(events), list(m))
    assert rules == list(m)
    assert matrix.dtype == np.bool_
    for row, ids in zip(matrix.toarray(), one_by_one, strict=True):
        assert [id for id, holds in zip(rules, row, strict=True) if holds] == ids
    counts = results.count_by_rule(found, list(m)).to_pydict()
    expected = Counter(id for ids in one_by_one for id in ids)
    assert len(counts["rule"]) == 30
    assert sorted(counts["matches"]) == sorted(expected[id] for id in m)
    assert counts["matches"] == sorted(counts["matches"], reverse=True)
    overlaps = results.find_overlaps(found, len(events), 5).to_pylist()
    sets = {str(id): {n for n, ids in enumerate(one_by_one) if id in ids} for id in m}
    for one in overlaps:
        left, right = sets[str(one["rule"])], sets[str(one["other"])]
        assert one["both"] == len(left & right)
        assert one["share"] == pytest.approx(len(left & right) / len(left | right))


def test_no_matches_give_empty_results(matcher: tamis.Matcher) -> None:
    found = matcher.match_many([{"age": 1}, {}])
    assert results.count_by_rule(found).num_rows == 0
    assert results.count_by_rule(found, list(matcher))["matches"].to_pylist() == [0, 0, 0]
    matrix, rules = results.build_matrix(found, 2)
    assert (matrix.shape, rules) == ((2, 0), [])
    assert results.find_overlaps(found, 2).num_rows == 0
    with pytest.raises(tamis.UnknownRuleError, match="'adults'"):
        results.count_by_rule(matcher.match_many(EVENTS), ["other"])


def test_keys_take_the_place_of_numbers(matcher: tamis.Matcher) -> None:
    found = matcher.match_many(EVENTS)
    keyed = results.add_keys(found, [event["name"] for event in EVENTS])
    assert keyed["event"].to_pylist() == ["bob", "cid", "cid"]
    counts = results.add_keys(matcher.count_many(EVENTS), pa.array([7, 8, 9]))
    assert counts["event"].to_pylist() == [7, 8, 9]


def test_the_largest_counts_are_drawn(matcher: tamis.Matcher) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    axes = results.plot_counts(matcher.match_many(EVENTS))
    bars: list[Any] = list(axes.patches)
    assert [bar.get_width() for bar in bars] == [2, 1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["adults", "seniors"]
    axes.figure.clear()


def test_frames_of_pandas_match_with_their_index(matcher: tamis.Matcher) -> None:
    frame = pd.DataFrame(EVENTS).set_index("name")
    found = frame.tamis.match(matcher)
    assert list(zip(found.index, found["rule"], strict=True)) == [
        ("bob", "adults"),
        ("cid", "adults"),
        ("cid", "seniors"),
    ]
    assert frame.tamis.count(matcher).to_dict() == {"ann": 0, "bob": 1, "cid": 2}
    assert list(frame.tamis.top(matcher, 1).columns) == ["rank", "rule", "score"]
    matrix = frame.tamis.matrix(matcher)
    assert list(matrix.columns) == ["adults", "seniors", "never"]
    assert matrix.loc["cid"].tolist() == [True, True, False]


def test_frames_of_polars_match_with_a_key(matcher: tamis.Matcher) -> None:
    frame: Any = pl.DataFrame(EVENTS)
    found = frame.tamis.match(matcher, key="name")
    assert found.rows() == [("bob", "adults"), ("cid", "adults"), ("cid", "seniors")]
    assert frame.tamis.match(matcher)["event"].to_list() == [1, 2, 2]
    assert frame.tamis.count(matcher).to_list() == [0, 1, 2]
    assert frame.tamis.top(matcher, 1, key="name")["name"].to_list() == ["bob", "cid"]
    assert frame.tamis.matrix(matcher).row(2) == (True, True, False)


def test_duckdb_matches_rows_and_json(matcher: tamis.Matcher) -> None:
    database = duckdb.connect()
    register(database, matcher)
    database.execute(
        "CREATE TABLE people AS "
        "SELECT * FROM (VALUES ('ann', 5), ('cid', 70), ('eve', NULL)) t(name, age)"
    )
    rows = database.execute(
        "SELECT name, tamis_match(people), tamis_count(people) FROM people"
    ).fetchall()
    assert rows == [("ann", [], 0), ("cid", ["adults", "seniors"], 2), ("eve", [], 0)]
    (one,) = database.execute("""SELECT tamis_match('{"age": 20}'), tamis_match(NULL)""").fetchall()
    assert one == (["adults"], [])
    many = database.execute(
        "SELECT sum(tamis_count(t)) FROM (SELECT i AS age FROM range(10000) r(i)) t"
    )
    assert many.fetchone() == (10_000 - 18 + 10_000 - 65,)


def test_a_transformer_turns_rules_into_features(matcher: tamis.Matcher) -> None:
    frame = pd.DataFrame({"age": [5, 20, 70, 30]})
    transformer = RuleTransformer(matcher).fit(frame)
    assert transformer.get_feature_names_out().tolist() == ["adults", "seniors", "never"]
    assert transformer.transform(frame).toarray().sum(axis=0).tolist() == [3.0, 1.0, 0.0]
    assert transformer.transform(EVENTS).shape == (3, 3)
    rules = {"adults": "age >= 18"}
    model = make_pipeline(RuleTransformer(rules), DecisionTreeClassifier())
    assert model.fit(frame, [0, 1, 1, 1]).predict(frame).tolist() == [0, 1, 1, 1]
    dense = RuleTransformer(rules, sparse_output=False).fit_transform(frame)
    assert dense.tolist() == [[0.0], [1.0], [1.0], [1.0]]


def test_the_transformer_passes_the_checks_of_scikit_learn() -> None:
    rules = {"some": "x0 > 0", "other": "x1 <= 0 OR x0 IS NULL"}
    found = check_estimator(RuleTransformer(rules), on_skip=None)
    assert {check["status"] for check in found} <= {"passed", "skipped"}
    assert len(found) > 30


def test_a_name_that_is_not_one_never_reaches_sql(matcher: tamis.Matcher) -> None:
    with duckdb.connect() as database, pytest.raises(ValueError, match="cannot be named after"):
        register(database, matcher, "x(a) AS 1; DROP TABLE t; --")
