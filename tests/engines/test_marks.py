"""Sets of marks yield their numbers in order, whatever their sizes, and are empty afterwards."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tamis.encode.compiler.plain import run_plainly
from tamis.encode.kernel import kernel
from tamis.engines.kernels.bits import count_zeros_below, find_nonzero, without_lowest_bit
from tamis.engines.kernels.marks import SLACK, count_marked, list_marked, mark, new_marks


@kernel
def _mark_and_list(numbers: Any, marks: Any, lines: Any, words: Any, offset: Any, out: Any) -> Any:
    for number in numbers:
        mark(marks, lines, np.uint64(number))
    return list_marked(marks, words, offset, out)


@kernel
def _mark_and_count(numbers: Any, marks: Any, lines: Any, words: Any) -> Any:
    for number in numbers:
        mark(marks, lines, np.uint64(number))
    return count_marked(marks, words)


@kernel
def _find_nonzero(words: Any, first: Any) -> Any:
    return find_nonzero(words, first)


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
            for offset in (0, 7, -2):
                found = int(list_them(numbers, *marks, offset, out))
                assert out[:found].tolist() == [offset + number for number in sorted(chosen)]
            assert count_them(numbers, *marks) == len(chosen)
        assert not marks[0].any()
        assert not marks[1].any()


@pytest.mark.parametrize("plain", [False, True])
def test_without_room_nothing_is_written_outside_and_the_set_is_empty(plain: bool) -> None:
    list_them = run_plainly(_mark_and_list) if plain else _mark_and_list
    random = Random(6)
    for size, count in ((300, 200), (9_000, 50), (9_000, 8_000)):
        marks = new_marks(size)
        memory = np.full(size + 2 * SLACK, -7, np.int32)
        numbers = np.array(random.sample(range(size), count), np.int32)
        for room in (0, SLACK, count + SLACK - 1, count + SLACK):
            memory[:] = -7
            found = list_them(numbers, *marks, 0, memory[:room])
            assert found == (count if room == count + SLACK else -1)
            assert (memory[room:] == -7).all()
            assert not marks[0].any()
            assert not marks[1].any()
        assert memory[:count].tolist() == sorted(numbers.tolist())


@pytest.mark.parametrize("plain", [False, True])
def test_words_that_are_not_zero_are_found(plain: bool) -> None:
    find = run_plainly(_find_nonzero) if plain else _find_nonzero
    words = np.array([0, 5, 0, 0, 1 << 63, 0, 1, 0, 2, 0], np.uint64)
    assert find(words, np.uint64(0)) == 0b01010010
    assert find(words, np.uint64(1)) == 0b10101001


def test_the_lowest_bit_of_every_word_is_found_and_cleared() -> None:
    plainly = run_plainly(_take_lowest)
    for word in (0, 1, 2, 3, 12, 1 << 63, (1 << 64) - 1):
        expected = (word & -word).bit_length() - 1 if word else 64, word & (word - 1)
        assert _take_lowest(np.uint64(word)) == expected
        assert plainly(np.uint64(word)) == expected
