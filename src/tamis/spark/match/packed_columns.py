"""Many columns of the same type travel from the JVM to Python as one column of arrays.

Spark takes about half of the time to send an array of 400 values that it takes to send a struct of
400 fields: the code that it generates for such a struct is too large for the JVM to compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

__all__ = ["FEWEST_PACKED", "Packing"]

FEWEST_PACKED: Final = 50
"""How many columns of a type are worth an array."""


class Packing(NamedTuple):
    """Which columns stand in which array, by position among the attributes of an event.

    A packed event is a struct of arrays, and of the attributes that are in none of them.
    """

    names: tuple[str, ...]
    """The attributes of an event."""
    arrays: tuple[tuple[int, ...], ...]
    """The attributes of each array."""
    rest: tuple[int, ...]
    """The attributes that are in no array."""

    @classmethod
    def of(cls, names: Sequence[str], types: Sequence[object]) -> Packing | None:
        """Pack the attributes of types that many have; None if no type is that frequent."""
        by_type: dict[object, list[int]] = {}
        for place, kind in enumerate(types):
            by_type.setdefault(kind, []).append(place)
        arrays = tuple(tuple(p) for p in by_type.values() if len(p) >= FEWEST_PACKED)
        packed = {place for array in arrays for place in array}
        rest = tuple(place for place in range(len(names)) if place not in packed)
        return cls(tuple(names), arrays, rest) if arrays else None

    def unpack(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same batch, with events, its last column, as structs of all attributes."""
        *others, events = batch.columns
        parts = events.flatten()
        columns: list[pa.Array] = [None] * len(self.names)
        for places, part in zip(self.arrays, parts, strict=False):
            for place, column in zip(places, _transpose(part, len(places)), strict=True):
                columns[place] = column
        for place, column in zip(self.rest, parts[len(self.arrays) :], strict=True):
            columns[place] = column
        whole = pa.StructArray.from_arrays(columns, list(self.names))
        return pa.RecordBatch.from_arrays([*others, whole], batch.schema.names)


def _transpose(lists: pa.ListArray, width: int) -> list[pa.Array]:
    """The columns of lists that all have `width` values."""
    values, size = lists.flatten(), len(lists)
    by_column = np.arange(size * width).reshape(size, width).T.ravel()
    taken = values.take(pa.array(by_column))
    return [taken.slice(column * size, size) for column in range(width)]
