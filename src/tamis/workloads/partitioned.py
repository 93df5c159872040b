"""The rules or the events of a workload as a partitioned table, and as a Parquet file.

The rows do not depend on which machine generates which part. Events carry their numbers, from 0,
because a table on many machines has no order.
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
"""The least number of rows of a row group, except the last one."""


@dataclass(frozen=True)
class PartitionedTable:
    """A workload's rules with the columns id and rule, or its events with a column event_id."""

    workload: ChunkedWorkload
    events: int | None = None
    """The number of events; None for a table of the rules."""

    @property
    def rows(self) -> int:
        """The number of rows of all parts."""
        return self.workload.size if self.events is None else self.events

    @property
    def parts(self) -> int:
        """The number of parts."""
        chunk = (
            self.workload.rules_per_chunk if self.events is None else self.workload.events_per_chunk
        )
        return -(-self.rows // chunk)

    @property
    def schema(self) -> pa.Schema:
        """The columns of every part."""
        if self.events is None:
            return pa.schema([("id", pa.int64()), ("rule", pa.string())])
        return PartitionedTable(self.workload, 0).part(0).schema

    def part(self, number: int) -> pa.Table:
        """Part `number`, from 0."""
        if self.events is None:
            return self.workload.rules_chunk(number)
        events = self.workload.events_chunk(number, self.events)
        first = number * self.workload.events_per_chunk
        ids = pa.array(np.arange(first, first + events.num_rows))
        return events.add_column(0, _EVENT_ID, ids)


def write_parquet(
    table: PartitionedTable,
    path: Path,
    parts: range | None = None,
    watch: Callable[[int, float], None] = lambda done, fraction: None,
) -> int:
    """Write parts to a file, which appears when it is complete, and return the number of rows.

    Parameters
    ----------
    table
        The table to write.
    path
        The file.
    parts
        The parts to write; all by default.
    watch
        Called repeatedly with the number of rows written, and the fraction of the parts.
    """
    parts = range(table.parts) if parts is None else parts
    partial = path.with_name(f".{path.name}-{uuid4().hex}")
    rows = 0
    try:
        with pq.ParquetWriter(partial, table.schema) as writer:
            for done, group in _row_groups(table, parts):
                writer.write_table(group)
                rows += group.num_rows
                watch(rows, done / len(parts))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return rows


def _row_groups(table: PartitionedTable, parts: range) -> Iterator[tuple[int, pa.Table]]:
    """Concatenate small parts; yield the number of parts done and the rows."""
    pending: list[pa.Table] = []
    for done, number in enumerate(parts, 1):
        pending.append(table.part(number))
        if sum(part.num_rows for part in pending) >= _ROW_GROUP or done == len(parts):
            yield done, pa.concat_tables(pending)
            pending = []
