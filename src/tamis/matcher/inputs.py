"""Reads the containers of events that callers pass: lists, Arrow data, data frames, JSON texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from tamis.deadline import check_time
from tamis.encode.arrow_layouts import is_string, plain
from tamis.encode.arrow_values import EVENT
from tamis.encode.json.texts import JsonTexts
from tamis.errors import EventError
from tamis.matcher.frames import Rows, read_frame, read_series

__all__ = [
    "EventChunk",
    "EventStream",
    "holds_texts",
    "split_chunks",
    "split_events",
    "to_arrow",
    "to_json_texts",
]

EventChunk: TypeAlias = pa.RecordBatch | list[Mapping[str, Any]]


class EventStream(NamedTuple):
    """Events that are read while they are matched; the answers come as a reader, too."""

    chunks: Iterator[EventChunk]
    """Small enough to be encoded one at a time."""


_TEXTS = 16_384
"""How many JSON texts are encoded at a time."""

_ROWS = 65_536
"""How many Arrow rows are encoded at a time."""

_DICTS = 8_192
"""How many mappings are encoded at a time."""


def to_arrow(data: Any) -> pa.Table | pa.RecordBatchReader | Rows | None:
    """Read a table, batch, reader or frame; None for anything else.

    A frame with a column of mixed kinds is read row by row.
    """
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    return read_frame(data)


def to_json_texts(events: Any) -> Iterator[JsonTexts] | None:
    """The JSON texts of an Arrow column; None for anything else.

    Raises
    ------
    EventError
        The column holds no texts, and no events.
    """
    if isinstance(events, JsonTexts):
        return iter((events,))
    if not isinstance(events, pa.Array | pa.ChunkedArray):
        return None
    chunks = events.chunks if isinstance(events, pa.ChunkedArray) else [events]
    kind = plain(chunks[0].slice(0, 0)).type if chunks else events.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return None
    texts = [read for chunk in chunks if (read := JsonTexts.of_arrow(chunk)) is not None]
    if len(texts) < len(chunks):
        raise EventError(
            f"expected a column of JSON texts, not of {events.type}; "
            "give columns of attributes as a table"
        )
    return iter(texts)


def holds_texts(kind: pa.DataType) -> bool:
    """Whether a column of this type may hold JSON: strings or bytes."""
    return is_string(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def split_chunks(events: Any) -> Iterator[EventChunk | JsonTexts]:
    """Split events into chunks of bounded size: Arrow batches, JSON texts, or lists of mappings.

    Raises
    ------
    EventError
        `events` is not a container of events.
    """
    events = read_series(events)
    texts = to_json_texts(events)
    if texts is None:
        yield from split_events(events)
        return
    for some in texts:
        for part in some.chunks(_TEXTS):
            check_time()
            yield part


def split_events(events: Any) -> Iterator[EventChunk]:
    """Split events into chunks of bounded size: Arrow batches, or lists of mappings.

    Raises
    ------
    EventError
        `events` is not a container of events, or a JSON text is not an object.
    """
    for chunk in _split(read_series(events)):
        check_time()
        yield chunk


def _split(events: Any) -> Iterator[EventChunk]:
    texts = to_json_texts(events)
    if texts is not None:
        first = 0
        for some in texts:
            for part in some.chunks(_DICTS):
                yield part.events(first)
                first += part.size
        return
    if isinstance(events, EventStream):
        yield from events.chunks
        return
    if isinstance(events, pa.Array | pa.ChunkedArray):
        events = pa.Table.from_arrays([events], [EVENT])
    arrow = to_arrow(events)
    if isinstance(arrow, pa.Table):
        yield from arrow.to_batches(max_chunksize=_ROWS)
        return
    if isinstance(arrow, pa.RecordBatchReader):
        for batch in arrow:
            for start in range(0, batch.num_rows, _ROWS):
                yield batch.slice(start, _ROWS)
        return
    events = events if arrow is None else arrow
    if isinstance(events, Mapping | str | bytes) or not isinstance(events, Iterable):
        raise EventError(
            "expected a list of events, an Arrow table, a pandas or a polars frame, or an Arrow "
            f"column of JSON texts, not {type(events).__name__}"
        )
    remaining = iter(events)
    while chunk := list(islice(remaining, _DICTS)):
        yield chunk
