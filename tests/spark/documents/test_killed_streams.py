"""kill -9 of a stream that remembers events: every match once."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.documents.published import BY_USER, expect, make_events, write_files
from tests.spark.indexes import publish_rules
from tests.spark.stream.killed_jobs import KILLS, kill_jobs

SCRIPT = Path(__file__).with_name("interrupted_publish.py")


@pytest.mark.slow
def test_killed_streams_remember_every_event_once(tmp_path: Path) -> None:
    files = 4 * KILLS
    events = [{k: v for k, v in e.items() if k != "at"} for e in make_events(20 * files)]
    publish_rules(tmp_path / "index", BY_USER)
    write_files(tmp_path / "events", events, files)
    folders = [str(tmp_path / name) for name in ("events", "index", "matches", "checkpoint")]
    command = [sys.executable, str(SCRIPT), *folders]
    kill_jobs(
        command,
        tmp_path / "log",
        before=lambda number: None,
        count_done=lambda: len(done_batches(tmp_path)),
    )
    read = committed_matches(tmp_path / "matches")
    assert Counter((row["id"], row["rule"]) for row in read) == expect(BY_USER, events)


def done_batches(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))


def committed_matches(folder: Path) -> list[dict[str, Any]]:
    """The rows of the files that Spark's sink has committed; others are of killed attempts."""
    names: set[str] = set()
    for log in (folder / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            names.add(Path(json.loads(line)["path"]).name)
    return [row for name in sorted(names) for row in pq.read_table(folder / name).to_pylist()]
