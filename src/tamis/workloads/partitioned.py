"""The rules or the events of a workload as a table in parts, and as a Parquet file.

Who makes which part makes no difference to the rows. Events carry their numbers, from 0, since the
rows of a table on many machines have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamis.workloads.base import ChunkedWorkload

__all__ = ["PartitionedTable", "write_parquet"]

_EVENT_ID = "event_id"

_ROW_GROUP = 1 << 14
"""How many rows are written at once at least."""


@dataclass(frozen=True)
class PartitionedTable:
    """A workload's rules with the columns id and rule, or its events with the column event_id."""

    workload: ChunkedWorkload
    events: int | None = None
    """How many events it has; None if it holds the rules."""

    @property
    def rows(self) -> int:
        """How many rows all parts have together."""
        return self.workload.size if self.events is None else self.events

    @property
    def parts(self) -> int:
        """How many parts there are."""
        chunk = self.workload.chunk if self.events is None else self.workload.event_chunk
        return -(-self.rows // chunk)

    @property
    def schema(self) -> pa.Schema:
        """The columns of every part."""
        if self.events is None:
            return pa.schema([("id", pa.int64()), ("rule", pa.string())])
        return PartitionedTable(self.workload, 0).part(0).schema

    def part(self, number: int) -> pa.Table:
        """The part `number`, counted from 0."""
        if self.events is None:
            return self.workload.rules_chunk(number)
        events = self.workload.events_chunk(number, self.events)
        first = number * self.workload.event_chunk
        ids = pa.array(np.arange(first, first + events.num_rows))
        return events.add_column(0, _EVENT_ID, ids)


def write_parquet(
    table: PartitionedTable,
    path: Path,
    parts: range | None = None,
    watch: Callable[[int, float], None] = lambda done, fraction: None,
) -> int:
    """Write parts to a file, which is there when it is complete.

    Parameters
    ----------
    table
        What to write.
    path
        The file.
    parts
        Which parts; all by default.
    watch
        Told again and again how many rows are written, and what share of the parts.

    Returns
    -------
    int
        How many rows were written.
    """
    parts = range(table.parts) if parts is None else parts
    aside = path.with_name(f".{path.name}-{uuid4().hex}")
    rows = 0
    try:
        with pq.ParquetWriter(aside, table.schema) as writer:
            for done, group in _row_groups(table, parts):
                writer.write_table(group)
                rows += group.num_rows
                watch(rows, done / len(parts))
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return rows


def _row_groups(table: PartitionedTable, parts: range) -> Iterator[tuple[int, pa.Table]]:
    """Parts joined where they are small, and how many of them are done."""
    waiting: list[pa.Table] = []
    for done, number in enumerate(parts, 1):
        waiting.append(table.part(number))
        if sum(part.num_rows for part in waiting) >= _ROW_GROUP or done == len(parts):
            yield done, pa.concat_tables(waiting)
            waiting = []
