"""Results as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.engines.base import Matches, Tops
from tamis.matcher.rule import RuleId

__all__ = ["IdColumn", "joined_matches", "joined_tops"]

_NO_INTS = np.empty(0, np.int64)
_NO_DOUBLES = np.empty(0, np.float64)


class IdColumn:
    """The ids of several segments, end to end, as an Arrow column to take from.

    Strings or integers as they are; where a collection holds both, a dense union of the two.
    """

    def __init__(self, segments: Sequence[Sequence[RuleId]]) -> None:
        ids = [id for segment in segments for id in segment]
        is_string = np.fromiter((isinstance(id, str) for id in ids), np.bool_, len(ids))
        self._union: tuple[NDArray[np.int8], NDArray[np.int32], list[pa.Array]] | None = None
        if is_string.all() or not is_string.any():
            kind = pa.string() if is_string.all() else pa.int64()
            self._ids = pa.array(ids, kind)
            self.type = kind
            return
        children = [
            pa.array([id for id in ids if isinstance(id, int)], pa.int64()),
            pa.array([id for id in ids if isinstance(id, str)], pa.string()),
        ]
        places = np.where(is_string, np.cumsum(is_string), np.cumsum(~is_string)) - 1
        self._union = is_string.astype(np.int8), places.astype(np.int32), children
        self.type = self.take(_NO_INTS).type

    def take(self, places: NDArray[np.int64]) -> pa.Array:
        """The ids at these places."""
        if self._union is None:
            return self._ids.take(pa.array(places))
        kinds, offsets, children = self._union
        return pa.UnionArray.from_dense(
            pa.array(kinds[places]), pa.array(offsets[places]), children, ["integer", "string"]
        )


class _Joined(NamedTuple):
    event: NDArray[np.int64]
    place: NDArray[np.int64]
    """Where the rule stands when all segments are laid end to end."""


class _JoinedTops(NamedTuple):
    event: NDArray[np.int64]
    rank: NDArray[np.int64]
    """1 for the best."""
    place: NDArray[np.int64]
    score: NDArray[np.float64]


def _laid_out(
    parts: Sequence[Matches | Tops], sizes: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Events and places of the results of several segments, segment after segment."""
    offsets = np.cumsum([0, *sizes])
    events = [np.repeat(np.arange(len(p.start) - 1), np.diff(p.start)) for p in parts]
    places = [p.rule + offset for p, offset in zip(parts, offsets, strict=False)]
    return np.concatenate([_NO_INTS, *events]), np.concatenate([_NO_INTS, *places])


def joined_matches(parts: Sequence[Matches], sizes: Sequence[int]) -> _Joined:
    """The matches of several segments of these sizes: by event, then by age of the rule."""
    event, place = _laid_out(parts, sizes)
    if len(parts) > 1:
        order = np.argsort(event, kind="stable")
        event, place = event[order], place[order]
    return _Joined(event, place)


def joined_tops(parts: Sequence[Tops], sizes: Sequence[int], n: int) -> _JoinedTops:
    """The `n` best of the best of several segments: by event, then best first."""
    event, place = _laid_out(parts, sizes)
    score = np.concatenate([_NO_DOUBLES, *(part.score for part in parts)])
    order = np.lexsort((place, -score, event))
    event, place, score = event[order], place[order], score[order]
    first = np.searchsorted(event, event)
    rank = np.arange(len(event)) - first + 1
    kept = rank <= n
    return _JoinedTops(event[kept], rank[kept], place[kept], score[kept])
