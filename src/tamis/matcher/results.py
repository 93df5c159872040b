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


def _events(part: Matches | Tops, first: int = 0) -> NDArray[np.int64]:
    """The event of each thing found, counted from `first`."""
    return np.repeat(np.arange(first, first + len(part.start) - 1), np.diff(part.start))


def joined_matches(
    segments: Sequence[Segment], parts: Sequence[Matches], first: int = 0
) -> _Joined:
    """What each segment found, by event, and the oldest rule first.

    The events are counted from `first`. What was found is sorted where it stands.
    """
    for segment, part in zip(segments, parts, strict=True):
        segment.sort_by_age(part)
    events = [_events(part, first) for part in parts]
    found = [(segment.ids, part.rule) for segment, part in zip(segments, parts, strict=True)]
    if len(parts) == 1:
        return _Joined(events[0], id_column(found, None))
    event = np.concatenate(events)
    order = np.argsort(event, kind="stable")
    return _Joined(event[order], id_column(found, order))


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
