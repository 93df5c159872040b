"""A column of texts in compressed blocks, for texts that are rarely read.

The texts of rules take more memory than the index over them, and are needed only to show a rule, to
explain a match, or to store it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.matcher.string_column import Strings

__all__ = ["CompressedStrings", "compress_strings"]

_CODEC: Final = "zstd"
_LEVEL: Final = 1
_BLOCK: Final = 256
"""How many texts are in a block: a few dozen kilobytes, which take some 50 µs to decompress."""

_LEAST: Final = 4096
"""Fewer texts are not worth the time."""


class CompressedStrings:
    """Texts in UTF-8, in blocks of equal numbers of texts. It never changes.

    Parameters
    ----------
    sizes
        How many bytes each text has.
    blocks
        The compressed blocks.
    """

    def __init__(self, sizes: NDArray[np.int32], blocks: list[bytes]) -> None:
        self._sizes = sizes
        self._blocks = blocks
        self._last: tuple[int, Strings] | None = None
        """The number of the block that was decompressed last, and its texts."""

    @property
    def size(self) -> int:
        """How many texts there are."""
        return len(self._sizes)

    def plain(self) -> Strings:
        """All texts, decompressed."""
        parts = [self._decompress(number) for number in range(len(self._blocks))]
        return Strings.concat(parts or [Strings.blank(0)])

    def bytes_at(self, place: int) -> bytes:
        """The text at `place`, in UTF-8."""
        number, at = divmod(place, _BLOCK)
        last = self._last
        if last is None or last[0] != number:
            # Two threads may both decompress it; either result is right.
            last = self._last = number, self._decompress(number)
        return last[1].bytes_at(at)

    def at(self, place: int) -> str:
        """The text at `place`."""
        return self.bytes_at(place).decode()

    def _decompress(self, number: int) -> Strings:
        start = _starts(self._sizes[number * _BLOCK : (number + 1) * _BLOCK])
        codec = pa.Codec(_CODEC, _LEVEL)
        data = codec.decompress(self._blocks[number], int(start[-1]), asbytes=True)
        return Strings(start, np.frombuffer(data, np.uint8))


def compress_strings(texts: Strings) -> CompressedStrings | None:
    """The same texts in compressed blocks; None if they are few."""
    if texts.size < _LEAST:
        return None
    codec = pa.Codec(_CODEC, _LEVEL)
    blocks: list[bytes] = []
    for begin in range(0, texts.size, _BLOCK):
        some = texts.between(begin, min(begin + _BLOCK, texts.size))
        blocks.append(codec.compress(pa.py_buffer(some.data), asbytes=True))
    return CompressedStrings(np.diff(texts.start).astype(np.int32), blocks)


def _starts(sizes: NDArray[np.int32]) -> NDArray[np.int64]:
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start
