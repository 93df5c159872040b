"""Calls the kernels that read JSON texts, and makes room for what they find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.dictionary import Dictionary
from tamis.encode.hashes import read_only
from tamis.encode.json.read import (
    LEFT,
    MOST_DEEP,
    MOST_IN_ROW,
    JsonEntries,
    RowScratch,
    read_rows,
)
from tamis.encode.json.tables import JsonTables, build_tables
from tamis.encode.json.texts import JsonTexts

__all__ = ["ReadTexts", "find_suspects", "read_texts"]

_FIRST_ROOM: Final = 1 << 14
"""Room for how many entries there is at first."""


class ReadTexts(NamedTuple):
    """What kernels have read of some texts."""

    is_left: NDArray[np.bool_]
    entries: JsonEntries
    """Without room for more."""
    start: NDArray[np.int64]
    """Where the entries of each text begin."""
    captured_start: NDArray[np.int64]
    """Where the captured values of each text begin."""


def find_suspects(texts: JsonTexts) -> NDArray[np.int64]:
    """The rows of all texts that are not JSON objects, and of some others, rising."""
    return np.flatnonzero(read_texts(_no_tables(), texts).is_left)


def _no_tables() -> JsonTables:
    return build_tables(Dictionary.of(()), ())


def read_texts(tables: JsonTables, texts: JsonTexts) -> ReadTexts:
    """Let kernels read texts."""
    if not texts.is_valid_utf8():
        return _leave_all(texts.size)
    size, attributes = texts.size, len(tables.number_start) - 1
    entries = _make_room(max(_FIRST_ROOM, 2 * MOST_IN_ROW))
    scratch = RowScratch(
        np.empty(MOST_IN_ROW + 1, np.float64),
        np.zeros(2 * attributes, np.int64),
        np.zeros(len(tables.path_attribute), np.int64),
        np.empty(MOST_DEEP, np.int64),
        np.empty(MOST_DEEP, np.uint8),
        np.empty(MOST_DEEP, np.int64),
        np.empty(MOST_DEEP, np.uint64),
    )
    outcome = np.empty(3 * size, np.int64)
    texts = JsonTexts(read_only(texts.data), read_only(texts.begin), read_only(texts.end))
    done = count = captures = instances = 0
    while done < size:
        done, count, captures, instances = read_rows(
            tables, texts, done, entries, count, captures, scratch, instances, outcome
        )
        if done < size:
            entries = _resize(entries, 2 * len(entries.attribute))
    by_row = outcome.reshape(-1, 3)
    return ReadTexts(
        by_row[:, 0] == LEFT,
        _cut(entries, count, captures),
        np.concatenate(([0], by_row[:, 1])),
        np.concatenate(([0], by_row[:, 2])),
    )


def _leave_all(size: int) -> ReadTexts:
    nothing = np.zeros(size + 1, np.int64)
    return ReadTexts(np.ones(size, np.bool_), _make_room(0), nothing, nothing)


def _make_room(size: int) -> JsonEntries:
    return JsonEntries(
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.uint8),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(4 * size, np.int64),
    )


def _resize(entries: JsonEntries, size: int) -> JsonEntries:
    larger = _make_room(size)
    pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(entries, larger, strict=True)
    for old, new in pairs:
        new[: len(old)] = old
    return larger


def _cut(entries: JsonEntries, count: int, captures: int) -> JsonEntries:
    attribute, code, kind, begin, end, captured = entries
    return JsonEntries(
        attribute[:count],
        code[:count],
        kind[:count],
        begin[:count],
        end[:count],
        captured[: 4 * captures],
    )
