"""Read and check the file that describes a pipeline, TOML or YAML, before Spark starts.

An error names the file and the key. Paths are relative to the file's folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from tamis.errors import InputFileError, MissingExtraError

__all__ = ["Config", "EventsSource", "Pipeline", "RulesSource", "Top", "read_config"]

Names: TypeAlias = str | list[str]

_FORMAT_OF_SUFFIX: Final = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv"}
_FILE_FORMATS: Final = ("csv", "json", "orc", "parquet")
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_KEY = re.compile(r" - at `\$\.?(.*)`$")


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file; an unknown key in it is an error."""


class RulesSource(_Table, frozen=True):
    """The table of rules, and its columns."""

    path: str
    format: str | None = None
    options: dict[str, str | int | float | bool] = {}
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
    format: str | None = None
    options: dict[str, str | int | float | bool] = {}
    schema: str | None = None
    keys: Names | None = None
    events: Names | None = None


class IndexSettings(_Table, frozen=True):
    """The published index, and how to build and use it."""

    path: str
    shards: int | None = None
    engine: str = "auto"
    keep: int | None = None
    plan: Literal["auto", "whole", "sharded"] = "auto"
    memory: str | int | None = None
    ship: bool = False


class Top(_Table, frozen=True):
    """The output of the best rules, and how many for each event."""

    path: str
    n: int = 5


class Outputs(_Table, frozen=True):
    """The outputs, each with its path."""

    matches: str | None = None
    counts: str | None = None
    top: Top | None = None
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
        return path if _ADDRESS.match(path) else str(self.folder / Path(path).expanduser())

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
        known = ", ".join(_FILE_FORMATS)
        raise self.error(f"{key}.format", f"{path!r} does not show the format; name it: {known}")

    def is_of_files(self, source: EventsSource) -> bool:
        """Whether events are in files, and not read through a connector."""
        return self.format_of("events", source) in _FILE_FORMATS


def read_config(file: str | os.PathLike[str]) -> Config:
    """Read and check a file.

    Raises
    ------
    InputFileError
        The file is missing or malformed, a key is unknown or missing, a value is not valid, or a
        source does not exist.
    MissingExtraError
        It is YAML, and PyYAML is not installed.
    """
    name = os.fspath(file)
    try:
        text = Path(name).read_text("utf-8")
    except FileNotFoundError:
        raise InputFileError("there is no such file", path=name) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputFileError(f"cannot be read: {reason}", path=name) from None
    raw = _parse(name, text)
    try:
        pipeline = msgspec.convert(raw, Pipeline)
    except msgspec.ValidationError as error:
        raise InputFileError(_explain(str(error)), path=name) from None
    config = Config(name, Path(name).absolute().parent, pipeline)
    _check(config)
    return config


def _parse(name: str, text: str) -> Any:
    suffix = Path(name).suffix.lower()
    if suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputFileError(f"malformed TOML: {error}", path=name) from None
    if suffix in (".yaml", ".yml"):
        return _parse_yaml(name, text)
    raise InputFileError("unknown extension; expected .toml, .yaml or .yml", path=name)


def _parse_yaml(name: str, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError(
            "a pipeline in YAML needs PyYAML; type: pip install 'tamis[spark]'"
        ) from None
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        line = None if mark is None else mark.line + 1
        raise InputFileError(f"malformed YAML: {problem}", path=name, line=line) from None


def _explain(message: str) -> str:
    """Rewrite an error of msgspec: the key first, and the file's own words."""
    found_key = _KEY.search(message)
    key = "" if found_key is None else found_key[1]
    message = _KEY.sub("", message)
    for phrase, words in (
        (r"Object contains unknown field `(.*)`", "there is no such key"),
        (r"Object missing required field `(.*)`", "the key is missing"),
    ):
        if found := re.fullmatch(phrase, message):
            return f"{'.'.join(filter(None, [key, found[1]]))}: {words}"
    message = message.replace("`object`", "a table").replace("`", "")
    message = message[:1].lower() + message[1:]
    return f"{key}: {message}" if key else message


def _check(config: Config) -> None:
    """Check what no single key shows: that the keys go together."""
    pipeline, output = config.pipeline, config.pipeline.output
    outputs = [output.matches, output.counts, output.top, output.report]
    if pipeline.rules is None and pipeline.events is None:
        raise config.error("rules", "there are neither rules to build nor events to match")
    if pipeline.events is None and any(outputs):
        raise config.error("events", "the key is missing; output needs events")
    if pipeline.events is not None and not any(outputs):
        raise config.error("output", "name an output: matches, counts, top or report")
    if pipeline.mode == "stream":
        _check_stream(config)
    elif pipeline.stream is not None:
        raise config.error("stream", 'is for mode = "stream"')
    if output.report is not None and output.matches is None:
        raise config.error("output.report", "a report needs matches; name output.matches, too")
    if output.top is not None and output.top.n < 1:
        raise config.error("output.top.n", f"is at least 1, not {output.top.n}")
    if pipeline.index.keep is not None and pipeline.index.keep < 1:
        raise config.error("index.keep", f"is at least 1, not {pipeline.index.keep}")
    _check_sources(config)


def _check_stream(config: Config) -> None:
    pipeline = config.pipeline
    if pipeline.stream is None:
        raise config.error("stream.checkpoint", 'the key is missing; mode = "stream" needs it')
    if pipeline.events is None:
        raise config.error("events", 'the key is missing; mode = "stream" needs it')
    for key in ("counts", "top", "report"):
        if getattr(pipeline.output, key) is not None:
            raise config.error(f"output.{key}", "a stream writes matches only")


def _check_sources(config: Config) -> None:
    """Check that sources exist, if this machine can see them, and that their formats are known."""
    sources: Mapping[str, RulesSource | EventsSource | None] = {
        "rules": config.pipeline.rules,
        "events": config.pipeline.events,
    }
    for key, source in sources.items():
        if source is None:
            continue
        file_format = config.format_of(key, source)
        if source.path is None and file_format in _FILE_FORMATS:
            raise config.error(f"{key}.path", "the key is missing")
        if source.path is None or _ADDRESS.match(source.path) or "*" in source.path:
            continue
        if not Path(config.resolve_path(source.path)).exists():
            raise config.error(f"{key}.path", f"there is no {config.resolve_path(source.path)}")
