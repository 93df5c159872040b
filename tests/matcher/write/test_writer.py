"""Background merges: changes during a merge, failures, and the choice of segments."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tamis import BackgroundError, DuplicateRuleError, Matcher, RuleError, UnknownRuleError
from tamis.matcher.write.builder import SegmentBuilder
from tamis.matcher.write.merge_policy import Load, find_run_to_merge
from tests.matcher.matchers import settle
from tests.waiting import wait_until

EVENT = {"x": 1}


def make_matcher(*sizes: int) -> Matcher:
    """Make a matcher with one segment of each of these sizes; a merge may follow."""
    matcher = Matcher()
    first = 0
    for size in sizes:
        matcher.add_many([(number, "x = 1") for number in range(first, first + size)])
        first += size
    return matcher


def change_during_merge(
    monkeypatch: pytest.MonkeyPatch, matcher: Matcher, change: Callable[[], Any]
) -> None:
    """Merge everything; call `change` when the new segment is built but not yet visible."""
    merge = SegmentBuilder.merge
    calls: list[int] = []

    def merge_and_change(self: SegmentBuilder, *arguments: Any) -> Any:
        segment = merge(self, *arguments)
        calls.append(1)
        change()
        return segment

    with monkeypatch.context() as patch:
        patch.setattr(SegmentBuilder, "merge", merge_and_change)
        matcher.optimize()
    assert calls == [1]


# --- Changes during a merge ---------------------------------------------------------------


def test_rules_removed_during_a_merge_stay_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = make_matcher(300, 100)

    def change() -> None:
        matcher.remove(5)
        matcher.remove_many([310, 7])
        with pytest.raises(UnknownRuleError):
            matcher.remove(5)

    change_during_merge(monkeypatch, matcher, change)
    assert matcher.stats()["segments"] == 1
    expected = [n for n in range(400) if n not in (5, 7, 310)]
    assert matcher.match(EVENT) == list(matcher) == expected
    assert len(matcher) == 397
    settle(matcher)
    assert matcher.match(EVENT) == expected


def test_a_rule_may_be_removed_and_added_again_during_a_merge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = make_matcher(300, 100)

    def change() -> None:
        for text in ("x = 2", "x = 1"):
            matcher.remove(5)
            matcher.add(5, text)
        with pytest.raises(DuplicateRuleError):
            matcher.add(5, "x = 1")
        matcher.add(6, "x = 3", replace=True)

    change_during_merge(monkeypatch, matcher, change)
    expected = [n for n in range(400) if n not in (5, 6)]
    assert matcher.match(EVENT) == [*expected, 5]
    assert list(matcher) == [*expected, 5, 6]
    settle(matcher)
    assert list(matcher) == [*expected, 5, 6]


def test_all_rules_may_be_replaced_during_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = make_matcher(300, 100)
    change_during_merge(monkeypatch, matcher, lambda: matcher.replace_all([("a", "x = 1")]))
    assert list(matcher) == matcher.match(EVENT) == ["a"]
    settle(matcher)
    assert list(matcher) == ["a"]


def test_all_rules_of_a_segment_may_be_removed_during_a_merge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = make_matcher(300, 100)
    change_during_merge(monkeypatch, matcher, lambda: matcher.remove_many(range(300)))
    settle(matcher)
    assert list(matcher) == matcher.match(EVENT) == list(range(300, 400))


def test_rules_added_during_a_merge_come_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = make_matcher(300, 100)

    def change() -> None:
        matcher.add("tail", "x = 1")
        matcher.add_many([(f"n{i}", "x = 1") for i in range(100)])
        matcher.add("again", "x = 1")

    change_during_merge(monkeypatch, matcher, change)
    expected = [*range(400), "tail", *(f"n{i}" for i in range(100)), "again"]
    assert matcher.match(EVENT) == list(matcher) == expected
    settle(matcher)
    assert matcher.match(EVENT) == expected
    assert matcher.stats()["segments"] <= 2


@pytest.mark.parametrize("more", [0, 1, 100])
def test_changes_during_the_freezing_of_the_tail_are_kept(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    matcher = Matcher()
    freeze = SegmentBuilder.freeze
    pending = [True]

    def freeze_and_change(self: SegmentBuilder, *arguments: Any) -> Any:
        built = freeze(self, *arguments)
        if pending and pending.pop():
            matcher.remove(2)
            matcher.add(2, "x = 1")
            matcher.remove(3)
            matcher.add_many([(f"n{i}", "x = 1") for i in range(more)])
        return built

    monkeypatch.setattr(matcher._writer._worker, "wake", lambda: None)
    monkeypatch.setattr(SegmentBuilder, "freeze", freeze_and_change)
    matcher.add_many([(n, "x = 1") for n in range(6)])
    settle(matcher)
    assert matcher.match(EVENT) == [0, 1, 4, 5, 2, *(f"n{i}" for i in range(more))]
    assert len(matcher) == len(list(matcher)) == 5 + more


def test_of_several_writers_one_removes_a_rule() -> None:
    matcher = make_matcher(200)
    outcomes: list[str] = []

    def remove() -> None:
        for number in range(200):
            try:
                matcher.remove(number)
                outcomes.append("removed")
            except UnknownRuleError:
                outcomes.append("unknown")

    threads = [threading.Thread(target=remove) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (outcomes.count("removed"), outcomes.count("unknown")) == (200, 400)
    assert len(matcher) == 0


# --- Changes that are all or nothing ----------------------------------------------------


@pytest.mark.parametrize("count", [0, 3, 200])
def test_all_rules_are_replaced_or_none(count: int) -> None:
    matcher = make_matcher(150)
    matcher.add("tail", "x = 1")
    new = [(f"n{i}", "x = 1") for i in range(count)]
    with pytest.raises(RuleError, match="'bad'"):
        matcher.replace_all([*new, ("bad", "x =")])
    assert len(matcher) == 151
    report = matcher.replace_all([*new, ("bad", "x =")], on_error="skip")
    assert (report.added, [bad.id for bad in report.bad]) == (count, ["bad"])
    assert matcher.match(EVENT) == list(matcher) == [id for id, _ in new]
    matcher.add(5, "x = 1")
    assert matcher.match(EVENT)[-1] == 5


def test_readers_see_either_all_old_or_all_new_rules() -> None:
    matcher = Matcher()
    sizes = (150, 3, 80)
    matcher.replace_all([(f"0.{i}", "x = 1") for i in range(sizes[0])])
    done = threading.Event()
    wrong: list[Any] = []

    def read() -> None:
        while not done.is_set():
            found = matcher.match(EVENT)
            versions = {str(id).partition(".")[0] for id in found}
            if len(versions) != 1 or len(found) != sizes[int(versions.pop()) % 3]:
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for version in range(1, 30):
        matcher.replace_all([(f"{version}.{i}", "x = 1") for i in range(sizes[version % 3])])
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


def test_a_batch_is_removed_completely_or_not_at_all() -> None:
    matcher = make_matcher(100)
    with pytest.raises(UnknownRuleError, match="'unknown'"):
        matcher.remove_many([1, 2, "unknown"])
    with pytest.raises(UnknownRuleError, match=r"\[\]"):
        matcher.remove_many([1, []])  # type: ignore[list-item]
    assert len(matcher) == 100
    assert matcher.remove_many(iter([1, 2, 2, 1])) == 2
    assert matcher.remove_many([]) == 0
    assert len(matcher) == 98
    with pytest.raises(RuleError, match="list of ids"):
        matcher.remove_many("1")


# --- The background thread ----------------------------------------------------------------


def test_the_background_thread_freezes_the_tail() -> None:
    matcher = Matcher()
    for number in range(20):
        matcher.add(number, "x = 1")
        assert matcher.match(EVENT) == list(range(number + 1))
    wait_until(lambda: matcher.stats()["tail"] == 0 and matcher.stats()["segments"] == 1)
    assert matcher.match(EVENT) == list(range(20))


def test_no_thread_runs_when_there_is_no_work() -> None:
    before = set(threading.enumerate())  # threads of other tests may end during this one
    matcher = make_matcher(200)
    matcher.match(EVENT)
    assert set(threading.enumerate()) <= before
    with matcher:
        matcher.add("r", "x = 1")
    assert set(threading.enumerate()) <= before
    matcher.add("s", "x = 1")
    matcher.close()
    matcher.close()
    assert matcher.match(EVENT)[-2:] == ["r", "s"]


def test_a_matcher_and_its_thread_are_collected() -> None:
    matcher = Matcher()
    matcher.add("r", "x = 1")
    writer = weakref.ref(matcher._writer)
    del matcher

    def is_gone() -> bool:
        gc.collect()
        return writer() is None

    wait_until(is_gone)


@pytest.mark.parametrize("kind", [MemoryError, ValueError])
def test_a_background_error_is_raised_once(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    matcher = Matcher()

    def fail(*_: Any) -> None:
        raise kind("boom")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentBuilder, "freeze", fail)
        matcher.add("r", "x = 1")
        wait_until(lambda: matcher._writer._failure)
    assert matcher.match(EVENT) == ["r"]
    with pytest.raises(BackgroundError, match="boom") as caught:
        matcher.add("s", "x = 1")
    assert isinstance(caught.value.__cause__, kind)
    assert list(matcher) == ["r"]
    matcher.add("s", "x = 1")
    wait_until(lambda: matcher.stats()["tail"] == 0)
    assert matcher.match(EVENT) == ["r", "s"]


def test_a_background_error_is_raised_by_close(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher()
    matcher._writer.note_failure(ValueError("boom"))
    with pytest.raises(BackgroundError, match="boom"):
        matcher.close()
    matcher.close()


def test_the_interpreter_exits_while_the_thread_is_busy() -> None:
    code = """
