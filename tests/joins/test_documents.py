"""The documents seen before: their ids, how they expire, and what users see of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import tamis


def test_documents_are_found_by_their_ids() -> None:
    documents = tamis.Documents()
    assert documents.add({"price": 3, "tags": ["a", "b"]}) == 0
    assert documents.add({"price": 4}, id="four") == "four"
    assert list(documents) == [0, "four"]
    assert documents[0] == {"price": 3, "tags": ["a", "b"]}
    assert 0 in documents
    assert 1 not in documents
    assert "four" in documents
    documents.add({"price": 5}, id="four")
    assert documents["four"] == {"price": 5}
    assert len(documents) == 2
    documents.remove("four")
    with pytest.raises(tamis.UnknownDocumentError, match="there is no document 'four'"):
        documents.remove("four")
    with pytest.raises(tamis.UnknownDocumentError):
        documents[17]
    with pytest.raises(tamis.EventError, match="a document's id must be a string"):
        documents.add({}, id=7)  # type: ignore[arg-type]
    documents.clear()
    assert not len(documents)
    assert documents.add({}) == 3


def test_the_oldest_documents_expire_by_count() -> None:
    documents = tamis.Documents(tamis.Retention(count=2))
    documents.add({"x": 1}, id="first")
    documents.add_many([{"x": 2}, {"x": 3}])
    assert [documents[id] for id in documents] == [{"x": 2}, {"x": 3}]
    assert "first" not in documents
    documents.add({"x": 4}, id="last")
    documents.add({"x": 5}, id="last")
    assert [documents[id]["x"] for id in documents] == [3, 5]
    assert len(tamis.Documents(tamis.Retention(count=0))) == 0
    none = tamis.Documents(tamis.Retention(count=0))
    none.add({"x": 1})
    assert len(none) == 0


def test_documents_expire_by_age() -> None:
    now = [1000.0]
    documents = tamis.Documents(tamis.Retention(age=timedelta(minutes=1), clock=lambda: now[0]))
    documents.add({"x": 1})
    now[0] = 1050
    documents.add({"x": 2})
    now[0] = 1061
    lower = "EXISTS (SELECT 1 FROM seen d WHERE d.x < x)"
    assert documents.bits(lower, {"x": 9}) == [True]
    assert len(documents) == 1
    now[0] = 1111
    assert documents.expire() == 1
    assert documents.bits(lower, {"x": 9}) == []


def test_the_age_may_count_from_an_attribute() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    now = [start.timestamp()]
    retention = tamis.Retention(age=3600, by="at", clock=lambda: now[0])
    documents = tamis.Documents(retention)
    documents.add({"x": 1, "at": start - timedelta(minutes=50)})
    documents.add({"x": 2, "at": (start - timedelta(minutes=10)).timestamp()})
    documents.add({"x": 3})
    now[0] += 1200
    assert documents.expire() == 1
    assert [documents[id]["x"] for id in documents] == [2, 3]
    now[0] += 3000
    documents.add({"x": 4})
    assert [documents[id]["x"] for id in documents] == [4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "count must be a whole number"),
        ({"count": 1.5}, "count must be a whole number"),
        ({"age": -1}, "age must be a timedelta"),
        ({"age": "1h"}, "age must be a timedelta"),
        ({"by": "at"}, "pass age= too"),
        ({"age": 1, "by": ""}, "by must be the name of an attribute"),
    ],
)
def test_retention_is_checked(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tamis.Retention(**arguments)  # type: ignore[arg-type]


def test_bits_take_join_predicates_only() -> None:
    with pytest.raises(tamis.EventError, match="is not a join predicate"):
        tamis.Documents().bits("x > 3", {})
