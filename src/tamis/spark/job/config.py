"""Read and check the file that describes a pipeline, TOML or YAML, before Spark starts.

An error names the file and the key. Paths are relative to the file's folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from tamis.errors import InputFileError, MissingExtraError
from tamis.spark.job.checks import check_config
from tamis.spark.job.settings import Config, Pipeline

__all__ = ["Config", "read_config"]

_KEY = re.compile(r" - at `\$\.?(.*)`$")


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
    check_config(config)
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
    # A file has no null: a key that may be left out is simply not there.
    message = re.sub(r"\bobject\b", "a table", message.replace("`", "").replace(" | null", ""))
    message = message.replace(" | ", " or ")
    message = message[:1].lower() + message[1:]
    return f"{key}: {message}" if key else message