import tamis
m = tamis.Matcher()
for i in range(300):
    m.add(i, f"x = {i}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- Which segments are merged ----------------------------------------------------------


def merge_down(sizes: Sequence[int], quiet: bool) -> list[int]:
    left = list(sizes)
    while (run := find_run_to_merge([Load(n, n) for n in left], quiet)) is not None:
        assert len(run) > 1
        left[run.start : run.stop] = [sum(left[run.start : run.stop])]
    return left


@pytest.mark.parametrize(
    ("sizes", "busy", "quiet"),
    [
        ([], [], []),
        ([5], [5], [5]),
        ([1_000, 1], [1_000, 1], [1_000, 1]),
        ([1_000, 400], [1_000, 400], [1_400]),
        ([1_000, 500], [1_500], [1_500]),
        ([1_000, 10, 5, 5], [1_000, 20], [1_000, 20]),
        ([10, 1_000], [1_010], [1_010]),
        ([10**6, 10**5, 10**4, 10], [10**6, 10**5, 10**4, 10], [1_110_000, 10]),
    ],
)
def test_neighbouring_segments_of_similar_size_are_merged(
    sizes: list[int], busy: list[int], quiet: list[int]
) -> None:
    assert merge_down(sizes, quiet=False) == busy
    assert merge_down(sizes, quiet=True) == quiet


def test_rules_added_one_by_one_need_few_merges() -> None:
    segments: list[int] = []
    work = 0
    for _ in range(5_000):
        segments.append(1)
        while (run := find_run_to_merge([Load(n, n) for n in segments], False)) is not None:
            total = sum(segments[run.start : run.stop])
            work += total
            segments[run.start : run.stop] = [total]
        assert len(segments) <= 15
    assert work < 5_000 * 40
    assert len(merge_down(segments, quiet=True)) <= 4


def test_a_segment_with_mostly_removed_rules_is_rebuilt() -> None:
    assert find_run_to_merge([Load(49, 100)], False) == range(1)
    assert find_run_to_merge([Load(50, 100)], False) is None
    assert find_run_to_merge([Load(10_000, 30_000), Load(10, 10)], False) == range(1)
