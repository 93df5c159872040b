"""Lanes: the same results as word by word, and nothing is read after the last word."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target

from tamis.engines.tiles.flat_groups import choose_widths, read_widths
from tamis.engines.tiles.lanes import (
    ATOM_LANES,
    SIGNATURE_LANES,
    copy_chosen,
    find_failing,
    find_fitting,
)

_ATTRIBUTES = 400
_NO_ACCESS, _READ_AND_WRITE = 0, 3


@numba.njit(_nrt=False)
def _fitting(flat: Any, place: Any, count: Any, lacks: Any) -> Any:
    return find_fitting(flat, place, count, lacks)


@numba.njit(_nrt=False)
def _failing(flat: Any, place: Any, count: Any, code: Any, widths: Any) -> Any:
    mask, low_at, high_at, low_mask = widths
    return find_failing(flat, place, count, code, mask, low_at, high_at, low_mask)


@pytest.mark.parametrize("instructions", ["of this machine", "of any machine"])
def test_chosen_numbers_are_copied_one_after_another(
    monkeypatch: pytest.MonkeyPatch, instructions: str
) -> None:
    if instructions == "of any machine":
        code_of_numba = type(cpu_target.target_context.codegen())
        monkeypatch.setattr(code_of_numba, "magic_tuple", lambda _: ("", "", ""))

    @numba.njit(_nrt=False)
    def copy(items: Any, first: Any, chosen: Any, out: Any, at: Any) -> Any:
        return copy_chosen(items, first, chosen, out, at)

    random = np.random.default_rng(1)
    items = random.integers(0, 1 << 31, 70, np.int32)
    masks = [0, 1, 1 << 63, (1 << 64) - 1, *random.integers(0, 1 << 64, 20, np.uint64).tolist()]
    masks += [mask & masks[-1] & masks[-2] for mask in masks] + [mask | masks[-3] for mask in masks]
    for mask in masks:
        chosen = items[[6 + i for i in range(64) if mask >> i & 1]]
        for function in (copy, copy_chosen.plain):
            out = np.full(3 + 64, -1, np.int32)
            end = function(items, np.uint64(6), np.uint64(mask), out, np.uint64(3))
            assert end == 3 + len(chosen)
            assert out[3:end].tolist() == chosen.tolist()
            assert out[:3].tolist() == [-1] * 3


@pytest.mark.parametrize("count", range(SIGNATURE_LANES + 5))
def test_fitting_signatures_have_no_bit_that_the_event_lacks(count: int) -> None:
    random = np.random.default_rng(count)
    # A few bits each, so that some of them fit.
    flat = np.uint32(1) << random.integers(0, 32, 3 + count, np.uint32)
    lacks = np.uint32(random.integers(0, 1 << 32))
    found = _fitting(flat, 3, count, lacks)
    words = flat[3 : 3 + min(count, SIGNATURE_LANES)]
    assert [found >> i & 1 for i in range(64)] == [
        *(int(word & lacks == 0) for word in words),
        *[0] * (64 - len(words)),
    ]
    assert found == find_fitting.plain(flat, 3, count, lacks)


@pytest.mark.parametrize("count", range(ATOM_LANES + 5))
def test_failing_atoms_are_out_of_range_or_negated(count: int) -> None:
    random = np.random.default_rng(count)
    width = choose_widths(_ATTRIBUTES)
    widths = read_widths.py_func(width)[:4]
    _, low_at, high_at, _ = widths
    code = random.integers(0, 8, _ATTRIBUTES).astype(np.int32)
    attribute, is_negated, low, distance = (
        random.integers(0, most, 3 + count) for most in (_ATTRIBUTES, 2, 6, 6)
    )
    flat = attribute | is_negated << (low_at - 1) | low << low_at | distance << high_at
    words = flat.astype(np.uint32)
    found = _failing(words, 3, count, code, widths)
    here = slice(3, 3 + min(count, ATOM_LANES))
    codes = code[attribute[here]]
    is_inside = (low[here] <= codes) & (codes <= low[here] + distance[here])
    fails = is_inside == (is_negated[here] == 1)
    assert [found >> i & 1 for i in range(64)] == [*fails, *[0] * (64 - len(fails))]
    assert found == find_failing.plain(words, 3, count, code, *widths)


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
def test_nothing_is_read_after_the_last_word() -> None:
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as pages:
        # A process that reads the second page ends.
        protect = ctypes.CDLL(None).mprotect
        memory = (ctypes.c_uint8 * (2 * mmap.PAGESIZE)).from_buffer(pages)
        second = ctypes.c_void_p(ctypes.addressof(memory) + mmap.PAGESIZE)
        assert protect(second, ctypes.c_size_t(mmap.PAGESIZE), _NO_ACCESS) == 0
        flat = np.ctypeslib.as_array(memory).view(np.uint32)[: mmap.PAGESIZE // 4]
        last = len(flat) - 5
        assert _fitting(flat, last, 5, np.uint32(1)) == 0b11111
        assert _failing(flat, last, 5, np.ones(512, np.int32), (511, 10, 21, 2047)) == 0b11111
        protect(second, ctypes.c_size_t(mmap.PAGESIZE), _READ_AND_WRITE)
        del flat, memory
