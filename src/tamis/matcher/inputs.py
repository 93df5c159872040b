"""Reads the containers of events and rules that callers pass: lists, Arrow data, data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from tamis.errors import EventError, RuleError

__all__ = ["EventChunk", "iterate_rules", "split_events", "to_arrow"]

EventChunk: TypeAlias = pa.RecordBatch | list[Mapping[str, Any]]

_ROWS = 65_536
"""How many Arrow rows are encoded at a time."""

_JSON_COLUMNS: Final = ("weights", "payload")
"""The columns of a table of rules that may hold JSON as text, since no type of Arrow holds any."""

_MORE_COLUMNS: Final = (*_JSON_COLUMNS, "tags", "priority", "valid_from", "valid_until")
"""What a table of rules may have besides id, rule and logic."""

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


def iterate_rules(rules: Any) -> Iterator[Any]:
    """Iterate over rules: tuples of id, rule and optionally logic, or whatever a list contains.

    The rows of a table with more columns are mappings, as `rule_of_fields` takes them.

    Raises
    ------
    RuleError
        `rules` is not a container of rules.
    """
    arrow = to_arrow(rules)
    if arrow is None:
        if isinstance(rules, str | bytes) or not isinstance(rules, Iterable):
            raise RuleError(
                "expected pairs of id and rule, a mapping, or an Arrow table with the columns "
                f"id and rule, not {type(rules).__name__}"
            )
        yield from rules.items() if isinstance(rules, Mapping) else rules
        return
    names = arrow.schema.names
    for needed in ("id", "rule"):
        if needed not in names:
            raise RuleError(f"the table of rules has no column {needed!r}; it has {names}")
    columns = ["id", "rule", *(["logic"] if "logic" in names else [])]
    more = [name for name in _MORE_COLUMNS if name in names]
    for batch in arrow.to_batches() if isinstance(arrow, pa.Table) else arrow:
        rows = zip(*(batch.column(name).to_pylist() for name in columns + more), strict=True)
        if not more:
            yield from rows
            continue
        for row in rows:
            fields = dict(zip(columns + more, row, strict=True))
            for name in _JSON_COLUMNS:
                if isinstance(fields.get(name), str):
                    fields[name] = _read_json(fields[name])
            yield fields


def _read_json(text: str) -> Any:
    """The JSON in a text; the text itself if it is not JSON, for the reader of rules to judge."""
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text
