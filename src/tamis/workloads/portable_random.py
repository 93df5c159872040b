"""Random numbers that are the same on every machine.

They are integer arithmetic on the raw 64-bit output of PCG64, whose stream NumPy guarantees, so a
seed gives the same workload everywhere.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ints", "PortableRandom", "cumulate"]

Ints: TypeAlias = NDArray[np.int64]


def cumulate(frequency: Ints) -> Ints:
    """Cumulative frequencies, from which `PortableRandom.by_frequency` draws."""
    return frequency.cumsum()


class PortableRandom:
    """A stream of random numbers, chosen by a seed and the numbers of the stream."""

    def __init__(self, seed: int, *stream: int) -> None:
        self._raw = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=stream))

    def skip(self, count: int) -> None:
        """Skip `count` numbers, in constant time."""
        self._raw.advance(count)

    def below(self, bound: int | Ints, shape: int | tuple[int, ...] | None = None) -> Ints:
        """Integers from 0 to below `bound`, in `shape` or the shape of `bound`.

        Values are equally likely up to a relative error of `bound` / 2**32.
        """
        size = np.shape(bound) if shape is None else shape
        high = self._bits(size) >> np.uint64(32)
        return ((high * np.asarray(bound, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)

    def chance(self, probability: float, shape: int | tuple[int, ...]) -> NDArray[np.bool_]:
        """True with `probability`."""
        return (self._bits(shape) >> np.uint64(32)) < np.uint64(round(probability * 2**32))

    def by_frequency(self, cumulative: Ints, shape: int | tuple[int, ...]) -> Ints:
        """Positions, each as often as its frequency; `cumulate` gives the cumulative ones."""
        draws = self.below(int(cumulative[-1]), shape)
        return np.searchsorted(cumulative, draws, side="right")

    def distinct_by_frequency(self, cumulative: Ints, shape: tuple[int, int]) -> Ints:
        """As `by_frequency`, but without repetitions in a row."""
        chosen = np.empty(shape, dtype=np.int64)
        for column in range(shape[1]):
            rows = np.arange(shape[0])
            while rows.size:
                drawn = self.by_frequency(cumulative, rows.size)
                chosen[rows, column] = drawn
                rows = rows[(chosen[rows, :column] == drawn[:, None]).any(axis=1)]
        return chosen

    def permutation(self, count: int) -> Ints:
        """The integers below `count`, shuffled."""
        return np.argsort(self._bits(count), kind="stable")

    def permutations(self, rows: int, count: int) -> Ints:
        """In each row, the integers below `count`, shuffled."""
        return np.argsort(self._bits((rows, count)), axis=1, kind="stable")

    def subsets(self, bound: int, count: int, rows: int) -> Ints:
        """In each row, `count` distinct integers below `bound` (Floyd's algorithm)."""
        chosen = np.empty((rows, count), dtype=np.int64)
        for column in range(count):
            top = bound - count + column
            drawn = self.below(top + 1, rows)
            taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
            chosen[:, column] = np.where(taken, top, drawn)
        return chosen

    def _bits(self, shape: int | tuple[int, ...]) -> NDArray[np.uint64]:
        raw: NDArray[np.uint64] = self._raw.random_raw(int(np.prod(shape)))
        return raw.reshape(shape)
