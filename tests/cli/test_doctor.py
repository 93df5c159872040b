"""What the command says about the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tamis.cli import app
from tests.cli.command import run


def test_doctor_says_what_is_there_and_how_to_add_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tamis.cli.commands.doctor._find_version",
        lambda name: None if name == "deltalake" else "1.0",
    )
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json"))}
    assert checks["matching"]["status"] == "ok"
    assert checks["delta"]["status"] == "missing"
    assert checks["delta"]["fix"] == "pip install 'tamis[delta]'"
    assert checks["server"]["status"] == "ok"
    lines = run("doctor").splitlines()
    (place,) = [n for n, line in enumerate(lines) if "deltalake missing" in line]
    assert lines[place].startswith("– delta ")
    assert lines[place + 1].strip() == "pip install 'tamis[delta]'"


def test_doctor_fails_where_tamis_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.matcher.matcher.Matcher.match", lambda self, event: [])
    result = CliRunner().invoke(app, ["doctor"], color=True)
    assert result.exit_code == 1
    assert "\x1b[31m✗" in result.stdout
    assert "a rule gives a wrong answer" in result.stdout


def test_doctor_works_without_pyspark() -> None:
    script = "import sys; sys.modules['pyspark'] = None; from tamis.cli import app; app(['doctor'])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "java" in done.stdout


def test_doctor_says_why_a_cache_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TAMIS_KERNEL_CACHE", str(shared))
    shown = run("doctor", code=1)
    assert f"{shared} can be written by everybody" in shown


def test_doctor_works_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("tempfile.gettempdir", gettempdir)
    monkeypatch.setattr("tamis.cli.commands.doctor.write_folder", lambda: None)
    monkeypatch.setattr("tamis.cli.commands.doctor.user_folders", list)
    shown = run("doctor", code=1)
    assert "no folder can be written" in shown
    assert "no usable temporary directory" in shown
