"""The settings that keep other threads responsive, and how they are restored."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from tamis.matcher.write.responsive import clear_in_steps, keep_responsive


@pytest.fixture(autouse=True)
def _restore_settings():
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


def test_containers_are_cleared() -> None:
    items: list[object] = list(range(5_000))
    numbers = {str(i): i for i in range(3_000)}
    names = {str(i) for i in range(3_000)}
    clear_in_steps([items, numbers, names, []])
    assert not items
    assert not numbers
    assert not names
