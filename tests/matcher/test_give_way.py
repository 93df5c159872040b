"""Threads that change rules give way to threads that search."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from tamis import Matcher
from tamis.matcher import give_way as module
from tamis.matcher.give_way import announced, give_way
from tamis.matcher.selection import Selection
from tamis.matcher.snapshot import Snapshot
from tamis.matcher.tail import LazyEvent, TailRule
from tests.waiting import wait_until

EVENT = {"x": 1}


class SearchInAThread:
    """A search that another thread has begun, and ends when told to."""

    def __init__(self) -> None:
        self._begun, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=announced(self._search))

    def _search(self) -> None:
        self._begun.set()
        assert self._ending.wait(30)

    def __enter__(self) -> SearchInAThread:
        self._thread.start()
        assert self._begun.wait(30)
        return self

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def __exit__(self, *error: object) -> None:
        self.end()


def test_a_change_waits_for_the_searches_that_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 30)
    with SearchInAThread() as search:
        change = threading.Thread(target=give_way)
        change.start()
        change.join(0.1)
        assert change.is_alive()
        search.end()
        change.join(30)
        assert not change.is_alive()


def test_a_change_does_not_wait_for_a_later_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 30)
    change = threading.Thread(target=give_way)
    later = threading.Event()

    def search() -> None:
        change.start()
        change.join(0.1)
        assert change.is_alive()

    def search_twice() -> None:
        announced(search)()
        announced(lambda: later.wait(30))()

    searches = threading.Thread(target=search_twice)
    searches.start()
    wait_until(lambda: change.ident is not None and not change.is_alive())
    later.set()
    searches.join()


def test_a_change_does_not_wait_long() -> None:
    with SearchInAThread():
        give_way()
    assert not module._searches


def test_a_search_does_not_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", threading.TIMEOUT_MAX)
    change = threading.Thread(target=announced(give_way), daemon=True)
    change.start()
    change.join(30)
    assert not change.is_alive()


def test_a_search_that_fails_is_over() -> None:
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        announced(fail)()
    assert not module._searches


def test_a_child_gives_way_to_no_search_of_its_parent() -> None:
    with SearchInAThread():
        pid = os.fork()
        if pid == 0:
            os._exit(bool(module._searches))
    assert os.waitpid(pid, 0)[1] == 0


CALLS: dict[str, Callable[[Matcher], object]] = {
    "match": lambda matcher: matcher.match(EVENT),
    "match_array": lambda matcher: matcher.match_array(EVENT),
    "first": lambda matcher: matcher.first(EVENT),
    "top": lambda matcher: matcher.top(EVENT, n=2),
    "publish": lambda matcher: matcher.publish(EVENT),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_searches_among_new_rules_are_announced(
    call: Callable[[Matcher], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    announced_searches: list[int] = []
    match_tail = Snapshot.match_tail

    def record(snapshot: Snapshot, event: LazyEvent, selection: Selection) -> list[TailRule]:
        announced_searches.append(len(module._searches))
        return match_tail(snapshot, event, selection)

    monkeypatch.setattr(Snapshot, "match_tail", record)
    with Matcher() as matcher:
        matcher.add(1, "x = 1")
        call(matcher)
    assert announced_searches == [1]
    assert not module._searches


def test_additions_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """An addition is visible at once, and returns when the search is over."""
    monkeypatch.setattr(module, "_PATIENCE", 30)
    with Matcher() as matcher, SearchInAThread() as search:
        writer = threading.Thread(target=matcher.add, args=(1, "x = 1"))
        writer.start()
        wait_until(lambda: 1 in matcher)
        assert writer.is_alive()
        search.end()
        writer.join(30)
        assert not writer.is_alive()
