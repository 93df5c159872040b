"""The scheduler of interleavings: it replays, finds deadlocks, and its rounds find faults."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from attack.interleavings import run_round
from attack.scheduler import Deadlock, Scheduler
from tamis.joins.documents import Documents

_SEED = 1


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that uses locks, clocks and threads."""
    made: Any = ModuleType("scheduled_module")
    made.threading, made.time = threading, time
    monkeypatch.setitem(sys.modules, "scheduled_module", made)
    return made


def run_both(scheduler: Scheduler, *works: Callable[[], object]) -> None:
    scheduler.join([scheduler.create(work, f"thread {n}") for n, work in enumerate(works)])


@pytest.mark.parametrize("number", [1, 2, 7, 10, 11, 12, 13])
def test_round_finds_nothing(number: int) -> None:
    _, session = run_round(_SEED, number)
    assert session.failures == []
    assert session.operations > 150


def test_seed_replays_a_schedule() -> None:
    run_round(_SEED, 9)  # What is loaded once is loaded.
    first, second = (run_round(_SEED, 9)[1].scheduler for _ in range(2))
    assert first.trace == second.trace
    assert first.switches == second.switches > 100
    assert run_round(_SEED + 1, 9)[1].scheduler.trace != first.trace


def test_change_between_match_and_add_is_seen() -> None:
    def remove(documents: Documents, id: Any) -> None:
        documents._store.remove(id)

    with patch.object(Documents, "remove", remove):
        found = [run_round(_SEED, number)[1].failures for number in (3, 10, 24, 31)]
    assert any("fit into one order" in failure for failures in found for failure in failures)


def test_deadlock_is_seen(module: Any) -> None:
    def take(first: Any, second: Any) -> None:
        with first, second:
            pass

    def find(seed: int) -> bool:
        scheduler = Scheduler(Random(seed))
        with scheduler.installed(("scheduled_module",)):
            one, two = module.threading.Lock(), module.threading.Lock()
            try:
                run_both(scheduler, lambda: take(one, two), lambda: take(two, one))
            except Deadlock as error:
                assert "thread 0 waits for a lock, thread 1 waits for a lock" in str(error)
                return True
        return False

    assert {find(seed) for seed in range(20)} == {False, True}


def test_circle_without_end_is_seen(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attack.scheduler._MOST_POINTS", 1_000)
    scheduler = Scheduler(Random(1))

    def spin() -> None:
        while module.time.time():
            pass

    with scheduler.installed(("scheduled_module",)):
        run_both(scheduler, spin, spin)
    assert [failure.partition(": ")[2] for failure in scheduler.failures] == [
        "Deadlock: there is no end"
    ] * 2


def test_update_without_a_lock_is_lost_in_some_schedules(module: Any) -> None:
    def count(seed: int, has_lock: bool) -> int:
        scheduler, total = Scheduler(Random(seed)), [0]
        with scheduler.installed(("scheduled_module",)):
            lock = module.threading.Lock()

            def add() -> None:
                for _ in range(3):
                    if has_lock:
                        lock.acquire()
                    before = total[0]
                    module.time.monotonic()
                    total[0] = before + 1
                    if has_lock:
                        lock.release()

            run_both(scheduler, add, add)
        return total[0]

    assert {count(seed, True) for seed in range(10)} == {6}
    assert min(count(seed, False) for seed in range(10)) < 6


def test_clock_is_virtual(module: Any) -> None:
    scheduler = Scheduler(Random(1))
    begin = time.monotonic()
    woken: list[str] = []
    with scheduler.installed(("scheduled_module",)):
        changed = module.threading.Condition()

        def wait(name: str, seconds: float) -> None:
            with changed:
                assert not changed.wait(seconds)
            woken.append(name)

        def sleep() -> None:
            module.time.sleep(50_000)
            woken.append("sleeper")

        run_both(scheduler, sleep, lambda: wait("first", 100), lambda: wait("second", 70_000))
        assert module.time.monotonic() >= 70_000
    assert woken == ["first", "sleeper", "second"]
    assert time.monotonic() - begin < 10_000


def test_modules_get_their_locks_back(module: Any) -> None:
    with Scheduler(Random(1)).installed(("scheduled_module",)):
        assert module.threading is not threading
    assert module.threading is threading
    assert module.time is time
