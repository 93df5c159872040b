"""Sets of marks yield their numbers in order, whatever their sizes, and are empty afterwards."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tamis.encode.compiler.plain import run_plainly
from tamis.encode.kernel import kernel
from tamis.engines.kernels.bits import count_zeros_below, without_lowest_bit
from tamis.engines.kernels.marks import SLACK, count_marked, list_marked, mark, new_marks


@kernel
def _mark_and_list(numbers: Any, marks: Any, lines: Any, words: Any, out: Any) -> Any:
    for number in numbers:
        mark(marks, lines, np.uint64(number))
    return list_marked(marks, words, out)


@kernel
def _mark_and_count(numbers: Any, marks: Any, lines: Any, words: Any) -> Any:
    for number in numbers:
        mark(marks, lines, np.uint64(number))
    return count_marked(marks, words)


@kernel
def _take_lowest(word: Any) -> Any:
    return count_zeros_below(word), without_lowest_bit(word)


@pytest.mark.parametrize("plain", [False, True])
def test_numbers_come_in_order_and_once(plain: bool) -> None:
    list_them = run_plainly(_mark_and_list) if plain else _mark_and_list
    count_them = run_plainly(_mark_and_count) if plain else _mark_and_count
    random = Random(5)
    for size in (1, 63, 64, 65, 511, 513, 4_096, 9_000):
        marks = new_marks(size)
        out = np.empty(size + SLACK, np.int32)
        # From one number to all of them: few, some and many bits in a word.
        for share in (0, 0.01, 0.1, 0.2, 0.5, 1):
            chosen = random.sample(range(size), max(1, round(share * size)))
            numbers = np.array(chosen + chosen[:3], np.int32)
            for _ in range(2):
                found = int(list_them(numbers, *marks, out))
                assert out[:found].tolist() == sorted(chosen)
            assert count_them(numbers, *marks) == len(chosen)
        assert not marks[0].any()
        assert not marks[1].any()


def test_the_lowest_bit_of_every_word_is_found_and_cleared() -> None:
    plainly = run_plainly(_take_lowest)
    for word in (0, 1, 2, 3, 12, 1 << 63, (1 << 64) - 1):
        expected = (word & -word).bit_length() - 1 if word else 64, word & (word - 1)
        assert _take_lowest(np.uint64(word)) == expected
        assert plainly(np.uint64(word)) == expected
