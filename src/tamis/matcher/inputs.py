"""Reads the containers of events that callers pass: lists, Arrow data, data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from tamis.errors import EventError

__all__ = ["EventChunk", "split_events", "to_arrow"]

EventChunk: TypeAlias = pa.RecordBatch | list[Mapping[str, Any]]

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


def split_events(events: Any) -> Iterator[EventChunk]:
    """Split events into chunks of bounded size: Arrow batches, or lists of mappings.

    Raises
    ------
    EventError
        `events` is not a container of events.
    """
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
            "expected a list of events, an Arrow table, a pandas or a polars frame, "
            f"not {type(events).__name__}"
        )
    remaining = iter(events)
    while chunk := list(islice(remaining, _DICTS)):
        yield chunk
