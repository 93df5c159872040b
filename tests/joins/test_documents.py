"""The documents seen before: their ids, how they expire, and what users see of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import tamis
from tamis.expr.joins.predicate import Join
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Predicate
from tamis.joins.document_store import DocumentStore, StoredDocument, encode_flat


def join_of(text: str) -> Join:
    predicate = tamis.parse(text)
    assert isinstance(predicate, Predicate)
    return join_named(predicate.attribute)


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


def test_a_document_replaces_the_only_one() -> None:
    m = tamis.Matcher()
    m.add("not below", "EXISTS (SELECT 1 FROM seen d WHERE NOT (d.x < x))")
    for x in (1, 5, 2):
        m.publish({"x": x}, id="one")
        for new in (1, 3, 7):
            expected = tamis.evaluate(m.rule("not below").text, {"x": new}, documents=[{"x": x}])
            assert m.match({"x": new}) == ["not below"] * expected
        assert m.documents.bits("EXISTS (SELECT 1 FROM seen d WHERE d.x = x)", {"x": x}) == [True]


@pytest.mark.parametrize("id", [None, "same"])
def test_one_document_is_kept(id: str | None) -> None:
    m = tamis.Matcher(documents=tamis.Retention(count=1))
    m.add("above", "x > ALL (SELECT d.x FROM seen d)")
    found = [m.publish({"x": x}, id=id) for x in (1, 3, 2, 3)]
    assert found == [["above"], ["above"], [], ["above"]]
    assert len(m.documents) == 1


def test_gaps_between_numbers_take_no_memory() -> None:
    """A store that was empty has bits from its first document on."""
    store = DocumentStore()
    for number in (10**12, 10**12 + 1):
        store.append(StoredDocument(number, 0.0, None, encode_flat({"x": [number]})))
    join = join_of("EXISTS (SELECT 1 FROM seen d WHERE NOT (d.x < x))")
    assert store.bits(join, {"x": [10**12 + 1]}) == [False, True]


def test_fewer_documents_are_kept_after_a_limit_is_lowered(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "index") as m:
        m.documents.add_many([{"x": x} for x in range(5)])
    with tamis.open(tmp_path / "index", documents=tamis.Retention(count=2)) as m:
        assert list(m.documents) == [3, 4]
    with tamis.open(tmp_path / "index", documents=tamis.Retention(count=9)) as m:
        assert list(m.documents) == [3, 4]


def test_no_document_comes_back_that_was_never_kept(tmp_path: Path) -> None:
    retention = tamis.Retention(count=0)
    with tamis.open(tmp_path / "index", documents=retention) as m:
        assert m.documents.add({"x": 1}) == 0
    with tamis.open(tmp_path / "index", documents=tamis.Retention()) as m:
        assert len(m.documents) == 0
        assert m.documents.add({"x": 1}) == 1


def test_the_newest_event_says_what_time_it_is() -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    m = tamis.Matcher(documents=tamis.Retention(age=3600, by="at"))
    m.add("seen", "(SELECT COUNT(*) FROM seen d WHERE d.x >= 0) >= 1")
    m.add("all", "x > ALL (SELECT d.x FROM seen d)")
    m.publish({"x": 1, "at": start})
    m.publish({"x": 2, "at": start + timedelta(minutes=50)})
    # Its own time counts before it is matched.
    assert m.publish({"x": 2, "at": start + timedelta(minutes=70)}) == ["seen"]
    assert list(m.documents) == [1, 2]
    # One that is late by more than the age is matched, but not remembered, and nothing makes room.
    assert m.publish({"x": 3, "at": start}) == ["seen", "all"]
    assert list(m.documents) == [1, 2]
    # One without a time comes now; asking is not publishing.
    m.documents.add({"x": 0})
    assert m.match({"x": 3, "at": start + timedelta(days=900)}) == ["seen", "all"]
    m.publish({"x": 0, "at": start + timedelta(minutes=130)})
    assert list(m.documents) == [2, 4, 5]
    assert m.documents.stats()["clock_faults"] == 0


def test_times_before_1970_are_times() -> None:
    start = datetime(1950, 1, 1, tzinfo=UTC)
    documents = tamis.Documents(tamis.Retention(age=60, by="at"))
    documents.add_many([{"at": start + timedelta(seconds=40 * n)} for n in range(4)])
    assert list(documents) == [2, 3]


@pytest.mark.parametrize("far", [datetime(2500, 1, 1, tzinfo=UTC), 1e20, float("inf")])
def test_a_time_in_the_far_future_is_not_believed(far: object) -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    documents = tamis.Documents(tamis.Retention(age=60, by="at"))
    documents.add({"at": start})
    documents.add({"at": far})
    documents.add({"at": [start + timedelta(seconds=30), far]})
    assert list(documents) == [0, 1, 2]
    assert documents.stats()["clock_faults"] == 2
    documents.add({"at": start + timedelta(seconds=80)})
    assert list(documents) == [2, 3]


@pytest.mark.parametrize("by", [None, "at"])
def test_documents_of_a_wrong_clock_are_forgotten(tmp_path: Path, by: str | None) -> None:
    now = [1000.0]
    retention = tamis.Retention(age=60, by=by, clock=lambda: now[0])
    with tamis.open(tmp_path / "index", documents=retention) as m:
        now[0] = 1e10
        m.documents.add({"at": now[0]}, id="wrong")
        now[0] = 1001.0
        m.documents.add({"at": now[0]}, id="right")
        assert m.documents.stats()["clock_faults"] == 1
    for _ in range(4):
        now[0] += 20
        with tamis.open(tmp_path / "index", documents=retention) as m:
            left = list(m.documents)
            assert m.documents.stats()["clock_faults"] == 0
    assert left == []


def test_a_closed_matcher_takes_a_clock_that_has_gone_back(tmp_path: Path) -> None:
    now = [1e10]
    retention = tamis.Retention(age=60, clock=lambda: now[0])
    m = tamis.open(tmp_path / "index", documents=retention)
    m.add("any", "EXISTS (SELECT 1 FROM seen d)")
    m.publish({})
    m.close()
    now[0] = 1000.0
    assert m.match({}) == ["any"]
    now[0] = 1061.0
    assert m.match({}) == []


def test_a_directory_knows_the_newest_time(tmp_path: Path) -> None:
    retention = tamis.Retention(age=60, by="at")
    with tamis.open(tmp_path / "index", documents=retention) as m:
        m.documents.add({"at": 1000})
        m.documents.add({"at": 1050}, id="newest")
        m.documents.remove("newest")
    for _ in range(2):
        with tamis.open(tmp_path / "index") as m:
            m.documents.add({"at": 985}, id="late")
            assert list(m.documents) == [0]


def test_a_directory_gets_times_of_events(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "index") as m:
        m.documents.add_many([{"at": 1000}, {"at": 1050}, {}])
    for following in (3, 4):
        with tamis.open(tmp_path / "index", documents=tamis.Retention(age=60, by="at")) as m:
            assert list(m.documents)[:3] == [0, 1, 2]
            assert m.documents.add({"at": 1060}) == following
    with tamis.open(tmp_path / "index") as m:
        m.documents.add({"at": 1100})
        assert list(m.documents) == [1, 2, 3, 4, 5]


def test_saved_documents_without_a_time_come_when_they_are_saved(tmp_path: Path) -> None:
    m = tamis.Matcher()
    m.documents.add({"x": 1})
    m.save(tmp_path / "index")
    retention = tamis.Retention(age=3600)
    with tamis.open(tmp_path / "index", documents=retention) as opened:
        assert len(opened.documents) == 1


def test_replaced_documents_leave_no_times_behind() -> None:
    documents = tamis.Documents(tamis.Retention(age=1e9, by="at"))
    for number in range(1000):
        documents.add({"at": number}, id="same" if number else "first")
    assert len(documents._store._ages._by_age) < 100


def test_bits_take_join_predicates_only() -> None:
    with pytest.raises(tamis.EventError, match="is not a join predicate"):
        tamis.Documents().bits("x > 3", {})
