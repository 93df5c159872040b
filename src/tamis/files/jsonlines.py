"""JSON lines: one object a line, read strictly and block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tamis.errors import InputFileError
from tamis.files.source import Source

__all__ = ["Objects", "json_object", "object_blocks"]

_DECODER = msgspec.json.Decoder()

_KINDS = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


class Objects(NamedTuple):
    """The objects of some lines."""

    lines: list[int]
    """The 1-based number of each object's line."""
    objects: list[dict[str, Any]]


def object_blocks(source: Source) -> Iterator[Objects]:
    """The objects of a file, some at a time. Blank lines are passed over, but count.

    Raises
    ------
    InputFileError
        A line is no JSON object, or there is none at all.
    """
    read = found = 0
    for block in source.line_blocks():
        lines = [(number, line) for number, line in enumerate(block, read + 1) if line.strip()]
        objects = [json_object(line, source, number) for number, line in lines]
        read += len(block)
        found += len(objects)
        if objects:
            yield Objects([number for number, _ in lines], objects)
    if not found:
        raise source.error("the file is empty")


def json_object(text: bytes, source: Source, number: int | None = None) -> dict[str, Any]:
    """The JSON object `text`, from the line `number` of `source`."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise source.error("the JSON is nested too deep", number) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _malformed(text, source, number, error) from None
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "a number")
        raise source.error(f"expected a JSON object, found {kind}", number)
    return value


def _malformed(text: bytes, source: Source, number: int | None, error: Exception) -> InputFileError:
    try:
        source.text(text, number or 1)
    except InputFileError as not_utf8:
        return not_utf8
    # msgspec's "- at `$[...]`" points at nothing here.
    reason = str(error).partition(" - at ")[0].removeprefix("JSON is malformed: ")
    return source.error(f"not valid JSON: {reason[0].lower()}{reason[1:]}", number)
