"""Builds that are killed, and builds at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tamis import LockedError
from tamis import spark as ts
from tests.spark.indexes import read_texts

SCRIPT = Path(__file__).with_name("interrupted_builds.py")
ROUNDS = 20


def test_killed_builders_leave_complete_versions(tmp_path: Path) -> None:
    """Whenever a builder is killed, published versions are complete, and the next one continues."""
    path = tmp_path / "index"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), str(ROUNDS), "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rounds = json.loads(done.stdout)
    assert not [each["wrong"] for each in rounds if "wrong" in each], done.stderr
    assert rounds[-1]["versions"] > 2
    # Some were killed while they wrote, and the next builder removed what they left.
    assert {each["asides"] for each in rounds} <= {0, 1}
    assert all(each["asides"] for each in rounds[1::2])


KILLED_JOB = """
    import os, signal, sys
    from tamis import spark as ts

    driver = os.getpid()

    def kill(batches):
        os.kill(driver, signal.SIGKILL)
        yield from batches

    session = ts.local_session(2, memory="512m")
    rows = session.range(100).selectExpr("id", "concat('x = ', id) rule")
    ts.build(rows.mapInArrow(kill, rows.schema), sys.argv[1])
"""


def test_a_driver_killed_during_its_job_leaves_the_current_version(spark, tmp_path: Path) -> None:
    path = tmp_path / "index"
    rows = spark.createDataFrame([(1, "x = 1")], "id long, rule string")
    before = ts.build(rows, path)
    script = textwrap.dedent(KILLED_JOB)
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert ts.versions(path) == [before]
    assert read_texts(ts.current(path)) == {1: "x = 1"}
    assert len(list((path / "versions").iterdir())) == 2
    assert ts.build(rows, path).number == 2
    assert {entry.name for entry in (path / "versions").iterdir()} == {"000001", "000002"}


def test_the_second_of_two_builders_is_refused(spark, tmp_path: Path) -> None:
    """The second begins while Spark reads the rows of the first."""
    path = tmp_path / "index"
    rows = spark.createDataFrame([("a", "x = 1")], "id string, rule string")
    ts.build(rows, path)
    begun, released = tmp_path / "begun", tmp_path / "released"

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        begun.touch()
        while not released.exists():
            time.sleep(0.01)
        yield from batches

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ts.build, rows.mapInArrow(wait, rows.schema), path)
        try:
            while not begun.exists() and not first.done():
                time.sleep(0.01)
            with pytest.raises(LockedError, match=f"process {os.getpid()} builds a version"):
                ts.build(rows, path)
        finally:
            released.touch()
        won = first.result()
    assert [version.number for version in ts.versions(path)] == [1, won.number]
