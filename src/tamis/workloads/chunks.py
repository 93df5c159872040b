"""What all workloads share: rules that are made chunk by chunk, and parameters that are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

__all__ = ["ChunkedRules", "require"]


class ChunkedRules(ABC):
    """Rules numbered from 0, of which `chunk` are made at a time."""

    size: int
    chunk: ClassVar[int]
    """How many rules are made at a time. Each chunk has its own stream of random numbers."""

    @abstractmethod
    def _texts(self, start: int) -> pa.StringArray:
        """The texts of the chunk of rules from `start` on."""

    def rules(self) -> Iterator[tuple[int, str]]:
        """The rules as (id, text), in the order in which they are to be added."""
        for start in range(0, self.size, self.chunk):
            yield from enumerate(self._texts(start).to_pylist(), start)

    def rules_table(self) -> pa.Table:
        """The same rules as an Arrow table with the columns id and rule."""
        chunks = [self._texts(start) for start in range(0, self.size, self.chunk)]
        ids = pa.array(np.arange(self.size))
        return pa.table({"id": ids, "rule": pa.chunked_array(chunks, pa.string())})


def require(requirements: Mapping[str, bool], given: object) -> None:
    """Raise if one of the requirements, named by what they say, does not hold."""
    for requirement, holds in requirements.items():
        if not holds:
            raise ValueError(f"{requirement}; got {given}")
