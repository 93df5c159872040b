"""Runs the command for tests, in the process of the test or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tamis.cli import app

RULES = [
    {"id": "teens", "rule": "age BETWEEN 13 AND 19 AND country IN ('FR', 'BE')", "tags": ["eu"]},
    {"id": "not-ca", "rule": "state <> 'CA'"},
    {
        "id": "fans",
        "rule": "author = 'Smith' OR price > 10",
        "weights": [["author", "Smith", 2.0], ["price > 10", 0.5]],
    },
    {"id": 7, "rule": {"attr": "age", ">=": 18}},
]


EVENTS = [
    {"id": "e1", "age": 15, "country": "FR"},
    {"id": "e2", "state": "NY", "age": 40},
    {"id": "e3", "author": ["Smith", "Jones"], "price": 12},
    {"id": "e4"},
]


MATCHES = [["teens"], ["not-ca", 7], ["fans"], []]


def write(name: str, lines: Sequence[Any]) -> None:
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(*arguments: str, code: int = 0, stdin: str | None = None) -> str:
    """Run the command, and return what it prints.

    It must exit with `code`, and leave standard error empty if that is 0.
    """
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exit_code == code, result.output
    if code == 0:
        assert result.stderr == ""
    return result.stdout


def run_failing(*arguments: str, stdin: str | None = None) -> str:
    """Run the command on bad input, and return the one line that it prints on standard error."""
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("tamis: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    return result.stderr.removeprefix("tamis: ").rstrip("\n")


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start the command as a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([sys.executable, "-W", "error", "-m", "tamis", *arguments], **options)


def parse_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]
