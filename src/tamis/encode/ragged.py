"""Lists laid end to end: all items in one flat array, and where each list begins and ends."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel

__all__ = [
    "ListBuilder",
    "Lists",
    "concatenate_lists",
    "empty_lists",
    "item_places",
    "list_numbers",
    "narrow_starts",
    "run_places",
    "starts",
    "take_lists",
]

Lists: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Where lists of numbers begin (and the last one ends), and all their items."""

_Items = TypeVar("_Items", bound=np.generic)


class ListBuilder:
    """Lists of 32-bit integers under construction."""

    __slots__ = ("_ends", "items")

    def __init__(self) -> None:
        self.items = array("i")
        self._ends = array("q", [0])

    def append(self, items: Iterable[int]) -> None:
        """Add a list."""
        self.items.extend(items)
        self._ends.append(len(self.items))

    def arrays(self) -> Lists:
        """All lists added so far."""
        return np.array(self._ends, np.int64), np.array(self.items, np.int32)


def starts(sizes: Iterable[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Where lists of these sizes begin, and where the last one ends."""
    counts = sizes if isinstance(sizes, np.ndarray) else np.fromiter(sizes, np.int64)
    start = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=start[1:])
    return start


def narrow_starts(start: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Where lists begin, in 32 bits.

    Raises
    ------
    OverflowError
        There are more items than 32 bits can number.
    """
    if len(start) and not 0 <= start[-1] <= np.iinfo(np.int32).max:
        raise OverflowError("the conjunctions of the rules have more than two billion atoms")
    return start.astype(np.int32, copy=False)


def list_numbers(start: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The number of the list that each item belongs to."""
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def empty_lists(start: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The numbers of the lists without items."""
    return np.flatnonzero(np.diff(start) == 0)


def run_places(
    begin: NDArray[np.integer[Any]], sizes: NDArray[np.integer[Any]]
) -> NDArray[np.int64]:
    """Consecutive numbers: sizes[0] of them from begin[0] on, then sizes[1] from begin[1] on."""
    places = np.empty(int(sizes.sum()), np.int64)
    _fill_runs(begin.astype(np.int64), sizes.astype(np.int64), places)
    return places


def item_places(
    start: NDArray[np.integer[Any]], chosen: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lists `chosen`, in that order: where each begins then, and the old places of items."""
    begin = start[chosen]
    sizes = start[chosen + 1] - begin
    return starts(sizes), run_places(begin, sizes)


def take_lists(
    start: NDArray[np.integer[Any]], items: NDArray[_Items], chosen: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[_Items]]:
    """The lists `chosen`, in that order."""
    new_start, places = item_places(start, chosen)
    return new_start, items[places]


def concatenate_lists(
    lists: Sequence[tuple[NDArray[np.integer[Any]], NDArray[_Items]]],
) -> tuple[NDArray[np.int64], NDArray[_Items]]:
    """All lists, those of one pair after those of another."""
    sizes = np.concatenate([np.diff(start) for start, _ in lists])
    return starts(sizes), np.concatenate([items for _, items in lists])


@kernel
def _fill_runs(begin, sizes, places):
    at = 0
    for k in range(len(begin)):
        for i in range(sizes[k]):
            places[at] = begin[k] + i
            at += 1
