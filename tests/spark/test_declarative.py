"""The declarative pipeline of the documentation, run by Spark's own command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.spark.runtime.java import find_java
from tests.spark.connect_port import connect_port
from tests.spark.indexes import publish_rules

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"


def read_example(name: str) -> str:
    """The first block of a language after the heading of declarative pipelines."""
    section = PAGE.read_text().partition("## Declarative pipelines")[2]
    return section.partition(f"```{name}\n")[2].partition("```")[0]


@pytest.mark.slow
def test_the_example_of_a_declarative_pipeline(tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [("cheap", "price < 10"), ("dear", "price > 100")])
    (tmp_path / "events").mkdir()
    table = pa.table({"event_id": [1, 2, 3], "price": [5, 50, 500]})
    pq.write_table(table, tmp_path / "events" / "1.parquet")
    for name, file in {"yaml": "spark-pipeline.yml", "python no-run": "alerts.py"}.items():
        text = read_example(name).replace("/data/alerts", str(tmp_path))
        assert str(tmp_path) in text
        (tmp_path / file).write_text(text)
    command = Path(sys.executable).with_name("spark-pipelines")
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
    }
    with connect_port():
        done = subprocess.run(
            [str(command), "run", "--spec", "spark-pipeline.yml"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = pq.read_table(tmp_path / "spark-warehouse" / "matches").to_pylist()
    assert sorted((row["event_id"], row["rule"]) for row in rows) == [(1, "cheap"), (3, "dear")]
