"""What the file that describes a pipeline may contain, as structs: one for each of its tables."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from tamis.errors import InputFileError

__all__ = [
    "FILE_FORMATS",
    "Config",
    "EventsSource",
    "Options",
    "Pipeline",
    "Place",
    "RulesSource",
    "Top",
    "describe_place",
    "describe_source",
    "is_address",
]

Names: TypeAlias = str | list[str]

_FORMAT_OF_SUFFIX: Final = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv"}
FILE_FORMATS: Final = ("csv", "json", "orc", "parquet")
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file; an unknown key in it is an error."""


class Secret(_Table, frozen=True):
    """A value that is not in the file, such as a password, but in the environment."""

    env: str


Options: TypeAlias = dict[str, str | int | float | bool | Secret]


class RulesSource(_Table, frozen=True):
    """The table of rules, and its columns: files, a table of a catalog, or one of a database."""

    path: str | None = None
    table: str | None = None
    jdbc: str | None = None
    follow: bool = False
    """Whether to apply the changes of a Delta table since the last run, instead of building."""
    format: str | None = None
    options: Options = {}
    id: str = "id"
    rule: str = "rule"
    logic: str | None = None
    weights: str | None = None
    payload: str | None = None
    tags: str | None = None
    priority: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    subscription: str | None = None
    default_logic: Literal["strong", "weak"] = "strong"
    schema: dict[str, str] = {}
    on_error: Literal["quarantine", "raise"] = "quarantine"
    max_bad: int | float | None = None


class EventsSource(_Table, frozen=True):
    """The table or stream of events, and its columns."""

    path: str | None = None
    table: str | None = None
    topic: Names | None = None
    servers: str | None = None
    start: str = "earliest"
    format: str | None = None
    options: Options = {}
    schema: str | None = None
    keys: Names | None = None
    events: Names | None = None
    carry: Names | None = None


class IndexSettings(_Table, frozen=True):
    """The published index, and how to build and use it."""

    path: str
    shards: int | None = None
    engine: str = "auto"
    keep: int | None = None
    plan: Literal["auto", "whole", "sharded"] = "auto"
    memory: str | int | None = None
    ship: bool = False


class Place(_Table, frozen=True):
    """Where an output goes: one of path, table and topic."""

    path: str | None = None
    table: str | None = None
    topic: str | None = None
    format: str | None = None
    servers: str | None = None
    key: Literal["match", "event"] = "match"
    options: Options = {}


class Top(Place, frozen=True):
    """The output of the best rules, and how many for each event."""

    n: int = 5


class Outputs(_Table, frozen=True):
    """The outputs, each with its path or place."""

    matches: str | Place | None = None
    counts: str | Place | None = None
    top: Top | None = None
    dead_letters: str | Place | None = None
    report: str | None = None
    title: str = "Rules and their matches"


class Stream(_Table, frozen=True):
    """The settings of a stream."""

    checkpoint: str
    trigger: str | dict[str, str | bool] | None = None


class SparkSettings(_Table, frozen=True):
    """The Spark session: on this machine, unless `master` or `remote` is given."""

    master: str | None = None
    remote: str | None = None
    cores: int | None = None
    memory: str = "2g"
    conf: dict[str, str | int | float | bool] = {}


class Pipeline(_Table, frozen=True):
    """The whole file."""

    index: IndexSettings
    mode: Literal["batch", "stream"] = "batch"
    rules: RulesSource | None = None
    events: EventsSource | None = None
    output: Outputs = Outputs()
    stream: Stream | None = None
    spark: SparkSettings = SparkSettings()


@dataclass(frozen=True)
class Config:
    """A file that was read and checked."""

    file: str
    folder: Path
    pipeline: Pipeline

    def resolve_path(self, path: str) -> str:
        """Resolve a path in the file: relative ones start from the file's folder."""
        return path if is_address(path) else str(self.folder / Path(path).expanduser())

    def error(self, key: str, message: str) -> InputFileError:
        """Make an error about the value of `key`."""
        return InputFileError(f"{key}: {message}", path=self.file)

    def format_of(self, key: str, source: RulesSource | EventsSource) -> str:
        """The format of a source: the one it names, else that of its file name.

        Raises
        ------
        InputFileError
            Neither gives a format.
        """
        if source.format is not None:
            return source.format
        path = source.path or ""
        suffix = Path(path.lower().removesuffix(".gz")).suffix
        if suffix in _FORMAT_OF_SUFFIX:
            return _FORMAT_OF_SUFFIX[suffix]
        if suffix == ".parquet" or not suffix:
            return "parquet"
        known = ", ".join(FILE_FORMATS)
        raise self.error(f"{key}.format", f"{path!r} does not show the format; name it: {known}")

    def is_of_files(self, source: EventsSource) -> bool:
        """Whether events are in files, and not read through a connector."""
        return self.format_of("events", source) in FILE_FORMATS

    def resolve_options(self, key: str, options: Options) -> dict[str, Any]:
        """Options of a reader or a writer, with the values that are in the environment.

        Raises
        ------
        InputFileError
            The environment lacks a variable.
        """
        resolved: dict[str, Any] = {}
        for name, value in options.items():
            if isinstance(value, Secret) and value.env not in os.environ:
                raise self.error(f"{key}.options.{name}", f"the variable {value.env} is not set")
            resolved[name] = os.environ[value.env] if isinstance(value, Secret) else value
        return resolved


def describe_source(source: RulesSource | EventsSource) -> str:
    """What a source is, for messages: its path, table or topic."""
    if isinstance(source, EventsSource) and source.topic is not None:
        return f"the topic {source.topic}"
    if source.table is not None:
        return f"the table {source.table}"
    return source.path or source.format or ""


def describe_place(place: str | Place) -> str:
    """What an output is, for messages: its path, table or topic."""
    if isinstance(place, str):
        return place
    if place.topic is not None:
        return f"the topic {place.topic}"
    return f"the table {place.table}" if place.table is not None else place.path or ""


def is_address(path: str) -> bool:
    """Whether a path is an address such as ``s3a://…``, which Spark reads."""
    return _ADDRESS.match(path) is not None
