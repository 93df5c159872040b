"""Reads the containers of events that callers pass: lists, Arrow data, data frames, JSON texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from tamis.encode.arrow_values import is_string
from tamis.encode.json.texts import JsonTexts
from tamis.errors import EventError

__all__ = ["EventChunk", "holds_texts", "split_chunks", "split_events", "to_arrow", "to_json_texts"]

EventChunk: TypeAlias = pa.RecordBatch | list[Mapping[str, Any]]

_TEXTS = 16_384
"""How many JSON texts are encoded at a time."""

_ROWS = 65_536
"""How many Arrow rows are encoded at a time."""

_DICTS = 8_192
"""How many mappings are encoded at a time."""


def to_arrow(data: Any) -> pa.Table | pa.RecordBatchReader | None:
    """Convert a table, batch, reader, pandas or polars frame to Arrow; None for anything else."""
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__"):
        try:
            return pa.table(data)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise EventError(f"the frame cannot be converted to Arrow: {error}") from None
    return None


def to_json_texts(events: Any) -> Iterator[JsonTexts] | None:
    """The JSON texts of an Arrow column; None for anything else.

    Raises
    ------
    EventError
        The column holds no texts.
    """
    if isinstance(events, JsonTexts):
        return iter((events,))
    if not isinstance(events, pa.Array | pa.ChunkedArray) or pa.types.is_struct(events.type):
        return None
    if not holds_texts(events.type):
        raise EventError(
            f"expected a column of JSON texts, not of {events.type}; "
            "give columns of attributes as a table"
        )
    chunks = events.chunks if isinstance(events, pa.ChunkedArray) else [events]
    return filter(None, map(JsonTexts.of_arrow, chunks))


def holds_texts(kind: pa.DataType) -> bool:
    """Whether a column of this type may hold JSON: strings or bytes."""
    tests = pa.types
    is_binary = tests.is_binary(kind) or tests.is_large_binary(kind)
    return bool(is_binary or (is_string(kind) and not tests.is_dictionary(kind)))


def split_chunks(events: Any) -> Iterator[EventChunk | JsonTexts]:
    """Split events into chunks of bounded size: Arrow batches, JSON texts, or lists of mappings.

    Raises
    ------
    EventError
        `events` is not a container of events.
    """
    texts = to_json_texts(events)
    if texts is None:
        yield from split_events(events)
        return
    for some in texts:
        yield from some.chunks(_TEXTS)


def split_events(events: Any) -> Iterator[EventChunk]:
    """Split events into chunks of bounded size: Arrow batches, or lists of mappings.

    Raises
    ------
    EventError
        `events` is not a container of events, or a JSON text is not an object.
    """
    texts = to_json_texts(events)
    if texts is not None:
        first = 0
        for some in texts:
            for part in some.chunks(_DICTS):
                yield part.events(first)
                first += part.size
        return
    arrow = to_arrow(events)
    if isinstance(arrow, pa.Table):
        for batch in arrow.to_batches(max_chunksize=_ROWS):
            yield batch
        return
    if arrow is not None:
        for batch in arrow:
            for start in range(0, batch.num_rows, _ROWS):
                yield batch.slice(start, _ROWS)
        return
    if isinstance(events, Mapping | str | bytes) or not isinstance(events, Iterable):
        raise EventError(
            "expected a list of events, an Arrow table, a pandas or a polars frame, or an Arrow "
            f"column of JSON texts, not {type(events).__name__}"
        )
    remaining = iter(events)
    while chunk := list(islice(remaining, _DICTS)):
        yield chunk
