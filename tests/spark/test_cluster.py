"""A small run of the cluster that ``make cluster`` runs with ten million rules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster import environment


@pytest.mark.slow
def test_a_worker_dies_and_the_answer_is_complete(tmp_path: Path) -> None:
    pytest.importorskip("moto.server")
    sizes = "--rules 20000 --events 2000 --shards 2 --workers 2"
    command = ["-m", "tests.spark.cluster", *sizes.split()]
    done = subprocess.run(
        [sys.executable, *command],
        env=environment(TMPDIR=str(tmp_path)),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert re.search(r"^wrong events +0$", done.stdout, re.MULTILINE)
    assert re.search(r"^workers left +1$", done.stdout, re.MULTILINE)
