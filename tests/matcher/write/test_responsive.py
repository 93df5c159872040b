"""The settings that keep other threads responsive, and how they are restored."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from tamis.matcher.write import responsive
from tamis.matcher.write.responsive import (
    age_objects,
    clear_in_steps,
    collect_in_steps,
    giving_way,
    keep_responsive,
)
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _restore_settings() -> Iterator[None]:
    # The threads of matchers that other tests have left behind change the settings, too.
    settings = responsive._interval, responsive._collector, responsive._thresholds
    wait_until(lambda: not any(setting._users for setting in settings))
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)
    gc.enable()


def test_settings_are_restored_after_nesting() -> None:
    sys.setswitchinterval(0.003)
    with keep_responsive():
        assert sys.getswitchinterval() < 0.001
        assert not gc.isenabled()
        with keep_responsive():
            assert not gc.isenabled()
        assert sys.getswitchinterval() < 0.001
        assert not gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(0.003)
    assert gc.isenabled()


def test_settings_are_restored_after_an_error() -> None:
    sys.setswitchinterval(0.003)
    with pytest.raises(KeyError), keep_responsive():
        raise KeyError
    assert sys.getswitchinterval() == pytest.approx(0.003)
    assert gc.isenabled()


def test_settings_of_the_caller_are_kept() -> None:
    gc.disable()
    sys.setswitchinterval(1e-5)
    with keep_responsive():
        assert sys.getswitchinterval() == pytest.approx(1e-5)
    assert sys.getswitchinterval() == pytest.approx(1e-5)
    assert not gc.isenabled()
    sys.setswitchinterval(0.003)
    with keep_responsive():
        sys.setswitchinterval(0.004)
    assert sys.getswitchinterval() == pytest.approx(0.004)


def test_full_collections_are_rare_while_rules_change() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        with collect_in_steps():
            youngest, young, old = gc.get_threshold()
            assert youngest == 700
            assert young < 10 < old
        assert gc.get_threshold() == (700, 10, 10)
        with collect_in_steps():
            gc.set_threshold(800, 9, 8)
        assert gc.get_threshold() == (800, 9, 8), "the application has set them meanwhile"
    finally:
        gc.set_threshold(*before)


def test_the_last_of_several_threads_restores_the_settings() -> None:
    sys.setswitchinterval(0.003)
    inside, released = threading.Event(), threading.Event()

    def keep_until_released() -> None:
        with keep_responsive():
            inside.set()
            assert released.wait(30)

    thread = threading.Thread(target=keep_until_released)
    with keep_responsive():
        thread.start()
        assert inside.wait(30)
    assert not gc.isenabled()
    released.set()
    thread.join()
    assert gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(0.003)


@pytest.mark.parametrize("place", ["read", "change", "restore"])
@pytest.mark.parametrize("before", [False, True], ids=["before", "after"])
def test_an_interrupt_leaves_the_setting_as_it_was(place: str, before: bool) -> None:
    """An interrupt just before or after the setting is read, changed or restored."""
    value = 1
    interrupts = [KeyboardInterrupt]

    def interrupt(at: str, is_before: bool) -> None:
        if at == place and is_before is before and interrupts:
            raise interrupts.pop()

    def read() -> int:
        interrupt("read", True)
        return value

    def change() -> None:
        nonlocal value
        interrupt("read", False)
        interrupt("change", True)
        value = 2
        interrupt("change", False)

    def restore(old: int) -> None:
        nonlocal value
        interrupt("restore", True)
        value = old
        interrupt("restore", False)

    setting = responsive._Setting(read, change, restore)
    with pytest.raises(KeyboardInterrupt), setting.changed():
        assert value == 2
    assert value == 1
    with setting.changed():
        assert value == 2
    assert value == 1


def test_a_child_has_the_collector_and_the_interval_of_its_parent() -> None:
    before = gc.isenabled(), sys.getswitchinterval()
    with keep_responsive():
        assert not gc.isenabled()
        pid = os.fork()
        if pid == 0:
            os._exit((gc.isenabled(), sys.getswitchinterval()) != before)
    assert os.waitpid(pid, 0)[1] == 0


def test_containers_are_cleared() -> None:
    items: list[object] = list(range(5_000))
    numbers = {str(i): i for i in range(3_000)}
    names = {str(i) for i in range(3_000)}
    clear_in_steps([items, numbers, names, []])
    assert not items
    assert not numbers
    assert not names


def test_items_pass_while_the_caller_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    last, given = -1, []
    monkeypatch.setattr(responsive, "give_way", lambda: given.append(last))
    for item in giving_way(iter(range(100))):
        assert item == last + 1
        last = item
    assert given == [31, 63, 95, 99]


def test_young_objects_become_old_after_work_on_many_rules() -> None:
    gc.collect()
    kept = [[number] for number in range(100)]
    with keep_responsive():
        age_objects(10)
        assert _count_among(kept, gc.get_objects(generation=2)) == 0
        age_objects(10_000)
        assert _count_among(kept, gc.get_objects(generation=2)) == 100
    assert gc.get_freeze_count() == 0


def test_objects_that_an_application_has_frozen_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        age_objects(10_000)
        assert gc.get_freeze_count() >= frozen - 100  # Some may have been freed meanwhile.
    finally:
        gc.unfreeze()


def _count_among(items: list[list[int]], objects: list[object]) -> int:
    there = set(map(id, objects))
    return sum(id(item) in there for item in items)
