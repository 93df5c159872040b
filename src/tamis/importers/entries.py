"""Reads the rules of a JSON file or a collection of JSON documents, one entry each.

A file of JSON lines has one rule a line. Any other file is one JSON value: an array of rules, or an
object that maps ids to rules. A collection in memory is a mapping or an iterable of the same form.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tamis.errors import InputFileError, RuleError
from tamis.files.compression import compression_of, decompress
from tamis.files.json_lines import read_objects
from tamis.files.source import STDIN, open_source, wrap_read_errors
from tamis.matcher.rule import RuleId, check_id

__all__ = ["Entry", "Identify", "RuleSource", "identify_by", "read_entries", "read_json"]

RuleSource: TypeAlias = str | os.PathLike[str] | Mapping[RuleId, Any] | Iterable[Any]
"""A file, a mapping of ids to documents, or documents that contain their ids."""

_LARGEST_FILE = 1 << 28
"""How many bytes one JSON value may have. Parsed, it takes up to eight times as much memory."""

_JSON_LINES = (".jsonl", ".ndjson")


class Entry(NamedTuple):
    """One rule of a source, before it is parsed."""

    id: RuleId | None
    """The key under which the source stores the rule; None if the content has the id."""
    content: Any
    place: str
    """Where the rule is, for people: ``rules.jsonl:7``."""


Identify: TypeAlias = Callable[[Entry], tuple[RuleId, Any]]
"""Finds the id and the content of an entry."""


def read_entries(
    source: RuleSource, unpack: Callable[[Any], Any] = lambda documents: documents
) -> Iterator[Entry]:
    """Read the entries of `source`.

    Parameters
    ----------
    source
        A file, ``-`` for standard input, or documents.
    unpack
        Takes the rules out of a system's wrapper, such as ``{"Rules": […]}``. Not used for JSON
        lines.

    Raises
    ------
    InputFileError
        The file cannot be read, or is not JSON.
    RuleError
        The JSON value is neither an array nor an object.
    """
    prefix = ""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if path == STDIN or _without_compression(path).endswith(_JSON_LINES):
            return _read_lines(path)
        source, prefix = read_json(path), f"{path}: "
    documents = unpack(source)
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise RuleError(f"{prefix}expected an array or an object of rules")
    return _list_members(documents, prefix)


def identify_by(*contents: str, ids: Sequence[str] = ("id",)) -> Identify:
    """Identify entries by the names of their fields.

    An entry that has an id is itself the content. Any other entry is an object with the id under
    one of `ids` and the content under one of `contents`.
    """

    def identify(entry: Entry) -> tuple[RuleId, Any]:
        if entry.id is not None:
            return check_id(entry.id), entry.content
        if not isinstance(entry.content, Mapping):
            raise RuleError(f"expected an object with {ids[0]!r} and {contents[0]!r}")
        id = next((entry.content[name] for name in ids if name in entry.content), None)
        if id is None:
            raise RuleError(f"there is no {' or '.join(map(repr, ids))}")
        for name in contents:
            if name in entry.content:
                return check_id(id), entry.content[name]
        raise RuleError(f"there is no {' or '.join(map(repr, contents))}", rule_id=id)

    return identify


def read_json(path: str) -> Any:
    """Read the one JSON value of a file, which may be compressed.

    Raises
    ------
    InputFileError
        The file cannot be read, or is not JSON.
    """
    with wrap_read_errors(path), Path(path).open("rb") as file:
        compression = compression_of(path)
        stream = file if compression is None else decompress(file, compression)
        data = stream.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise InputFileError(
            f"the JSON has more than {_LARGEST_FILE >> 20} MiB; write JSON lines instead",
            path=path,
        )
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputFileError(f"not valid JSON: {error}", path=path) from None


def _without_compression(path: str) -> str:
    return path.lower().removesuffix(compression_of(path) or "")


def _read_lines(path: str) -> Iterator[Entry]:
    with open_source(path) as source:
        for block in read_objects(source):
            for line, content in zip(block.lines, block.objects, strict=True):
                yield Entry(None, content, f"{source.path}:{line}")


def _list_members(documents: Iterable[Any], prefix: str) -> Iterator[Entry]:
    if isinstance(documents, Mapping):
        for id, content in documents.items():
            yield Entry(id, content, f"{prefix}{id}")
    else:
        for number, content in enumerate(documents, 1):
            yield Entry(None, content, f"{prefix}number {number}")
