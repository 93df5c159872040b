"""Writing the rules and events of a workload."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tamis.cli import app
from tests.cli.command import parse_lines, run


def test_generate_writes_rules_and_events_that_match_reads() -> None:
    options = ["--seed", "3", "--set", "dimensions=20", "--set", "rule_size=2"]
    assert run("generate", "begen", "--rules", "500", "-o", "r.parquet", *options).startswith(
        "500 rules"
    )
    run("generate", "begen", "--events", "40", "-o", "deep/e.parquet", *options)
    assert pq.read_table("deep/e.parquet")["event_id"].to_pylist() == list(range(40))
    counted = parse_lines(run("match", "r.parquet", "deep/e.parquet", "--count"))
    assert sum(line["matches"] for line in counted) > 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["begen", "-o", "x"], "either --rules or --events"),
        (["begen", "--rules", "1", "--events", "1", "-o", "x"], "either --rules or --events"),
        (["beegen", "--rules", "1", "-o", "x"], "is not one of ads, begen, nested, qgrams"),
        (["ads", "--rules", "1", "-o", "x", "--set", "dimensions"], "NAME=VALUE"),
        (["ads", "--rules", "1", "-o", "x", "--set", "colour=1"], "has no parameter 'colour'"),
        (["ads", "--rules", "1", "-o", "x", "--set", "months=13"], "months lies between 1 and 12"),
        (["ads", "--rules", "1", "-o", "x", "--master", "local"], "--master needs --spark"),
        (["qgrams", "--rules", "99999", "-o", "x"], "texts, but 99,999 are needed"),
        (["qgrams", "--events", "1", "-o", "x", "--set", "texts=none"], "or a file with one text"),
    ],
)
def test_generate_refuses_impossible_requests(arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, ["generate", *arguments], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.replace("│", " ").split())
    assert not Path("x").exists()
