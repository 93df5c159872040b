"""The help and the version."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli import app
from tests.cli.command import run


def test_version_prints_the_version() -> None:
    assert run("--version") == f"tamis {tamis.__version__}\n"


COMMANDS = """
    match explain stats check lint ratify similar demo serve keys publish subscribe
""".split()


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_fits_in_80_columns(command: list[str]) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
