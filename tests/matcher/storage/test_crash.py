"""What was acknowledged survives kill -9, and nothing else appears."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_writers.py")
ROUNDS = 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_writers_leave_what_they_acknowledged(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "index"), str(ROUNDS), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > ROUNDS, "the writers got nothing done"
