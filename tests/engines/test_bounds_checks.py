"""Kernels compiled with bounds checks also check what they reach through addresses and intrinsics.

`make attack PART=bounds` runs the engines and hostile files on such kernels. Numba reads its
setting when it is imported, so the kernels here run in a process of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

SCRIPT = """
import json
import numba, numpy as np
from typing import Any, NamedTuple
from tamis.encode.addresses import int32s_at
from tamis.engines.kernels.address_block import AddressBlock, Column, make_reader
from tamis.engines.kernels.bits import find_nonzero
from tamis.engines.tiles.lanes import copy_chosen, find_failing, find_fitting

class Pair(NamedTuple):
    flat: Any
    table: Any

read = make_reader(Pair, 0, {"flat": Column(np.int32), "table": Column(np.int64, 3)})
kernel = numba.njit(_nrt=False)

@kernel
def flat(block, row): return read(block).flat[row]
@kernel
def table(block, row): return read(block).table[row, 2]
@kernel
def column(block, at): return read(block).table[0, at]
@kernel
def at_address(numbers, place): return int32s_at(numbers, place)[0]
@kernel
def fitting(words, place): return find_fitting(words, place, 5, np.uint32(1))
@kernel
def failing(words, place, code): return find_failing(words, place, 5, code, 255, 9, 20, 255)
@kernel
def copied(items, first, out, at):
    return copy_chosen(items, np.uint64(first), np.uint64(1), out, np.uint64(at))
@kernel
def nonzero(words, first): return find_nonzero(words, np.uint64(first))

pair = Pair(np.zeros(4, np.int32), np.zeros((4, 3), np.int64))
block = AddressBlock((read, pair))
words, code = np.full(8, 2, np.uint32), np.zeros(3, np.int32)
items, out, line = np.zeros(65, np.int32), np.zeros(65, np.int32), np.zeros(9, np.uint64)
numbers = np.array([pair.flat.ctypes.data, 4, pair.flat.ctypes.data], np.int64)
calls = {
    "flat": (flat, (block.block, 3), (block.block, 4)),
    "table": (table, (block.block, 3), (block.block, 4)),
    "column": (column, (block.block, 2), (block.block, 3)),
    "block": (table, (block.block, 0), (block.block[:3], 0)),
    "address": (at_address, (numbers, 0), (numbers, 2)),
    "signatures": (fitting, (words, 3), (words, 4)),
    "signatures below": (fitting, (words, 0), (words, -1)),
    "atoms": (failing, (words, 3, code), (words, 4, code)),
    "codes": (failing, (words, 3, code), (words, 3, code[:2])),
    "copied from": (copied, (items, 1, out, 1), (items, 2, out, 1)),
    "copied to": (copied, (items, 1, out, 1), (items, 1, out, 2)),
    "marks": (nonzero, (line, 1), (line, 2)),
}
seen = {}
for name, (call, inside, outside) in calls.items():
    call(*inside)
    try:
        call(*outside)
        seen[name] = False
    except IndexError:
        seen[name] = True
print(json.dumps(seen))
"""

CALLS = (
    "flat", "table", "column", "block", "address", "signatures", "signatures below", "atoms",
    "codes", "copied from", "copied to", "marks",
)  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_kernel_with_bounds_checks_refuses_what_lies_outside(name: str) -> None:
    assert _run()[name]


@cache
def _run() -> dict[str, bool]:
    """Whether each call that reaches outside of an array raises an IndexError."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    seen: dict[str, bool] = json.loads(done.stdout)
    return seen
