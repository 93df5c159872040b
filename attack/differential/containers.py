"""The containers in which a caller may pass events, each with the same events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from tests.json_spelling import spell_events

__all__ = ["COLUMNAR", "CONTAINERS", "to_table"]

Events = Sequence[dict[str, Any]]


def to_table(events: Events) -> pa.Table:
    """An Arrow table; attributes with a list in any event become columns of lists."""
    names = list(dict.fromkeys(name for event in events for name in event))
    columns = {}
    for name in names:
        items = [event.get(name) for event in events]
        if any(isinstance(item, list) for item in items):
            items = [i if isinstance(i, list) or i is None else [i] for i in items]
        columns[name] = pa.array(items, _find_type(items))
    return pa.table(columns) if columns else pa.table({"in no rule": [None] * len(events)})


def _find_type(items: list[Any]) -> pa.DataType | None:
    """Arrow would make integers of booleans, or refuse them beside doubles: say the type."""
    values = [v for item in items for v in (item if isinstance(item, list) else [item])]
    present = [value for value in values if value is not None]
    if not present:
        return pa.null()
    if any(isinstance(value, float) for value in present):
        kind = pa.float64()
    elif any(isinstance(value, Decimal) for value in present):
        kind = pa.decimal128(38, 20)
    elif any(isinstance(value, datetime) for value in present):
        kind = pa.timestamp("us", "UTC")
    else:
        kind = pa.scalar(present[0]).type
    return pa.list_(kind) if any(isinstance(item, list) for item in items) else kind


def _to_reader(events: Events) -> pa.RecordBatchReader:
    return to_table(events).to_reader(max_chunksize=max(1, len(events) // 3))


def _to_batch(events: Events) -> pa.RecordBatch:
    (batch,) = to_table(events).combine_chunks().to_batches() or [None]
    return batch


def _to_dictionaries(events: Events) -> pa.Table:
    """A table whose columns of strings are dictionary-encoded."""
    table = to_table(events)
    for place, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            table = table.set_column(place, table.column_names[place], column.dictionary_encode())
    return table


def _to_polars(events: Events) -> Any:
    import polars as pl

    return pl.from_arrow(to_table(events))


def _to_pandas(events: Events) -> Any:
    import pandas as pd

    return to_table(events).to_pandas(types_mapper=pd.ArrowDtype)


def _to_json(events: Events) -> pa.Array:
    """JSON texts, each spelled in its own way."""
    return pa.array([text.decode() for text in spell_events(events)])


CONTAINERS: Final[dict[str, Callable[[Events], Any]]] = {
    "list": list,
    "arrow": to_table,
    "batch": _to_batch,
    "dictionaries": _to_dictionaries,
    "reader": _to_reader,
    "polars": _to_polars,
    "pandas": _to_pandas,
    "JSON": _to_json,
}
"""How events are passed, by the names that cases use."""

COLUMNAR: Final = tuple(name for name in CONTAINERS if name not in ("list", "JSON"))
"""The containers in which all values of an attribute have one type."""
