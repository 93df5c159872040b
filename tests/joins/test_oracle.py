"""Rules with join predicates against DuckDB, over the same documents and events.

One random rule is spelled twice, since a bare name in a subquery is the new document's to Tamis
and the old one's to SQL. DuckDB, the reference and the indexed evaluator must agree on true,
false and unknown, while documents come and go and lack attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tamis
from tamis.expr.evaluate import add_joins, evaluate_flat
from tamis.expr.event import flatten
from tamis.expr.model import predicates
from tamis.expr.names import JOINED
from tamis.joins import evaluate
from tamis.joins.document_store import DocumentStore
from tests.joins import random_joins

RULES = 60
EVENTS = 25
STATES = 3
"""How many states of the documents each seed checks."""

TYPES = {"n": pa.int64(), "m": pa.int64(), "x": pa.float64(), "s": pa.string(), "b": pa.bool_()}


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"threads": 1})
    yield connection
    connection.close()


@pytest.mark.parametrize("seed", range(6))
def test_join_predicates_agree_with_duckdb(
    db: duckdb.DuckDBPyConnection, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    if seed % 2:
        # No document is checked by itself, so that selections and bit vectors decide.
        monkeypatch.setattr(evaluate, "_FEW", 0)
    spelled = [random_joins.rule(random) for _ in range(RULES)]
    rules = [tamis.parse(ours) for ours, _ in spelled]
    store = DocumentStore()
    documents: dict[Any, dict[str, Any]] = {}
    for _ in range(STATES):
        for _ in range(random.randrange(8)):
            document = random_joins.document(random)
            documents[store.add(flatten(document))] = document
        for id in random.sample(sorted(documents), min(3, len(documents))):
            store.remove(id)
            del documents[id]
        events = [random_joins.document(random) for _ in range(EVENTS)]
        flat_documents = [flatten(document) for document in documents.values()]
        texts = [theirs for _, theirs in spelled]
        answers = _evaluate_with_duckdb(db, texts, list(documents.values()), events)
        for rule, (text, _), column in zip(rules, spelled, answers, strict=True):
            names = [p.attribute for p in predicates(rule) if p.attribute.startswith(JOINED)]
            for event, answer in zip(map(flatten, events), column, strict=True):
                whole = add_joins(rule, event, flat_documents)
                assert evaluate_flat(rule, whole, "strong") is answer, (text, event, documents)
                found = store.evaluate_joins(names, event)
                assert {n: whole[n] for n in names if n in whole} == found, (text, event)


def test_random_rules_cover_the_whole_syntax() -> None:
    random = Random(0)
    texts = " ".join(random_joins.rule(random)[0] for _ in range(RULES * 4))
    for part in ("NOT EXISTS", "IN (SELECT", "NOT IN (SELECT", "IS NULL", "BETWEEN", "WHERE NOT"):
        assert part in texts
    for op in random_joins.COMPARISONS:
        for quantifier in ("ANY", "ALL"):
            assert f" {op} {quantifier} (" in texts


def _evaluate_with_duckdb(
    db: duckdb.DuckDBPyConnection,
    texts: list[str],
    documents: list[dict[str, Any]],
    events: list[dict[str, Any]],
) -> list[list[bool | None]]:
    """The truth of each rule on each event."""
    db.register("seen", _table(documents))
    db.register("new", _table(events).append_column("place", pa.array(range(len(events)))))
    # DuckDB plans one query with many subqueries far slower than many queries.
    found = (db.execute(f"SELECT ({text}) FROM new e ORDER BY place").fetchall() for text in texts)
    return [[answer for (answer,) in rows] for rows in found]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], kind) for name, kind in TYPES.items()}
    )
