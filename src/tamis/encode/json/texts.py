"""Many JSON texts as they lie in memory: the lines of a file, or an Arrow column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrow_arrays import to_numpy
from tamis.encode.arrow_layouts import plain
from tamis.encode.hashes import read_only
from tamis.errors import EventError, SchemaError, combine_errors

__all__ = ["JsonTexts", "describe_json_error"]

_decode = msgspec.json.Decoder().decode

_LONGEST_EXCERPT = 80


class JsonTexts(NamedTuple):
    """Texts in UTF-8, each of which should be a JSON object: an event."""

    data: NDArray[np.uint8]
    """Read-only."""
    begin: NDArray[np.int64]
    """Where each text begins in `data`; -1 for a missing one, which is an event without values."""
    end: NDArray[np.int64]

    @classmethod
    def of_arrow(cls, column: pa.Array) -> JsonTexts | None:
        """The texts of a column of strings or bytes; None for a column of another type."""
        column = plain(column)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            offset_type: np.dtype[Any] = np.dtype(np.int64)
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            offset_type = np.dtype(np.int32)
        else:
            return None
        validity, offsets, data = column.buffers()
        size = len(column)
        if size == 0:
            nothing = np.empty(0, np.int64)
            return cls(read_only(np.empty(0, np.uint8)), nothing, nothing)
        start = np.frombuffer(offsets, offset_type, size + 1, column.offset * offset_type.itemsize)
        begin, end = start[:-1].astype(np.int64), start[1:].astype(np.int64)
        if validity is not None and column.null_count:
            begin[to_numpy(column.is_null())] = -1
        raw = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(read_only(raw), begin, end)

    @property
    def size(self) -> int:
        """How many texts there are."""
        return len(self.begin)

    def between(self, first: int, last: int) -> JsonTexts:
        """The texts from `first` up to, not including, `last`."""
        return JsonTexts(self.data, self.begin[first:last], self.end[first:last])

    def keep(self, good: NDArray[np.bool_]) -> JsonTexts:
        """The texts that are marked."""
        return JsonTexts(self.data, self.begin[good], self.end[good])

    def text(self, row: int) -> bytes:
        """One text."""
        return self.data[self.begin[row] : self.end[row]].tobytes()

    def is_valid_utf8(self) -> bool:
        """Whether the whole memory from the first to the last text is UTF-8."""
        present = self.begin >= 0
        if not present.any():
            return True
        span = self.data[self.begin[present].min() : self.end[present].max()].tobytes()
        if span.isascii():
            return True
        try:
            span.decode()
        except UnicodeDecodeError:
            return False
        return True

    def event(self, row: int) -> dict[str, Any]:
        """One text as an object.

        Raises
        ------
        EventError
            It is not a JSON object.
        """
        if self.begin[row] < 0:
            return {}
        text = self.text(row)
        try:
            event = _decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = describe_json_error(error)
            raise EventError(f"the event is not JSON: {reason}: {_shorten(text)}") from None
        if not isinstance(event, dict):
            raise EventError(f"an event is a JSON object, not {_shorten(text)}")
        return event

    def events(self, first: int = 0) -> list[Mapping[str, Any]]:
        """All texts as objects; an error names the event by its number, counted from `first`.

        Raises
        ------
        EventError
            Some are not JSON objects.
        """
        events: list[Mapping[str, Any]] = []
        errors: dict[int, EventError | SchemaError] = {}
        for row in range(self.size):
            try:
                events.append(self.event(row))
            except EventError as error:
                errors[first + row] = error
        if errors:
            raise combine_errors(errors)
        return events

    def chunks(self, size: int) -> Iterator[JsonTexts]:
        """The same texts, `size` at a time."""
        for first in range(0, self.size, size):
            yield self.between(first, first + size)


def describe_json_error(error: Exception) -> str:
    """What is wrong with a text that cannot be decoded, without its position in the object."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    # msgspec appends "- at `$[...]`", which is a path inside the object.
    reason = str(error).partition(" - at ")[0].removeprefix("JSON is malformed: ")
    return f"{reason[0].lower()}{reason[1:]}"


def _shorten(text: bytes) -> str:
    shown = text.decode(errors="replace")
    return repr(shown if len(shown) <= _LONGEST_EXCERPT else f"{shown[: _LONGEST_EXCERPT - 1]}…")
