"""The example on Spark runs, on the session of the tests."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "spark_report.py"


def test_the_report_of_a_day(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(PROGRAM))["main"](str(tmp_path), rules=200)
    printed = capsys.readouterr().out
    assert "200 rules, 930 flights" in printed
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert spark.read.parquet(str(tmp_path / "matches")).columns == ["id", "rule"]
