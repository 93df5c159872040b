"""The rules of a file or a collection of JSON documents, one by one.

A file of JSON lines has a rule a line. Any other file is one JSON value: an array of rules, or an
object that maps the rules' ids to them. A collection in memory is either of the two.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tamis.errors import InputFileError, RuleError
from tamis.files.json_lines import read_objects
from tamis.files.source import STDIN, open_source, wrap_read_errors
from tamis.matcher.rule import RuleId, check_id

__all__ = ["Entry", "RuleSource", "identify_by", "read_entries", "read_json"]

RuleSource: TypeAlias = str | os.PathLike[str] | Mapping[RuleId, Any] | Iterable[Any]
"""A file, a mapping of ids to documents, or documents that say their ids."""

_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


class Entry(NamedTuple):
    """One rule as its source holds it."""

    id: RuleId | None
    """The name under which the source keeps it; None where the content has to tell."""
    content: Any
    place: str
    """Where it stands, for people: ``rules.jsonl:7``."""


def read_entries(
    source: RuleSource, unpack: Callable[[Any], Any] = lambda documents: documents
) -> Iterator[Entry]:
    """The rules of `source`.

    Parameters
    ----------
    source
        A file, ``-`` for standard input, or documents.
    unpack
        Takes rules out of what a system wraps them in, such as ``{"Rules": […]}``, unless it
        comes as JSON lines.

    Raises
    ------
    InputFileError
        The file cannot be read, or is no JSON.
    """
    prefix = ""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if path == STDIN or path.lower().endswith(_LINES):
            return _read_lines(path)
        source, prefix = read_json(path), f"{path}: "
    documents = unpack(source)
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise RuleError(f"{prefix}expected an array or an object of rules")
    return _list_members(documents, prefix)


def identify_by(
    *contents: str, ids: Sequence[str] = ("id",)
) -> Callable[[Entry], tuple[RuleId, Any]]:
    """Tells the id and the content of an entry.

    An entry that came with its id is the content. Otherwise it is an object that holds the id under
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
    """The one JSON value of a file, which may be compressed with gzip."""
    with wrap_read_errors(path):
        data = Path(path).read_bytes()
        if path.lower().endswith(".gz"):
            data = gzip.decompress(data)
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputFileError(f"not valid JSON: {error}", path=path) from None


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
