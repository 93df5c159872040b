"""The base class of all workloads, which generate rules and events chunk by chunk.

Each chunk is generated without the others, so many machines can share the work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

__all__ = ["ChunkedWorkload", "check_parameters"]


class ChunkedWorkload(ABC):
    """Rules and events, each numbered from 0 and generated chunk by chunk."""

    size: int
    rules_per_chunk: ClassVar[int]
    """Rules per chunk. Each chunk has its own stream of random numbers."""
    events_per_chunk: ClassVar[int]
    """Events per chunk."""

    @abstractmethod
    def _texts(self, start: int) -> pa.StringArray:
        """The texts of the chunk of rules from `start` on."""

    @abstractmethod
    def _events(self, start: int, count: int) -> pa.Table:
        """The first `count` events of the chunk from `start` on; null where absent."""

    def rules(self) -> Iterator[tuple[int, str]]:
        """The rules as (id, text), in the order of addition."""
        for start in range(0, self.size, self.rules_per_chunk):
            yield from enumerate(self._texts(start).to_pylist(), start)

    def rules_chunk(self, number: int) -> pa.Table:
        """Chunk `number` of the rules, from 0, with the columns id and rule."""
        start = number * self.rules_per_chunk
        texts = self._texts(start)
        return pa.table({"id": pa.array(np.arange(start, start + len(texts))), "rule": texts})

    def rules_table(self) -> pa.Table:
        """The rules as an Arrow table with the columns id and rule."""
        empty = pa.table({"id": pa.array([], pa.int64()), "rule": pa.array([], pa.string())})
        chunks = range(-(-self.size // self.rules_per_chunk))
        return pa.concat_tables([empty, *map(self.rules_chunk, chunks)])

    def events_chunk(self, number: int, n: int) -> pa.Table:
        """Chunk `number` of `n` events, from 0, with a column for each attribute."""
        start = number * self.events_per_chunk
        return self._events(start, max(0, min(self.events_per_chunk, n - start)))

    def events_table(self, n: int) -> pa.Table:
        """`n` events as an Arrow table: a column for each attribute, null where absent."""
        chunks = range(max(1, -(-n // self.events_per_chunk)))
        return pa.concat_tables(self.events_chunk(number, n) for number in chunks)


def check_parameters(requirements: Mapping[str, bool], given: object) -> None:
    """Raise a ValueError with the first requirement that is false, and the parameters given."""
    for requirement, holds in requirements.items():
        if not holds:
            raise ValueError(f"{requirement}; got {given}")
