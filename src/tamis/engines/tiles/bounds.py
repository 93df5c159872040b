"""What the conjunctions of tiles may score on events whose values have weights of their own.

A conjunction's bound (`TileArrays.bound`) holds for any event; multiplied by the event's heaviest
weight it says little about an event that weighs its values unevenly. So each tile has a row for
each attribute of its positive atoms, with the weight of that attribute in each conjunction, a byte
each: the sum of the rows, times the event's weights, bounds all conjunctions of the tile at once.

These arrays are computed for the first event with weights, and are not stored.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NEGATED, NO_DOUBLES, NO_INT32, NO_INT64, NO_UINT8
from tamis.encode.kernel import kernel
from tamis.encode.ragged import starts
from tamis.encode.rules import EncodedRules
from tamis.engines.kernels.address_block import Column
from tamis.engines.kernels.bits import ONE
from tamis.engines.normal_forms import are_sums
from tamis.engines.score_bounds import highest_weight, round_up
from tamis.engines.tiles.arrays import WIDE, WORD, TileArrays

__all__ = ["BOUND_COLUMNS", "NO_BOUNDS", "TileWeights", "weigh_tiles"]

_MOST_ROWS: Final = 64
"""A tile over more attributes has no rows: all its conjunctions are loose."""

_BYTE: Final = 255


class TileWeights(NamedTuple):
    """The weights of attributes in the conjunctions of tiles; all empty if they are not needed."""

    row_start: NDArray[np.int64]
    attribute: NDArray[np.int32]
    """The attribute of each row of each tile."""
    weight_start: NDArray[np.int64]
    weight: NDArray[np.uint8]
    """The rows of each tile: a weight for each conjunction, in units of `unit`, rounded up."""
    unit: NDArray[np.float32]
    """For each tile."""
    is_loose: NDArray[np.uint64]
    """WIDE words for each tile: the conjunctions that their rows do not bound."""
    capacity: NDArray[np.float64]
    """The most that one attribute can add to the score of any rule, on an event in which it weighs
    1. Empty if that is not known."""


BOUND_COLUMNS = {
    "row_start": Column(np.int64),
    "attribute": Column(np.int32),
    "weight_start": Column(np.int64),
    "weight": Column(np.uint8),
    "unit": Column(np.float32),
    "is_loose": Column(np.uint64),
    "capacity": Column(np.float64),
}

NO_BOUNDS: Final = TileWeights(
    NO_INT64,
    NO_INT32,
    NO_INT64,
    NO_UINT8,
    np.empty(0, np.float32),
    np.empty(0, np.uint64),
    NO_DOUBLES,
)


def weigh_tiles(rules: EncodedRules, arrays: TileArrays) -> TileWeights:
    """Weigh the attributes of all tiles."""
    tiles = len(arrays.tile) - 1
    counts = np.zeros(tiles, np.int64)
    row_of = np.full(len(arrays.levels), -1, np.int32)
    room = np.empty((_MOST_ROWS, WIDE * WORD))
    sums = are_sums(rules)
    scored = rules.atoms, rules.forms, rules.scores, sums
    fixed = (scored, arrays.tile, arrays.member, row_of, np.empty(_MOST_ROWS, np.int32), room)
    loose, unit = np.zeros(WIDE * tiles, np.uint64), np.zeros(tiles)
    _weigh(*fixed, counts, NO_INT64, NO_INT32, NO_INT64, NO_UINT8, unit, loose)
    row_start = starts(counts)
    weight_start = starts(counts * arrays.tile[:-1, 1])
    attribute = np.empty(int(row_start[-1]), np.int32)
    weight = np.empty(int(weight_start[-1]), np.uint8)
    _weigh(*fixed, counts, row_start, attribute, weight_start, weight, unit, loose)
    capacity = np.full(1, _find_capacity(scored)) if sums.all() else NO_DOUBLES
    return TileWeights(row_start, attribute, weight_start, weight, round_up(unit), loose, capacity)


@kernel
def _weight_of(scored, conjunction, atom):
    """The highest weight of an atom in the rules of a conjunction; 0 if it scores nothing."""
    (table, _), forms, scores, _ = scored
    if table[atom, 1] & NEGATED:
        return 0.0
    if len(forms.owner) == 0:
        return highest_weight(table, scores, atom, conjunction)
    weight = 0.0
    for k in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
        weight = max(weight, highest_weight(table, scores, atom, forms.owner[k]))
    return weight


@kernel
def _find_capacity(scored):
    """The highest sum of weights of one attribute within a conjunction."""
    (table, _), forms, _, _ = scored
    highest = 0.0
    for conjunction in range(len(forms.conjunction_start) - 1):
        first, last = forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]
        for i in range(first, last):
            total = 0.0
            for k in range(first, last):
                if table[forms.conjunction_atom[k], 0] == table[forms.conjunction_atom[i], 0]:
                    total += _weight_of(scored, conjunction, forms.conjunction_atom[k])
            highest = max(highest, total)
    return highest


@kernel
def _weigh_member(scored, conjunction, bit, row_of, listed, rows, room):
    """Add the weights of a conjunction; returns how many rows there are now, or -1 if too many."""
    (table, _), forms, _, _ = scored
    for i in range(forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]):
        atom = forms.conjunction_atom[i]
        if table[atom, 1] & NEGATED:
            continue
        weight = _weight_of(scored, conjunction, atom)
        attribute = table[atom, 0]
        if row_of[attribute] < 0:
            if rows == len(listed):
                return -1
            row_of[attribute] = rows
            listed[rows] = attribute
            room[rows, :] = 0.0
            rows += 1
        room[row_of[attribute], bit] += weight
    return rows


@kernel
def _is_sum(scored, conjunction):
    """Whether all rules of a conjunction are scored by sums."""
    _, forms, _, sums = scored
    if len(forms.owner) == 0:
        return sums[conjunction]
    for k in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
        if not sums[forms.owner[k]]:
            return False
    return True


@kernel
def _weigh(
    scored, tile, member, row_of, listed, room, counts, row_start, attribute, weight_start, weight,
    unit, loose,
):  # fmt: skip
    """Count the rows of each tile, and write them if there is room."""
    for t in range(len(counts)):
        size, first, homes, others = tile[t, 1], tile[t, 2], tile[t, 3], tile[t, 4]
        rows = 0
        for bit in range(size):
            conjunction = first + bit if bit < homes else member[others + bit - homes]
            if rows >= 0:
                count = _weigh_member(scored, conjunction, bit, row_of, listed, rows, room)
                for i in range(rows if count < 0 else 0):
                    row_of[listed[i]] = -1
                rows = count
            if rows < 0 or not _is_sum(scored, conjunction):
                loose[WIDE * t + (bit >> 6)] |= ONE << np.uint64(bit & 63)
        if rows < 0:
            loose[WIDE * t : WIDE * t + WIDE] = ~np.uint64(0)
        rows = max(rows, 0)
        counts[t] = rows
        highest = 0.0
        for i in range(rows):
            row_of[listed[i]] = -1
            for bit in range(size):
                highest = max(highest, room[i, bit])
        unit[t] = highest / _BYTE
        if len(row_start) == 0:
            continue
        for i in range(rows):
            attribute[row_start[t] + i] = listed[i]
            for bit in range(size):
                units = np.ceil(room[i, bit] / unit[t]) if highest > 0 else 0.0
                weight[weight_start[t] + i * size + bit] = np.uint8(min(units, 255.0))
