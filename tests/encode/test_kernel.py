"""How kernels are compiled."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.core import event

from tamis.encode.compiler.pipeline import InlineParts
from tamis.encode.kernel import brief_kernel, event_kernel, kernel, part

_ONE, _TWO = 1, 2


@kernel
def _add_from(values, first):
    total = 0
    for i in range(first, len(values)):
        total += values[i]
    return total


@kernel
def _add_tails(values, first):
    tails = _add_from(values, 0) + _add_from(values, _ONE) + _add_from(values, _TWO)
    return tails + _add_from(values, first)


def test_no_kernel_is_compiled_for_a_literal(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Three literals and a number of the caller: one compilation."""
    monkeypatch.setenv("TAMIS_KERNEL_CACHE", str(tmp_path_factory.mktemp("kernels")))
    monkeypatch.setenv("TAMIS_KERNELS", "wait")
    for made in (_add_from, _add_tails):
        # An earlier run may have left them on disk.
        monkeypatch.setattr(made._cache, "load_overload", lambda *_: None)
    with event.install_recorder("numba:compile") as recorder:
        assert _add_tails(np.array([1, 2, 3]), 2) == 6 + 5 + 3 + 3
    ended = [e for _, e in recorder.buffer if e.is_end]
    names = [e.data["dispatcher"].py_func.__name__ for e in ended]
    assert names == ["_add_from", "_add_tails"]


@part
def _is_even(number):
    return number % 2 == 0


@part
def _count_even(values):
    count = 0
    for value in values:
        if _is_even(value):
            count += 1
    return count


@kernel
def _count_even_twice(values):
    return _count_even(values) + _count_even(values)


def test_parts_are_inlined_by_our_own_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("TAMIS_KERNEL_CACHE", str(tmp_path_factory.mktemp("kernels")))
    monkeypatch.setenv("TAMIS_KERNELS", "wait")
    monkeypatch.setattr(_count_even_twice._cache, "load_overload", lambda *_: None)
    with event.install_recorder("numba:run_pass") as recorder:
        assert _count_even_twice(np.array([1, 2, 4, 5])) == 4
    passes = [e.data["name"].split()[0] for _, e in recorder.buffer if e.is_start]
    # The kernel, the part in both places, and the part's part in each of them.
    assert passes.count("inline_parts") == 5
    assert "inline_inlinables" not in passes
    assert not _count_even.overloads, "a part is not compiled by itself"


@kernel
def _count_odd(values):
    return len(values) - _count_even(values)


@pytest.mark.parametrize("threshold", [700, 0])
def test_garbage_is_collected_rarely_while_a_kernel_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, threshold: int
) -> None:
    """A collector that is turned off, by a threshold of 0, stays off."""
    monkeypatch.setenv("TAMIS_KERNEL_CACHE", str(tmp_path_factory.mktemp("kernels")))
    monkeypatch.setenv("TAMIS_KERNELS", "wait")
    monkeypatch.setattr(_count_odd._cache, "load_overload", lambda *_: None)
    during, lower = set(), InlineParts.run_pass

    def run_pass(self: InlineParts, state: Any) -> Any:
        during.add(gc.get_threshold()[0])
        return lower(self, state)

    monkeypatch.setattr(InlineParts, "run_pass", run_pass)
    _count_odd.overloads.clear()
    before = gc.get_threshold()
    try:
        gc.set_threshold(threshold)
        _count_odd.compile((types.int64[::1],))
        after = gc.get_threshold()
    finally:
        gc.set_threshold(*before)
    assert after[0] == threshold
    assert during == {200_000 if threshold else 0}


def _spin(steps):
    total = np.uint64(1)
    for i in range(steps):
        total = total * np.uint64(6364136223846793005) + np.uint64(i)
    return total


_spin_briefly, _spin_aside = brief_kernel(_spin), event_kernel(_spin)


@pytest.mark.parametrize(("spin", "others_run"), [(_spin_briefly, False), (_spin_aside, True)])
def test_a_brief_kernel_keeps_other_threads_waiting(
    monkeypatch: pytest.MonkeyPatch, spin: Any, others_run: bool
) -> None:
    monkeypatch.setenv("TAMIS_KERNELS", "wait")
    spin(1)
    steps, ticks, is_over = 400_000_000, 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not is_over.is_set():
            time.sleep(0.001)
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    spin(steps)
    during = ticks - before
    is_over.set()
    thread.join()
    # A thread may still tick before the kernel begins, for as long as the interpreter lets it.
    assert (during > 10) == others_run
