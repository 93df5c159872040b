"""Tab completes commands and options, as the shell asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TAMIS = str(Path(sys.executable).with_name("tamis"))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(["tamis", "mat"], "match"), (["tamis", "match", "--hits"], "--hits-only")],
)
def test_bash_completes(words: list[str], wanted: str) -> None:
    asked = {
        "_TAMIS_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run([TAMIS], env={**os.environ, **asked}, capture_output=True, check=True)
    assert done.stdout.decode().split() == [wanted]


def test_completion_is_installed_for_the_user(tmp_path: Path) -> None:
    # Otherwise the command asks for the shell that it runs in, which may be none.
    detection = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    home = {**os.environ, **detection, "HOME": str(tmp_path)}
    command = [TAMIS, "--install-completion", "bash"]
    subprocess.run(command, env=home, capture_output=True, check=True)
    (script,) = (tmp_path / ".bash_completions").iterdir()
    assert "_TAMIS_COMPLETE=complete_bash" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()
