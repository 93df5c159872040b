"""Merges the answers of several parts, segments or shards, into one answer in Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT64
from tamis.engines.base import Matches, Tops
from tamis.matcher.ids import id_column
from tamis.matcher.segment import Segment

__all__ = ["ScoredPart", "id_type", "merge_matches", "merge_tops", "select_best"]


class _MergedMatches(NamedTuple):
    event: NDArray[np.int64]
    rule: pa.ChunkedArray
    """The ids."""


class _MergedTops(NamedTuple):
    event: NDArray[np.int64]
    rank: NDArray[np.int64]
    """1 for the best."""
    rule: pa.ChunkedArray
    """The ids."""
    score: NDArray[np.float64]


class ScoredPart(NamedTuple):
    """The scored matches of one part, in any order."""

    event: NDArray[np.int64]
    score: NDArray[np.float64]
    age: NDArray[np.integer]
    """Decides between equal scores of an event: the lower comes first."""


class _Best(NamedTuple):
    event: NDArray[np.int64]
    rank: NDArray[np.int64]
    """1 for the best."""
    position: NDArray[np.int64]
    """Where each match stands in the parts, laid end to end."""


def id_type(segments: Sequence[Segment]) -> pa.DataType:
    """The Arrow type of a column with ids of these segments."""
    return id_column([(segment.ids, NO_INT64) for segment in segments], None).type


def merge_matches(
    segments: Sequence[Segment], parts: Sequence[Matches], first: int = 0
) -> _MergedMatches:
    """Merge the matches of each segment by event, and within an event the oldest rule first.

    Events are numbered from `first`. The arrays in `parts` are sorted in place.
    """
    for segment, part in zip(segments, parts, strict=True):
        segment.sort_by_age(part)
    events = [_events(part, first) for part in parts]
    places = [(segment.ids, part.rule) for segment, part in zip(segments, parts, strict=True)]
    if len(parts) == 1:
        return _MergedMatches(events[0], id_column(places, None))
    event = np.concatenate(events)
    order = np.argsort(event, kind="stable")
    return _MergedMatches(event[order], id_column(places, order))


def merge_tops(segments: Sequence[Segment], parts: Sequence[Tops], n: int) -> _MergedTops:
    """Merge the best matches of each segment into the `n` best of all; see `select_best`."""
    scored = [
        ScoredPart(_events(part), part.score, segment.ages(part.rule))
        for segment, part in zip(segments, parts, strict=True)
    ]
    best = select_best(scored, n)
    places = [(segment.ids, part.rule) for segment, part in zip(segments, parts, strict=True)]
    score = np.concatenate([NO_DOUBLES, *(part.score for part in parts)])[best.position]
    return _MergedTops(best.event, best.rank, id_column(places, best.position), score)


def select_best(parts: Sequence[ScoredPart], n: int) -> _Best:
    """Select the `n` best matches of each event.

    Matches are ordered by event and falling score. Between equal scores, an earlier part comes
    before a later one, and within a part the lower age decides.
    """
    event = np.concatenate([NO_INT64, *(part.event for part in parts)])
    score = np.concatenate([NO_DOUBLES, *(part.score for part in parts)])
    age = np.concatenate([NO_INT64, *(part.age for part in parts)])
    number = np.repeat(np.arange(len(parts)), [len(part.event) for part in parts])
    order = np.lexsort((age, number, -score, event))
    event = event[order]
    rank = np.arange(len(event)) - np.searchsorted(event, event) + 1
    kept = rank <= n
    return _Best(event[kept], rank[kept], order[kept])


def _events(part: Matches | Tops, first: int = 0) -> NDArray[np.int64]:
    """The event number of each match, counted from `first`."""
    return np.repeat(np.arange(first, first + len(part.start) - 1), np.diff(part.start))
