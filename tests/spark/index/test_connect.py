"""Building through Spark Connect, where the driver has no JVM."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tamis import spark as ts
from tests.spark.cluster import environment
from tests.spark.connect_port import connect_port
from tests.spark.indexes import read_quarantine, read_texts

SCRIPT = """
    import sys
    from pyspark.sql import SparkSession
    from tamis import spark as ts
    from tamis.spark.index import jobs

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert type(spark).__module__ == "pyspark.sql.connect.session"
    jobs.RULES_PER_PIECE = 20
    rules = spark.range(50).selectExpr("cast(id as string) id", "concat('x = ', id) rule")
    bad = spark.createDataFrame([("bad", "x =")], "id string, rule string")
    events = spark.createDataFrame([(1,)], "x long")
    ts.build(rules.union(bad), sys.argv[1], sample=events)
    columns = "id string, rule string, deleted boolean"
    changes = [("7", None, True), ("new", "x = 0", False)]
    ts.update(sys.argv[1], spark.createDataFrame(changes, columns))
    try:
        ts.build(rules.union(rules), sys.argv[1])
    except Exception as error:
        print(type(error).__name__)
    spark.stop()
"""


@pytest.mark.slow
def test_building_through_spark_connect(tmp_path: Path) -> None:
    with connect_port():
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path / "index")],
            env=environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout == "DuplicateRuleError\n"
    first, second = ts.versions(tmp_path / "index")
    rules = {str(i): f"x = {i}" for i in range(50)}
    assert read_texts(first) == rules
    assert [row[0] for row in read_quarantine(first)] == ["bad"]
    del rules["7"]
    assert read_texts(second) == {**rules, "new": "x = 0"}
    assert ts.current(tmp_path / "index") == second
