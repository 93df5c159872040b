"""The tail: rules in no segment yet, in buffers with and without trees."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import pytest

import tamis
from tamis import Matcher
from tamis.expr.event import flatten
from tamis.matcher import tail
from tamis.matcher.write import builder, writer
from tamis.matcher.write.writer import Writer
from tests import randoms
from tests.matcher import test_random_operations as operations
from tests.matcher.test_random_operations import Shadow

EVENT = {"x": 1}
_RANDOM = Random(4)
EVENTS = [EVENT, {}, *(randoms.event(_RANDOM, randoms.EVERYTHING) for _ in range(40))]


@pytest.fixture(autouse=True)
def _trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """New buffers have trees, and no background thread runs."""
    monkeypatch.setattr(tail, "_is_warm", False)  # so that it is as before in the end
    tail.warm_up()
    monkeypatch.setattr(Writer, "_wake_worker", lambda self: None)


def buffers(matcher: Matcher) -> list[tuple[int, int, bool]]:
    slices = matcher._writer.snapshot.tail._slices
    return [(s.first, s.last, s.buffer.tree is not None) for s in slices]


@pytest.mark.parametrize("seed", range(2))
def test_random_operations_on_the_tail(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "RIPE", 100)
    monkeypatch.setattr(tail, "MOST", 150)
    monkeypatch.setattr(builder, "FEW_RULES", 50)
    shadow = Shadow(Random(seed))
    matcher = Matcher(engine="scan")
    longest = 0
    for step in range(80):
        operations.change(shadow, matcher)
        longest = max(longest, len(matcher._writer.snapshot.tail))
        if shadow.random.random() < 0.2:
            operations.maintain(shadow, matcher)
        if step % 3 == 0:
            shadow.check(matcher)
    assert longest > 40


def test_a_thousand_rules_added_one_by_one() -> None:
    """One matcher with many rules of every kind, some removed, some replaced."""
    random = Random(5)
    shadow, matcher = Shadow(random), Matcher(engine="scan")
    for rule in shadow.new(700):
        matcher.add(rule[0], rule[1], logic=rule[2], tags=["even"] if len(shadow.rules) % 2 else [])
        shadow.add([rule])
    for id in random.sample(list(shadow.rules), 60):
        matcher.remove(id)
        del shadow.rules[id]
    for rule in shadow.new(60, taken=1.0):
        matcher.add(rule[0], rule[1], logic=rule[2], replace=True)
        shadow.add([rule])
    assert [with_tree for _, _, with_tree in buffers(matcher)] == [True]
    chosen = random.sample(list(shadow.rules), 200)
    for _ in range(30):
        event = randoms.event(random, operations.ATTRIBUTES)
        found = shadow.match(flatten(event))
        assert matcher.match(event) == found
        assert matcher.top(event, 5) == shadow.top(flatten(event), 5)
        assert matcher.match(event, only=chosen) == [id for id in found if id in set(chosen)]
        tagged = [id for id in found if "even" in matcher.rule(id).tags]
        assert matcher.match(event, only=tamis.tagged("even")) == tagged
        assert list(matcher.why(event)) == found
    # A search with many events, or with an expression, freezes so many rules.
    assert matcher.match_expression("a = 1") is not None
    assert matcher.stats()["tail"] == 0
    shadow.check(matcher)


def test_an_older_snapshot_does_not_change() -> None:
    matcher = Matcher(engine="scan")
    matcher.add_many([(n, "x = 1") for n in range(10)])
    before = matcher._writer.snapshot
    matcher.add(3, "x = 2", replace=True)
    matcher.add(10, "x = 1")
    matcher.remove(4)
    assert matcher.match(EVENT) == [0, 1, 2, 5, 6, 7, 8, 9, 10]
    assert matcher.rule(3).text == "x = 2"
    reading = tail.LazyEvent(EVENT, matcher._schema)
    assert [entry.rule.id for entry in before.tail.match(reading)] == list(range(10))
    assert list(before.ids()) == list(range(10))
    assert before.find(3).text == "x = 1"  # type: ignore[union-attr]
    assert 10 not in before
    assert 4 in before


def test_rules_added_while_the_tail_is_frozen() -> None:
    matcher = Matcher(engine="scan")
    matcher.add_many([(n, "x = 1") for n in range(10)])
    before = matcher._writer.snapshot
    matcher.remove(4)
    matcher.add(10, "x = 1")
    matcher.add(5, "x = 1", replace=True)
    matcher._writer.freeze_tail(before)
    assert buffers(matcher) == [(10, 12, True)]
    matcher.add(11, "x = 1")
    assert buffers(matcher) == [(10, 12, True), (0, 1, True)], "a frozen buffer does not grow"
    expected = [0, 1, 2, 3, 6, 7, 8, 9, 10, 5, 11]
    assert matcher.match(EVENT) == list(matcher) == expected
    later = matcher._writer.snapshot
    matcher._writer.freeze_tail(before)
    assert matcher._writer.snapshot is later, "the same rules are not frozen twice"
    matcher._writer.freeze_tail(later)
    assert buffers(matcher) == []
    assert matcher.match(EVENT) == list(matcher) == expected


def test_a_change_that_the_journal_refuses_has_no_effect() -> None:
    class Full:
        def check_writable(self) -> None:
            pass

        def append(self, entries: Any) -> None:
            raise OSError("full")

    matcher = Matcher(engine="scan")
    matcher.add("a", "x = 1")
    matcher._writer._journal = Full()  # type: ignore[assignment]
    with pytest.raises(OSError, match="full"):
        matcher.add("b", "x = 1")
    assert matcher.match(EVENT) == ["a"]
    matcher._writer._journal = None
    matcher.add("c", "x = 1")
    assert matcher.match(EVENT) == list(matcher) == ["a", "c"]
    assert "b" not in matcher


def test_a_buffer_without_a_tree_stays_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail, "_is_warm", False)
    matcher = Matcher(engine="scan")
    for number in range(tail.MOST_WITHOUT_TREE):
        matcher.add(number, "x = 1")
    assert buffers(matcher) == [(0, tail.MOST_WITHOUT_TREE, False)]
    matcher.add("next", "x = 1")
    assert buffers(matcher) == [(0, 1, False)]
    monkeypatch.setattr(tail, "_is_warm", True)
    matcher.add("with a tree", "x = 1")
    assert buffers(matcher) == [(0, 1, False), (0, 1, True)]
    assert matcher.match(EVENT) == [*range(tail.MOST_WITHOUT_TREE), "next", "with a tree"]


def test_a_few_rules_without_a_tree_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_is_warm", False)
    matcher = Matcher(engine="scan")
    for number in range(tail.RIPE_WITHOUT_TREE - 1):
        matcher.add(number, "x = 1")
    assert not matcher._writer.compact(quiet=False)
    matcher.add("last", "x = 1")
    assert matcher._writer.compact(quiet=False)
    assert buffers(matcher) == []


def test_trees_are_loaded_once_many_rules_come_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_is_warm", False)
    monkeypatch.setattr(writer, "_SINGLES_BEFORE_TREES", 5)
    matcher = Matcher(engine="scan")
    for number in range(6):
        assert not tail.is_warm()
        matcher.add(number, "x = 1")
    assert matcher._writer.maintain(quiet=False)
    assert tail.is_warm()
    matcher.add(6, "x = 1")
    assert buffers(matcher) == [(0, 6, False), (0, 1, True)]
    assert matcher.match(EVENT) == list(range(7))


def test_a_ripe_tail_is_frozen_although_more_rules_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail, "RIPE", 100)
    matcher = Matcher(engine="scan")
    matcher.add_many([(n, "x = 1") for n in range(10)])
    assert not matcher._writer.compact(quiet=False)
    for number in range(10, 100):
        matcher.add(number, "x = 1")
    assert matcher._writer.compact(quiet=False)
    assert (matcher.stats()["segments"], matcher.stats()["tail"]) == (1, 0)
    matcher.add("late", "x = 1")
    assert matcher._writer.compact(quiet=True), "in quiet times the whole tail is frozen"
    assert matcher.stats()["tail"] == 0


def test_a_forked_child_does_not_wait_for_locks_of_the_parent() -> None:
    matcher = Matcher(engine="scan")
    matcher.add_many([(n, "x = 1") for n in range(10)])
    (part,) = matcher._writer.snapshot.tail._slices
    tree = part.buffer.tree
    assert tree is not None
    found: list[Any] = []

    def add_and_match() -> None:
        matcher.add(10, "x = 1")
        found.extend(matcher.match(EVENT))

    with tree._lock, matcher._builder._reader._lock:
        matcher._writer.after_fork()
        child = threading.Thread(target=add_and_match, daemon=True)
        child.start()
        child.join(30)
    assert found == list(range(11))


def test_rules_wait_until_events_are_searched_for() -> None:
    """What is added without a search is in no tree; after one, each addition inserts a few."""
    matcher = Matcher()
    for number in range(30):
        matcher.add(number, f"x = {number % 3}")
    (part,) = matcher._writer.snapshot.tail._slices
    assert part.buffer.inserted == 0
    for number in range(30, 60):
        wanted = [other for other in range(number) if other % 3 == 1]
        assert matcher.match(EVENT) == wanted
        matcher.add(number, f"x = {number % 3}")
        inserted = (number - 29) * tail._INSERTED_AT_ONCE
        assert part.buffer.inserted == min(inserted, number + 1)
    matcher.remove(1)
    matcher.remove(59)
    assert matcher.match(EVENT) == [other for other in range(4, 59) if other % 3 == 1]


def test_rules_that_are_added_between_searches_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search finds few rules waiting, however many are added until the next one."""
    monkeypatch.setattr(tail, "_LIVELY", 50)
    matcher = Matcher()
    matcher.add(0, "x = 1")
    assert matcher.match(EVENT) == [0]
    for number in range(1, 60):
        matcher.add(number, "x = 1")
    (part,) = matcher._writer.snapshot.tail._slices
    assert part.buffer.inserted == 51
    assert matcher.match(EVENT) == list(range(60))


