"""JSON lines: one object a line, read strictly and block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tamis.errors import InputFileError
from tamis.files.source import Source

__all__ = ["ObjectBlock", "parse_object", "read_objects"]

_DECODER = msgspec.json.Decoder()

_KINDS = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


class ObjectBlock(NamedTuple):
    """The objects of consecutive lines."""

    lines: list[int]
    """The 1-based number of each object's line."""
    objects: list[dict[str, Any]]


def read_objects(source: Source) -> Iterator[ObjectBlock]:
    """Read the objects of a file, a block at a time. Blank lines are skipped, but count as lines.

    Raises
    ------
    InputFileError
        A line is not a JSON object, or the file has no objects.
    """
    lines_read = objects_read = 0
    for block in source.line_blocks():
        lines = [(n, line) for n, line in enumerate(block, lines_read + 1) if line.strip()]
        objects = [parse_object(line, source, number) for number, line in lines]
        lines_read += len(block)
        objects_read += len(objects)
        if objects:
            yield ObjectBlock([number for number, _ in lines], objects)
    if not objects_read:
        raise source.error("the file is empty")


def parse_object(text: bytes, source: Source, number: int | None = None) -> dict[str, Any]:
    """Parse the JSON object `text`, which is line `number` of `source`.

    Raises
    ------
    InputFileError
        The text is not a JSON object.
    """
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise source.error("the JSON is nested too deep", number) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _malformed_error(text, source, number, error) from None
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "a number")
        raise source.error(f"expected a JSON object, found {kind}", number)
    return value


def _malformed_error(
    text: bytes, source: Source, number: int | None, error: Exception
) -> InputFileError:
    try:
        source.decode(text, number or 1)
    except InputFileError as not_utf8:
        return not_utf8
    # msgspec appends "- at `$[...]`", which is a position inside the object, not in the file.
    reason = str(error).partition(" - at ")[0].removeprefix("JSON is malformed: ")
    return source.error(f"not valid JSON: {reason[0].lower()}{reason[1:]}", number)
