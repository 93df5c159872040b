"""Merges encoded events row by row.

It also puts single events after each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, Events
from tamis.encode.ragged import run_places, starts

__all__ = ["concatenate_events", "merge_lists", "merge_rows"]


def concatenate_events(events: Sequence[Events]) -> Events:
    """Single events, without weights, after each other."""
    return Events(
        starts(len(event.code) for event in events),
        np.concatenate([event.attribute for event in events]),
        np.concatenate([event.code for event in events]),
        starts(len(event.text) for event in events),
        np.concatenate([event.text for event in events]),
        NO_DOUBLES,
        NO_DOUBLES,
    )


def merge_rows(events: Events, others: Events, rows: NDArray[np.int64]) -> Events:
    """The entries of `events`, and after them those of others, which belong to `rows`.

    Rows are distinct and rising. No attribute of a row has entries on both sides, and there are no
    weights.
    """
    start, places, other_places = _merge_starts(events.start, others.start, rows)
    text_start, text_places, other_text_places = _merge_starts(
        events.text_start, others.text_start, rows
    )
    attribute, code = np.empty(start[-1], np.int32), np.empty(start[-1], np.int32)
    text = np.empty(text_start[-1], np.int32)
    attribute[places], attribute[other_places] = events.attribute, others.attribute
    code[places], code[other_places] = events.code, others.code
    text[text_places], text[other_text_places] = events.text, others.text
    return Events(start, attribute, code, text_start, text, events.weight, events.text_weight)


def merge_lists(
    lists: tuple[NDArray[np.int64], NDArray[np.int32]],
    others: tuple[NDArray[np.int64], NDArray[np.int32]],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Lists, given by where they begin and their items, each followed by that of others."""
    (start, items), (other_start, other_items) = lists, others
    if not len(items):
        return other_start, other_items
    merged_start, places, other_places = _merge_starts(
        start, other_start, np.arange(len(start) - 1)
    )
    merged = np.empty(merged_start[-1], np.int32)
    merged[places], merged[other_places] = items, other_items
    return merged_start, merged


def _merge_starts(
    start: NDArray[np.int64], other_start: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where merged lists begin, and where the items of either side come to lie."""
    sizes, other_sizes = np.diff(start), np.diff(other_start)
    all_sizes = sizes.copy()
    all_sizes[rows] += other_sizes
    merged = starts(all_sizes)
    places = run_places(merged[:-1], sizes)
    other_places = run_places(merged[rows] + sizes[rows], other_sizes)
    return merged, places, other_places
