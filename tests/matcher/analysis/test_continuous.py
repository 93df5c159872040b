"""Continuous ratification: a thread compares the answers of a live matcher with the language."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.matcher.analysis.continuous import ContinuousRatifier
from tamis.matcher.batch_searcher import BatchSearcher
from tamis.matcher.searcher import Searcher
from tests.waiting import wait_until

RULES = {
    "adults": "age >= 18",
    "french": "country IN ('FR', 'BE') AND NOT age < 12",
    "late": "age > 3 OR name LIKE 'a%'",
    "again": "EXISTS (SELECT 1 FROM seen d WHERE d.age = age)",
    "three": "(SELECT COUNT(*) FROM seen d WHERE d.country = country) >= 2",
    "mine": "(SELECT SUM(d.age) FROM received d) > 40",
}


@pytest.fixture
def found() -> list[Any]:
    return []


@pytest.fixture
def m(found: list[Any]) -> Iterator[tamis.Matcher]:
    with tamis.Matcher(ratify="continuous", budget=0.9, on_difference=found.append) as matcher:
        for id, text in RULES.items():
            subscription = "ann" if id == "mine" else None
            matcher.add(id, text, subscription=subscription, weights={"age >= 18": 2.0}
                        if id == "adults" else None)  # fmt: skip
        yield matcher


def ratified(matcher: tamis.Matcher) -> dict[str, int]:
    numbers: dict[str, int] = matcher.stats()["ratified"]
    return numbers


def test_right_answers_are_compared_and_agree(m: tamis.Matcher, found: list[Any]) -> None:
    def search() -> bool:
        m.publish({"age": 30, "country": "FR"}, received_by=["ann"])
        m.match_many([{"age": 12, "country": "BE"}])
        m.top({"age": 20, "name": "abc"})
        if len(m.documents) > 50:
            m.documents.clear()
        counts = ratified(m)
        return min(counts["live"], counts["drawn"], counts["matched"]) >= 5

    wait_until(search)
    assert (m.differences, found, ratified(m)["differences"]) == ([], [], 0)


@pytest.mark.parametrize("method", ["match", "match_many", "top"])
def test_wrong_answers_are_reported(
    m: tamis.Matcher, found: list[Any], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if method == "match":
        plain = Searcher.match
        monkeypatch.setattr(
            Searcher, "match", lambda *a: [id for id in plain(*a) if id != "adults"]
        )
    elif method == "top":
        best = Searcher.top
        monkeypatch.setattr(
            Searcher, "top", lambda *a: [(id, 9.0 if id == "adults" else s) for id, s in best(*a)]
        )
    else:
        many = BatchSearcher.match
        monkeypatch.setattr(BatchSearcher, "match", lambda *a: many(*a).slice(0, 0))
    wait_until(lambda: any(d.rule == "adults" and d.method == method for d in found))
    assert {difference.method for difference in m.differences} == {method}
    assert ratified(m)["differences"] >= len(m.differences) > 0
    wait_until(lambda: ratified(m)["differences"] > 120)
    assert len(m.differences) <= 100


def test_documents_do_not_age_while_answers_are_compared(found: list[Any]) -> None:
    readings = itertools.count()
    retention = tamis.Retention(age=40, clock=lambda: float(next(readings)))
    with tamis.Matcher(
        ratify="continuous", budget=0.9, on_difference=found.append, documents=retention
    ) as m:
        m.add_many({f"r{n}": f"(SELECT COUNT(*) FROM seen d) = {n}" for n in range(30)})

        def search() -> bool:
            m.publish({"age": 30})
            return ratified(m)["matched"] >= 30

        wait_until(search)
    assert found == []


def test_wrong_joins_are_reported(
    m: tamis.Matcher, found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    m.publish({"age": 30, "country": "FR"})
    plain = type(m._document_store).evaluate_used_joins
    monkeypatch.setattr(
        type(m._document_store),
        "evaluate_used_joins",
        lambda *a: {
            name: [not v[0]] if v[0] in (True, False) else v for name, v in plain(*a).items()
        },
    )
    wait_until(lambda: any(d.rule == "again" for d in found))


def test_a_callback_that_fails_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise KeyError("callback")

    monkeypatch.setattr(Searcher, "match", lambda *_: [])
    with tamis.Matcher(ratify="continuous", budget=0.9, on_difference=fail) as m:
        m.add("all", "TRUE")
        m.add("x", "x = 1 OR NOT x = 1 OR x IS NULL")
        wait_until(lambda: ratified(m)["differences"] > 3)


def test_it_stops_when_the_matcher_is_closed_or_dropped(tmp_path: Path) -> None:
    def threads() -> int:
        return sum(thread.name == "tamis-ratify" for thread in threading.enumerate())

    before = threads()
    with tamis.open(tmp_path / "rules", ratify="continuous", budget=0.5) as m:
        m.add("a", "x = 1")
        assert threads() == before + 1
        wait_until(lambda: ratified(m)["compared"] > 0)
    assert threads() == before
    assert m.match({"x": 1}) == ["a"]
    dropped = tamis.Matcher(ratify="continuous", budget=0.5)
    dropped.add("a", "x = 1")
    del dropped

    def is_gone() -> bool:
        gc.collect()
        return threads() == before

    wait_until(is_gone)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_no_ratifier_and_answers(m: tamis.Matcher) -> None:
    child = os.fork()
    if not child:
        status = 1
        try:
            assert not m._ratifier.wants_event  # type: ignore[union-attr]
            assert m.match({"age": 30}) == ["adults", "late"]
            m.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    wait_until(lambda: ratified(m)["compared"] > 0)


def test_it_keeps_to_its_budget() -> None:
    """Its time is that of its thread, so that other load does not matter."""
    with tamis.Matcher() as m:
        m.add_many({n: f"x = {n} AND y > {n}" for n in range(100)})
        pin: Any = weakref.WeakMethod(m._pin_search)
        ratifier = ContinuousRatifier(pin, m._schema, m._document_store, budget=0.02, seed=1)
        ratifier.close()
        used = paused = 0.0
        for _ in range(40):
            start = time.thread_time()
            paused += ratifier.step()
            used += time.thread_time() - start
        assert used < 0.05 * (used + paused)
        assert ratifier.stats()["compared"] > 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"ratify": "always"},
        {"ratify": "continuous", "budget": 0},
        {"ratify": "continuous", "budget": 2},
        {"ratify": "continuous", "on_difference": 3},
    ],
)
def test_bad_arguments(arguments: Any) -> None:
    with pytest.raises(ValueError, match=r"ratify is|budget is|on_difference is"):
        tamis.Matcher(**arguments)
