"""Concurrent readers and writers: a reader sees one snapshot, and never waits."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

import tamis
from tamis import Matcher, UnknownRuleError, tagged
from tamis.matcher.write import state
from tamis.matcher.write import writer as writer_module
from tamis.matcher.write.writer import Writer

EVENT = {"x": 1}
READERS = 3
WRITE_CODE = (state.__file__, writer_module.__file__)


@pytest.fixture(autouse=True)
def _eager_threads() -> Iterator[None]:
    """Switch threads as often as possible, so that a short run shows a race."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def read_during(write: Callable[[], None], *reads: Callable[[], None]) -> None:
    """Run `write` once; until it ends, repeat each of `reads` in its own thread."""
    done = threading.Event()

    def repeat(read: Callable[[], None]) -> int:
        times = 0
        while not done.is_set() or times == 0:
            read()
            times += 1
        return times

    def write_once() -> None:
        try:
            write()
        finally:
            done.set()

    with ThreadPoolExecutor() as threads:
        running = [threads.submit(repeat, read) for read in reads]
        threads.submit(write_once).result()
        assert all(found.result() > 0 for found in running)


@pytest.mark.parametrize("engine", tamis.engines())
def test_rules_added_together_are_seen_together(engine: str) -> None:
    matcher = Matcher(engine=engine)
    matcher.match(EVENT)

    def write() -> None:
        for number in range(150):
            matcher.add_many([(f"left {number}", "x = 1"), (f"right {number}", "x >= 1")])

    def check(found: list[Any]) -> None:
        pairs = [id.split() for id in found]
        assert [side for side, _ in pairs] == ["left", "right"] * (len(pairs) // 2)
        assert [int(number) for _, number in pairs[::2]] == list(range(len(pairs) // 2))

    def match_one() -> None:
        check(matcher.match(EVENT))

    def match_several() -> None:
        found = matcher.match_many([EVENT, {}, EVENT])
        check(found["rule"].to_pylist()[: found.num_rows // 2])

    def count() -> None:
        assert len(matcher) % 2 == 0
        assert matcher.count_many([EVENT])["matches"].to_pylist()[0] % 2 == 0
        check(list(matcher))

    read_during(write, match_one, match_several, count)
    assert len(matcher) == 300


def test_an_added_rule_stays_visible() -> None:
    matcher = Matcher()
    known: list[int] = [0]

    def write() -> None:
        for number in range(400):
            matcher.add(number, "x = 1")

    def read() -> None:
        found = matcher.match(EVENT)
        assert found == list(range(len(found)))
        assert len(found) >= known[-1]
        known.append(len(found))

    read_during(write, read)


@pytest.mark.parametrize("others", [0, 500])
def test_a_reader_sees_exactly_one_version_of_a_replaced_rule(others: int) -> None:
    matcher = Matcher()
    matcher.add_many([(number, "y = 1") for number in range(others)])
    matcher.add("r", "x = 1", payload=0, tags=["even"])

    def write() -> None:
        for number in range(1, 600):
            tags = ["odd" if number % 2 else "even"]
            matcher.add("r", "x = 1", payload=number, tags=tags, replace=True)

    def match() -> None:
        assert matcher.match(EVENT) == ["r"]
        assert matcher.top(EVENT, 3) == [("r", 1.0)]
        assert len(matcher.match(EVENT, only=tagged("odd", "even"))) == 1
        assert len(matcher) == others + 1

    def find_by_id() -> None:
        assert "r" in matcher
        assert matcher.match(EVENT, only=["r"]) == ["r"]
        rule = matcher.rule("r")
        assert rule.tags == {"odd" if rule.payload % 2 else "even"}
        assert matcher.explain("r", EVENT).held

    read_during(write, match, find_by_id)


def read_at_every_line(write: Callable[[], None], read: Callable[[], None]) -> int:
    """Run `write`, and call `read` before each line of the writer's code.

    A race that threads would meet once in a million runs shows up here every time.
    """
    reads = 0
    reading = False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal reads, reading
        if reading or frame.f_code.co_filename not in WRITE_CODE:
            return None
        if event == "line":
            reading = True
            read()
            reading = False
            reads += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        write()
    finally:
        sys.settrace(before)
    return reads


@pytest.mark.parametrize("others", [0, 100])
def test_all_searches_agree_at_every_step_of_a_write(others: int) -> None:
    matcher = Matcher()
    known: list[Any] = ["a", "b", "c", *range(others)]
    matcher.add_many([(number, "x = 1") for number in range(others)])
    matcher.add_many([("a", "x = 1"), ("b", "x = 1")])

    def read() -> None:
        ids = list(matcher)
        assert len(matcher) == len(ids)
        assert matcher.match(EVENT) == ids
        assert matcher.match(EVENT, only=known) == ids
        assert matcher.match_many([EVENT], only=known)["rule"].to_pylist() == ids
        assert [id for id in known if id in matcher] == sorted(ids, key=known.index)
        assert [matcher.rule(id).id for id in ids] == ids

    def replace_one() -> None:
        matcher.add("a", "x >= 1", replace=True)

    def replace_several() -> None:
        matcher.add_many([("c", "x = 1"), ("b", "x >= 1")], replace=True)

    removals = (lambda: matcher.remove("a"), lambda: matcher.remove("b"))
    for write in (replace_one, replace_several, *removals):
        assert read_at_every_line(write, read) > 3
    assert list(matcher) == [*range(others), "c"]


def test_a_batch_of_replacements_becomes_visible_at_once() -> None:
    matcher = Matcher()
    size = 100
    matcher.add_many([(number, "x = 1") for number in range(size)])

    def write() -> None:
        for number in range(40):
            rule = "x = 2" if number % 2 == 0 else "x = 1"
            matcher.add_many([(id, rule) for id in range(size)], replace=True)

    def read() -> None:
        assert len(matcher.match(EVENT)) in (0, size)
        counts = matcher.count_many([{"x": 1}, {"x": 2}])["matches"].to_pylist()
        assert sorted(counts) == [0, size]

    read_during(write, read, read)


def test_readers_see_removals_in_their_order() -> None:
    """Rules are removed in order, so a reader always finds all rules from some rule on."""
    matcher = Matcher()
    size = 400
    matcher.add_many([(number, "x = 1") for number in range(size)])

    def write() -> None:
        for number in range(size):
            matcher.remove(number)

    def read() -> None:
        found = matcher.match(EVENT)
        assert found == list(range(size - len(found), size))
        found = matcher.match_many([EVENT])["rule"].to_pylist()
        assert found == list(range(size - len(found), size))

    read_during(write, read, read)
    assert len(matcher) == 0


def test_writers_wait_for_each_other() -> None:
    matcher = Matcher()

    def write(name: str) -> int:
        refused = 0
        for number in range(100):
            matcher.add(f"{name} {number}", "x = 1")
            try:
                matcher.add("shared", "x = 1")
            except tamis.DuplicateRuleError:
                refused += 1
            if number % 10 == 0:
                try:
                    matcher.remove("shared")
                except UnknownRuleError:
                    refused += 1
        return refused

    with ThreadPoolExecutor() as threads:
        list(threads.map(write, "abcd"))
    own = [id for id in matcher if id != "shared"]
    assert sorted(own) == sorted(f"{name} {number}" for name in "abcd" for number in range(100))
    for name in "abcd":
        assert [id for id in own if str(id).startswith(name)] == [f"{name} {n}" for n in range(100)]
    assert matcher.match(EVENT) == list(matcher)
    assert len(matcher) == len(list(matcher))


def test_readers_share_one_engine() -> None:
    """Many threads search one segment, each with its own workspace."""
    matcher = Matcher()
    matcher.add_many([(n, f"x = {n % 7} AND y <> {n % 5}") for n in range(1_000)])
    events = [{"x": x, "y": y} for x in range(7) for y in range(5)]
    expected = [matcher.match(event) for event in events]
    table = matcher.match_many(events * 200)

    def read(repetition: int) -> None:
        for number, event in enumerate(events):
            assert matcher.match(event) == expected[number]
        if repetition % 4 == 0:
            assert matcher.match_many(events * 200).equals(table)

    with ThreadPoolExecutor(READERS) as threads:
        list(threads.map(read, range(12)))


def test_a_reader_does_not_wait_for_a_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher()
    matcher.add_many([(number, "x = 1") for number in range(100)])
    matcher.add("tail", "x = 1")
    inside, answered = threading.Event(), threading.Event()
    add = Writer._add
    timely: list[bool] = []

    def add_when_answered(self: Writer, *arguments: Any) -> Any:
        if threading.current_thread() is writer:
            inside.set()
            timely.append(answered.wait(30))
        return add(self, *arguments)

    monkeypatch.setattr(Writer, "_add", add_when_answered)
    writer = threading.Thread(
        target=matcher.add_many, args=([(f"new {n}", "x = 1") for n in range(100)],)
    )
    writer.start()
    assert inside.wait(30)
    before = [*range(100), "tail"]
    assert matcher.match(EVENT) == before
    assert matcher.match_many([EVENT])["rule"].to_pylist() == before
    assert matcher.match(EVENT, only=["tail", "new 1"]) == ["tail"]
    assert matcher.top(EVENT, 1) == [(0, 1.0)]
    assert len(matcher) == 101
    assert matcher.rule("tail").text == "x = 1"
    assert "new 0" not in matcher
    answered.set()
    writer.join()
    assert timely == [True], "the writer gave up waiting: a reader waited for it"
    assert len(matcher) == 201
