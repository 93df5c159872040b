"""What several segments found, joined and as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.engines.base import Matches, Tops
from tamis.matcher.ids import id_column
from tamis.matcher.segment import Segment

__all__ = ["id_type", "joined_matches", "joined_tops"]

_NO_INTS = np.empty(0, np.int64)


class _Joined(NamedTuple):
    event: NDArray[np.int64]
    rule: pa.Array
    """The ids."""


class _JoinedTops(NamedTuple):
    event: NDArray[np.int64]
    rank: NDArray[np.int64]
    """1 for the best."""
    rule: pa.Array
    score: NDArray[np.float64]


def id_type(segments: Sequence[Segment]) -> pa.DataType:
    """The type of a column of ids of these segments."""
    return id_column([(segment.ids, _NO_INTS) for segment in segments], None).type


def _events(part: Matches | Tops) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(part.start) - 1), np.diff(part.start))


def joined_matches(segments: Sequence[Segment], parts: Sequence[Matches]) -> _Joined:
    """What each segment found, by event, and the oldest rule first."""
    event = np.concatenate([_NO_INTS, *(_events(part) for part in parts)])
    order = np.argsort(event, kind="stable") if len(parts) > 1 else None
    found = [(s.ids, s.rows_by_age(part)) for s, part in zip(segments, parts, strict=True)]
    return _Joined(event if order is None else event[order], id_column(found, order))


def joined_tops(segments: Sequence[Segment], parts: Sequence[Tops], n: int) -> _JoinedTops:
    """The `n` best of the best of several segments: by event, then best first, then oldest."""
    event = np.concatenate([_NO_INTS, *(_events(part) for part in parts)])
    score = np.concatenate([np.empty(0), *(part.score for part in parts)])
    # Segments come oldest first; within one, rules go by their ages.
    segment = np.repeat(np.arange(len(parts)), [len(part.rule) for part in parts])
    ages = [s.ages(part.rule) for s, part in zip(segments, parts, strict=True)]
    order = np.lexsort((np.concatenate([_NO_INTS, *ages]), segment, -score, event))
    event, score = event[order], score[order]
    rank = np.arange(len(event)) - np.searchsorted(event, event) + 1
    kept = rank <= n
    found = [(s.ids, part.rule) for s, part in zip(segments, parts, strict=True)]
    return _JoinedTops(event[kept], rank[kept], id_column(found, order[kept]), score[kept])