def test_no_more_than_so_many_rules_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MOST_WAITING", 20)
    matcher = Matcher()
    for number in range(100):
        matcher.add(number, "x = 1")
    (part,) = matcher._writer.snapshot.tail._slices
    assert 100 - part.buffer.inserted <= 20
    assert matcher.match(EVENT) == list(range(100))


@pytest.mark.parametrize("engine", ["scan", "auto"])
def test_a_tail_of_every_kind_of_rule_becomes_a_segment(engine: str) -> None:
    """Kernels read most texts again; models, weights and rare texts take another road."""
    shadow, matcher = Shadow(Random(9)), Matcher(engine=engine)
    for rule in shadow.new(60):
        matcher.add(rule[0], rule[1], logic=rule[2])
        shadow.add([rule])
    matcher.add("model", tamis.parse("x = 1 OR NOT y > 2"), weights={("x", 1): 2.0})
    before = [matcher.match(event) for event in EVENTS]
    matcher.optimize()
    assert [matcher.match(event) for event in EVENTS] == before
    assert not matcher._writer.snapshot.tail
    assert matcher.rule("model").weights == {("x", 1): 2.0}
    assert "model" in matcher.match(EVENT)


def test_a_removed_rule_leaves_the_tree_once_no_snapshot_sees_it() -> None:
    matcher = Matcher()
    for number in range(5):
        matcher.add(number, "x = 1")
    old = matcher._writer.snapshot.tail
    matcher.remove(2)
    (part,) = matcher._writer.snapshot.tail._slices
    part.buffer.insert_waiting(5)
    tree = part.buffer.tree
    assert tree is not None
    event = tree.encoder.encode(EVENT)
    matcher._writer.snapshot.tail.adapt()
    assert tree.match(event) == [0, 1, 2, 3, 4]
    assert [entry.rule.id for entry in old] == [0, 1, 2, 3, 4]
    del old
    matcher._last_searcher = None
    assert matcher._writer.snapshot.tail.adapt()
    assert tree.match(event) == [0, 1, 3, 4]
    assert not matcher._writer.snapshot.tail.adapt()
    assert matcher.match(EVENT) == [0, 1, 3, 4]


