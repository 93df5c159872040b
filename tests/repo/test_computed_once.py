"""A property that is computed once holds no lock, which a forked child would wait for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tamis.forks import computed_once

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tamis"


class Slow:
    """Its value takes as long as a test wants."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.times = 0

    @computed_once
    def value(self) -> list[int]:
        """A new list."""
        self.times += 1
        self.begun.set()
        assert self.may_end.wait(60)
        return [self.times]


def test_another_object_does_not_wait() -> None:
    slow, other = Slow(), Slow()
    other.may_end.set()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(lambda: slow.value)
        assert slow.begun.wait(60)
        assert threads.submit(lambda: other.value).result(60) == [1]
        slow.may_end.set()
        assert waiting.result(60) == [1]


def test_all_threads_get_the_first_value() -> None:
    slow = Slow()
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(lambda: slow.value) for _ in range(4)]
        assert slow.begun.wait(60)
        slow.may_end.set()
        found = [each.result(60) for each in waiting]
    assert all(value is slow.value for value in found)


def test_no_property_of_a_matcher_holds_a_lock() -> None:
    layers = ("expr", "encode", "engines", "joins", "matcher")
    files = [path for layer in layers for path in (SOURCE / layer).rglob("*.py")]
    assert [path for path in files if "cached_property" in path.read_text("utf-8")] == []
