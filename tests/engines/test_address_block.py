"""Blocks of addresses: a kernel sees the arrays whose addresses it was given."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy as np
import pytest

from tamis.encode.kernel import kernel
from tamis.engines.kernels.address_block import AddressBlock, Column, make_reader


class Pair(NamedTuple):
    flat: Any
    table: Any


class Single(NamedTuple):
    marks: Any


read_pair = make_reader(Pair, 0, {"flat": Column(np.int32), "table": Column(np.int64, 3)})
read_single = make_reader(Single, 2, {"marks": Column(np.uint8)})


@kernel
def add_up(block, row):
    pair, single = read_pair(block), read_single(block)
    single.marks[row] += 1
    return pair.flat[row] + pair.table[row, 2] + len(pair.flat) + len(pair.table)


def arrays() -> tuple[Pair, Single]:
    return (
        Pair(np.array([5, 6], np.int32), np.arange(12).reshape(4, 3)),
        Single(np.zeros(2, np.uint8)),
    )


def test_a_kernel_reads_and_writes_the_arrays_of_a_block() -> None:
    pair, single = arrays()
    block = AddressBlock((read_pair, pair), (read_single, single))
    assert add_up(block.block, 1) == 6 + 5 + 2 + 4
    assert single.marks.tolist() == [0, 1]
    # As plain Python, before the kernel is compiled, it reads the same memory.
    assert read_pair.plain(block.block).table.tolist() == pair.table.tolist()


def test_a_block_keeps_its_arrays_alive() -> None:
    block = AddressBlock(*zip((read_pair, read_single), arrays(), strict=True))
    gc.collect()
    filler = [np.full((4, 3), 99) for _ in range(100)]
    assert add_up(block.block, 0) == 5 + 2 + 2 + 4
    assert len(filler) == 100


@pytest.mark.parametrize(
    ("flat", "table"),
    [
        (np.zeros(2, np.int64), np.zeros((4, 3), np.int64)),
        (np.zeros(2, np.int32), np.zeros((4, 2), np.int64)),
        (np.zeros(2, np.int32), np.zeros(12, np.int64)),
        (np.zeros(4, np.int32)[::2], np.zeros((4, 3), np.int64)),
    ],
)
def test_an_array_of_another_type_is_refused(flat: Any, table: Any) -> None:
    with pytest.raises(TypeError, match="not contiguous"):
        AddressBlock((read_pair, Pair(flat, table)))