def test_the_background_work_has_trees_observe_events() -> None:
    matcher = Matcher()
    for number in range(100):
        matcher.add(number, f"a > 0 AND b{number % 5} = {number}")
    (part,) = matcher._writer.snapshot.tail._slices
    part.buffer.insert_waiting(100)
    for number in range(400):
        assert matcher.match({"a": 1, "b0": 5 * (number % 20)}) == [5 * (number % 20)]
    assert part.buffer.tree is not None
    assert not part.buffer.tree._tree.books.presence.any()
    assert matcher._writer.maintain(quiet=False)
    assert part.buffer.tree._tree.books.presence[-1] == 50
    assert matcher.match({"a": 1, "b3": 8}) == [8]


def test_rules_of_a_frozen_tail_are_freed_once_no_reader_sees_them() -> None:
    matcher = Matcher(engine="scan")
    for number in range(5):
        matcher.add(number, f"x = {number} OR y LIKE 'a%'")
    (part,) = matcher._writer.snapshot.tail._slices
    part.buffer.insert_waiting(5)
    buffer, reader = part.buffer, matcher._writer.snapshot
    del part
    matcher._writer.maintain(quiet=False)
    matcher._writer.freeze_tail(reader)
    matcher._writer.maintain(quiet=False)
    assert [entry.rule.id for entry in reader.tail] == [0, 1, 2, 3, 4]
    matcher.add("new", "x = 1")
    del reader
    matcher._writer.maintain(quiet=False)
    assert not buffer.entries
    assert buffer.tree is not None
    assert not any(buffer.tree.containers())
    assert matcher.match(EVENT) == list(matcher.match(EVENT)) == [1, "new"]


def test_in_quiet_times_an_old_tail_is_left_to_its_reader() -> None:
    matcher = Matcher(engine="scan")
    matcher.add("a", "x = 1")
    reader = matcher._writer.snapshot
    matcher._writer.maintain(quiet=False)
    assert matcher._writer._remains._buffers
    while matcher._writer.maintain(quiet=True):
        pass
    assert not matcher._writer._remains._buffers
    assert [entry.rule.id for entry in reader.tail] == ["a"]


def test_a_new_segment_knows_the_values_that_events_had() -> None:
    matcher = Matcher()
    matcher.add_many([(number, f"x = {number} OR y = TRUE") for number in range(300)])
    events = [*EVENTS, {"x": 7}, {"x": 7, "y": True}, {"y": False}, {"x": "7"}, {"z": 1}]
    matcher.add("new", "x = 7 AND y IS NULL")
    before = [matcher.match(event) for event in events]
    matcher._writer.freeze_tail(matcher._writer.snapshot)
    old, new = (view.segment for view in matcher._writer.snapshot.views)
    seen, known = old._encoders.events.last_seen(100), new._encoders.events.last_seen(100)
    assert set(known) <= set(seen)
    assert ("x", 7) in [item[:2] for item in known]
    assert len(new.engine._spares) == 1
    assert [matcher.match(event) for event in events] == before
    assert not new.engine._spares
