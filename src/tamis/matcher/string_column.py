"""A column of texts as two flat arrays, which can be mapped from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.checks import check_texts, check_types
from tamis.encode.ragged import starts
from tamis.encode.values import pack_texts

__all__ = ["NO_STRINGS", "Strings", "select_lists"]


class Strings(NamedTuple):
    """Texts in UTF-8, laid end to end."""

    start: NDArray[np.int64]
    """Where each text begins in `data`, and where the last one ends."""
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, items: Sequence[str] | Sequence[bytes]) -> Strings:
        """Make a column of these texts."""
        # Not by pa.array, which imports pandas where it is installed, in half a second.
        if items and isinstance(items[0], str):
            joined = "".join(items)  # type: ignore[arg-type]  # all are texts
            data = joined.encode()
            if len(data) > len(joined):  # some characters take several bytes
                return cls(*pack_texts(items))  # type: ignore[arg-type]  # as above
        else:
            data = b"".join(items)  # type: ignore[arg-type]  # all are bytes
        return cls(starts(map(len, items)), np.frombuffer(data, np.uint8))

    @classmethod
    def blank(cls, count: int) -> Strings:
        """Make a column of empty texts."""
        return cls(np.zeros(count + 1, np.int64), np.empty(0, np.uint8))

    @classmethod
    def concat(cls, parts: Sequence[Strings]) -> Strings:
        """Concatenate several columns."""
        if len(parts) == 1:
            return parts[0]
        whole = pa.concat_arrays([NO_STRINGS.arrow(), *(part.arrow() for part in parts)])
        return cls.of_arrow(whole)

    @classmethod
    def of_arrow(cls, array: pa.Array) -> Strings:
        """Make a column of large binaries or large strings, without copying them."""
        _, start, data = array.buffers()
        starts = np.frombuffer(start, np.int64)[array.offset : array.offset + len(array) + 1]
        bytes_ = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(starts, bytes_[: starts[-1]])

    def check(self, name: str, size: int | None = None) -> None:
        """Check a column that was read from a file; of `size` texts, if that is known."""
        check_types(self)
        check_texts(name, self.start, self.data, size)

    @property
    def size(self) -> int:
        """How many texts there are."""
        return len(self.start) - 1

    def bytes_at(self, place: int) -> bytes:
        """The text at `place`, in UTF-8."""
        return self.data[self.start[place] : self.start[place + 1]].tobytes()

    def at(self, place: int) -> str:
        """The text at `place`."""
        return self.bytes_at(place).decode()

    def take(self, places: NDArray[np.integer]) -> Strings:
        """The texts at these places."""
        numbers = pa.py_buffer(np.ascontiguousarray(places, np.int64))
        # Not by pa.array either.
        chosen = pa.Array.from_buffers(pa.int64(), len(places), [None, numbers])
        return self.of_arrow(self.arrow().take(chosen))

    def between(self, begin: int, end: int) -> Strings:
        """The texts at the places from `begin` to `end` (exclusive), which share memory."""
        start = self.start[begin : end + 1]
        return Strings(start - start[0], self.data[start[0] : start[-1]])

    def arrow(self, kind: pa.DataType = None) -> pa.Array:
        """The texts as an Arrow array of large binaries or large strings, which shares memory."""
        buffers = [None, pa.py_buffer(self.start), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(kind or pa.large_binary(), self.size, buffers)


NO_STRINGS = Strings.blank(0)


def select_lists(
    start: NDArray[np.int64], places: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Select some lists of a flattened list of lists.

    Parameters
    ----------
    start
        Where each list begins, and where the last one ends.
    places
        The lists to select.

    Returns
    -------
    start, items
        Where each selected list begins once they are laid end to end, and the places of their
        items in the original flat array.
    """
    first = start[places]
    sizes = start[places + 1] - first
    starts = np.concatenate(([0], np.cumsum(sizes)))
    return starts, np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes)
