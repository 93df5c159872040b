"""JSON lines: one object a line, read strictly and block by block, as objects or as texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.encode.json.reader import find_suspects
from tamis.encode.json.texts import JsonTexts, describe_json_error
from tamis.encode.json.warm_up import are_worth_it
from tamis.errors import InputFileError
from tamis.files.source import LONGEST_LINE, Source

__all__ = ["ObjectBlock", "TextBlock", "parse_object", "read_objects", "read_texts"]

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


class TextBlock(NamedTuple):
    """Consecutive lines that are objects."""

    lines: NDArray[np.int64]
    """The 1-based number of each line."""
    texts: JsonTexts


def read_texts(source: Source, bad: list[InputFileError] | None = None) -> Iterator[TextBlock]:
    """Read the lines of a file, a block at a time, like `read_objects`; they are not decoded.

    All lines are checked, so decoding them never fails.
    """
    lines_read = objects_read = 0
    for block in source.blocks():
        texts = _split_lines(block)
        if texts.size and int(texts.end[-1] - texts.begin[-1]) >= LONGEST_LINE:
            raise source.too_long_error(lines_read + texts.size)
        numbers = np.arange(lines_read + 1, lines_read + texts.size + 1)
        lines_read += texts.size
        suspects = find_suspects(texts) if are_worth_it(texts.size) else np.arange(texts.size)
        good = np.ones(texts.size, np.bool_)
        for row in suspects.tolist():
            line = texts.text(row)
            if not line.strip():
                good[row] = False
                continue
            objects_read += 1
            try:
                parse_object(line, source, int(numbers[row]))
            except InputFileError as error:
                if bad is None:
                    raise
                bad.append(error)
                good[row] = False
        objects_read += texts.size - len(suspects)
        if good.any():
            is_whole = bool(good.all())
            yield TextBlock(
                numbers if is_whole else numbers[good], texts if is_whole else texts.keep(good)
            )
    if not objects_read:
        raise source.error("the file is empty")


def _split_lines(block: bytes) -> JsonTexts:
    data = np.frombuffer(block, np.uint8)
    end = np.flatnonzero(data == ord("\n"))
    if not block.endswith(b"\n"):
        end = np.append(end, len(data))
    begin = np.zeros(len(end), np.int64)
    begin[1:] = end[:-1] + 1
    return JsonTexts(data, begin, end.astype(np.int64))


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
    return source.error(f"not valid JSON: {describe_json_error(error)}", number)
