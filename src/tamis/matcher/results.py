"""Merges the answers of several parts, segments or shards, into one answer in Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT64
from tamis.encode.arrow_arrays import to_arrow
from tamis.engines.base import MatchChunks, Matches, Tops
from tamis.matcher.ids import id_column
from tamis.matcher.segment import Segment

__all__ = [
    "MergedMatches",
    "ScoredPart",
    "id_type",
    "merge_firsts",
    "merge_lists",
    "merge_matches",
    "merge_tops",
    "select_best",
    "take_lists",
    "take_matches",
]


class MergedMatches(NamedTuple):
    """A row for each match."""

    event: pa.ChunkedArray
    """The numbers of the events."""
    rule: pa.ChunkedArray
    """The ids. Its chunks may be others than those of `event`."""


class _MergedTops(NamedTuple):
    event: NDArray[np.int64]
    rank: NDArray[np.int64]
    """1 for the best."""
    rule: pa.ChunkedArray
    """The ids."""
    score: NDArray[np.float64]


class _MergedFirsts(NamedTuple):
    event: NDArray[np.int64]
    rank: NDArray[np.int64]
    """1 for the first."""
    rule: pa.ChunkedArray
    """The ids."""
    priority: NDArray[np.int64]


class ScoredPart(NamedTuple):
    """The scored matches of one part, in any order."""

    event: NDArray[np.int64]
    score: NDArray[np.float64] | NDArray[np.int64]
    """Scores, or priorities; the same in all parts."""
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


def take_matches(chunks: MatchChunks) -> MergedMatches:
    """The matches of one segment whose chunks are integer ids.

    Arrow takes over the memory of the chunks.
    """
    return MergedMatches(_join(chunks.numbers), _join(chunks.rules))


def _join(chunks: Sequence[NDArray[np.integer]]) -> pa.ChunkedArray:
    return pa.chunked_array(map(to_arrow, chunks), pa.int64())


def take_lists(chunks: MatchChunks) -> pa.LargeListArray:
    """As `take_matches`, but with a list of ids for each event."""
    ids = chunks.rules[0] if len(chunks.rules) == 1 else np.concatenate([NO_INT64, *chunks.rules])
    return pa.LargeListArray.from_arrays(to_arrow(chunks.start), to_arrow(ids))


def merge_matches(
    segments: Sequence[Segment], parts: Sequence[Matches], numbers: NDArray[np.int64]
) -> MergedMatches:
    """Merge the matches of each segment by event, and within an event the oldest rule first.

    `numbers` are those of the events, rising.
    """
    events = [np.repeat(numbers, np.diff(part.start)) for part in parts]
    places = [(segment.ids, part.rule) for segment, part in zip(segments, parts, strict=True)]
    if len(parts) == 1:
        return MergedMatches(_join(events), id_column(places, None))
    event = np.concatenate(events)
    order = np.argsort(event, kind="stable")
    return MergedMatches(_join([event[order]]), id_column(places, order))


def merge_lists(segments: Sequence[Segment], parts: Sequence[Matches]) -> pa.LargeListArray:
    """As `merge_matches`, but with a list of ids for each event; texts are dictionary-encoded."""
    start: NDArray[np.int64] = np.add.reduce([part.start for part in parts], dtype=np.int64)
    order = None
    if len(parts) > 1:
        order = np.argsort(np.concatenate([_events(part) for part in parts]), kind="stable")
    places = [(segment.ids, part.rule) for segment, part in zip(segments, parts, strict=True)]
    has_numbers = any(segment.ids.has_numbers for segment in segments)
    if has_numbers or not parts:
        rules = id_column(places, order).combine_chunks()
    else:
        rules = _encode_texts(segments, parts, order)
    return pa.LargeListArray.from_arrays(to_arrow(start), rules)


def _encode_texts(
    segments: Sequence[Segment], parts: Sequence[Matches], order: NDArray[np.int64] | None
) -> pa.DictionaryArray:
    """The ids as numbers in a dictionary, which has each id that is in an answer once."""
    used, indices, first = [], [], 0
    for segment, part in zip(segments, parts, strict=True):
        marks = np.zeros(len(segment) + 1, np.int32)
        marks[part.rule + 1] = 1
        rank = np.cumsum(marks, dtype=np.int32)
        used.append(segment.ids.texts.take(np.flatnonzero(marks[1:])).arrow(pa.large_string()))
        indices.append(rank[part.rule] + np.int32(first))
        first += int(rank[-1])
    index = np.concatenate(indices)
    index = index if order is None else index[order]
    return pa.DictionaryArray.from_arrays(to_arrow(index), pa.concat_arrays(used))


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


def merge_firsts(segments: Sequence[Segment], parts: Sequence[Matches], n: int) -> _MergedFirsts:
    """The `n` matches of the highest priorities of each event; see `select_best`."""
    priorities = [
        segment.columns.validities.priorities(part.rule)
        for segment, part in zip(segments, parts, strict=True)
    ]
    ranked = [
        ScoredPart(_events(part), priority, segment.ages(part.rule))
        for segment, part, priority in zip(segments, parts, priorities, strict=True)
    ]
    best = select_best(ranked, n)
    places = [(segment.ids, part.rule) for segment, part in zip(segments, parts, strict=True)]
    priority = np.concatenate([NO_INT64, *priorities])[best.position]
    return _MergedFirsts(best.event, best.rank, id_column(places, best.position), priority)


def select_best(parts: Sequence[ScoredPart], n: int) -> _Best:
    """Select the `n` best matches of each event.

    Matches are ordered by event and falling score. Between equal scores, an earlier part comes
    before a later one, and within a part the lower age decides.
    """
    event = np.concatenate([NO_INT64, *(part.event for part in parts)])
    score: NDArray[Any] = np.concatenate([part.score for part in parts]) if parts else NO_DOUBLES
    age = np.concatenate([NO_INT64, *(part.age for part in parts)])
    number = np.repeat(np.arange(len(parts)), [len(part.event) for part in parts])
    # ~p orders integers as -p does, and unlike it never overflows.
    falling = ~score if score.dtype == np.int64 else -score
    order = np.lexsort((age, number, falling, event))
    event = event[order]
    rank = np.arange(len(event)) - np.searchsorted(event, event) + 1
    kept = rank <= n
    return _Best(event[kept], rank[kept], order[kept])


def _events(part: Matches | Tops) -> NDArray[np.int64]:
    """The row of each match."""
    return np.repeat(np.arange(len(part.start) - 1), np.diff(part.start))
