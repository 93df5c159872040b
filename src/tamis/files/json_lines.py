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


def read_objects(source: Source, bad: list[InputFileError] | None = None) -> Iterator[ObjectBlock]:
    """Read the objects of a file, a block at a time. Blank lines are skipped, but count as lines.

    Parameters
    ----------
    source
        The file.
    bad
        Takes the errors of lines that are not objects, which are then skipped, too.

    Raises
    ------
    InputFileError
        A line is not a JSON object and not skipped, or the file has no lines.
    """
    lines_read = objects_read = 0
    for block in source.line_blocks():
        lines = [(n, line) for n, line in enumerate(block, lines_read + 1) if line.strip()]
        objects_read += len(lines)
        if bad is None:
            objects = [parse_object(line, source, number) for number, line in lines]
        else:
            lines, objects = _parse_good(lines, source, bad)
        lines_read += len(block)
        if objects:
            yield ObjectBlock([number for number, _ in lines], objects)
    if not objects_read:
        raise source.error("the file is empty")


def _parse_good(
    lines: list[tuple[int, bytes]], source: Source, bad: list[InputFileError]
) -> tuple[list[tuple[int, bytes]], list[dict[str, Any]]]:
    """The lines that are objects, and these objects."""
    good: list[tuple[int, bytes]] = []
    objects: list[dict[str, Any]] = []
    for number, line in lines:
        try:
            objects.append(parse_object(line, source, number))
        except InputFileError as error:
            bad.append(error)
        else:
            good.append((number, line))
    return good, objects


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
