"""How large an Arrow stream becomes, from its metadata, before anything of it is unpacked.

Buffers of an Arrow stream may be compressed, each by itself, and each begins with the length that
it says to have. Arrow allocates that much without a limit. So this reads the messages of the IPC
format (https://arrow.apache.org/docs/format/Columnar.html) itself, as far as it takes to find
these lengths: flatbuffers are tables of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import calcsize, unpack_from
from typing import IO, Final

__all__ = ["StreamError", "measure_stream"]

_CONTINUES: Final = -1
"""Begins a message; in streams from before 2019, the length of the metadata does."""

_LONGEST_METADATA: Final = 16 << 20
_SKIPPED: Final = 1 << 20
_DICTIONARY, _BATCH = 2, 3


class StreamError(ValueError):
    """The messages are not those of an Arrow stream."""


def measure_stream(file: IO[bytes]) -> Iterator[int]:
    """The sizes of the buffers of each batch and dictionary of a stream, unpacked."""
    while (metadata := _read_metadata(file)) is not None:
        message = _Table.root(metadata)
        body = message.number("<q", 3)
        batch = message.table(2)
        kind = message.number("<B", 1)
        if kind == _DICTIONARY and batch is not None:
            batch = batch.table(1)
        if kind in (_DICTIONARY, _BATCH) and batch is not None and batch.table(3) is not None:
            yield _unpacked_size(file, batch, body)
        else:
            _skip(file, body)
            yield body


def _read_metadata(file: IO[bytes]) -> bytes | None:
    size = _read_int(file)
    if size == _CONTINUES:
        size = _read_int(file)
    if not size:
        return None
    if not 0 < size <= _LONGEST_METADATA:
        raise StreamError("the length of a message is wrong")
    metadata = file.read(size)
    if len(metadata) < size:
        raise StreamError("it ends too early")
    return metadata


def _read_int(file: IO[bytes]) -> int:
    """The next length; 0 at the end."""
    data = file.read(4)
    return int(unpack_from("<i", data)[0]) if len(data) == 4 else 0


def _unpacked_size(file: IO[bytes], batch: _Table, body: int) -> int:
    """The sum of the lengths that the buffers of a compressed batch say to have."""
    total = position = 0
    for offset, length in sorted(batch.pairs(2)):
        if length < 8:
            continue
        if offset < position or offset + length > body:
            raise StreamError("its buffers overlap")
        _skip(file, offset - position)
        head = file.read(8)
        if len(head) < 8:
            raise StreamError("it ends too early")
        size = unpack_from("<q", head)[0]
        # -1 says that the buffer is not compressed after all.
        total += length if size < 0 else size
        position = offset + 8
    _skip(file, body - position)
    return total


def _skip(file: IO[bytes], count: int) -> None:
    while count > 0:
        skipped = len(file.read(min(count, _SKIPPED)))
        if not skipped:
            raise StreamError("it ends too early")
        count -= skipped


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - self._int("<i", at)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, cls._read(data, "<I", 0))

    @staticmethod
    def _read(data: bytes, form: str, at: int) -> int:
        # A negative offset would count from the end.
        if not 0 <= at <= len(data) - calcsize(form):
            raise StreamError("its metadata are damaged")
        return int(unpack_from(form, data, at)[0])

    def _int(self, form: str, at: int) -> int:
        return self._read(self._data, form, at)

    def _place(self, field: int) -> int | None:
        """Where a field is; None for its default."""
        entry = 4 + 2 * field
        if entry >= self._int("<H", self._fields):
            return None
        offset = self._int("<H", self._fields + entry)
        return self._at + offset if offset else None

    def number(self, form: str, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else self._int(form, place)

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return None if place is None else _Table(self._data, place + self._int("<I", place))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A vector of structs of two 64-bit integers."""
        place = self._place(field)
        if place is None:
            return []
        start = place + self._int("<I", place)
        count = self._int("<I", start)
        if start + 4 + 16 * count > len(self._data):
            raise StreamError("its metadata are damaged")
        return [unpack_from("<qq", self._data, start + 4 + 16 * n) for n in range(count)]
