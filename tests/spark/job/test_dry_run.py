"""What a dry run says, and that it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tamis import RuleError
from tamis.spark.job.config import read_config
from tamis.spark.job.dry_run import describe_run
from tamis.spark.job.pipeline import run_pipeline

JOB = """
[rules]
path = "rules.jsonl"

[events]
path = "events.jsonl"
keys = "id"

[index]
path = "index"

[output]
matches = "out/matches"
top = { path = "out/top", n = 1 }
"""


def test_a_dry_run_shows_sizes_and_the_plan(spark: Any, tmp_path: Path) -> None:
    rules = [{"id": n, "rule": f"price < {n}"} for n in range(5)]
    (tmp_path / "rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    (tmp_path / "events.jsonl").write_text('{"id": 1, "price": 3}\n')
    (tmp_path / "job.toml").write_text(JOB)
    config = read_config(tmp_path / "job.toml")
    described = dict(describe_run(config, spark))
    assert described["rules"].startswith("5: 1 shards, about 0.0 MB; 1 tasks parse")
    assert described["events"].startswith("2 columns, 1 partitions, about 0.0 MB")
    assert "plan" not in described
    assert described["top"] == "written to out/top"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "events.jsonl",
        "job.toml",
        "rules.jsonl",
    ]
    outcome = run_pipeline(config, spark=spark)
    assert (outcome.metrics.events, outcome.metrics.matches) == (2, 2)
    described = dict(describe_run(config, spark))
    assert "version 1: 5 rules, 0 refused, 1 shards" in described["index"]
    assert described["plan"] == "a task has all rules; each event goes to 1 tasks"


def test_a_job_says_how_many_rules_may_be_refused(spark: Any, tmp_path: Path) -> None:
    rules = [{"id": 1, "rule": "price <"}, {"id": 2, "rule": "price < 1"}]
    (tmp_path / "rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    job = JOB.partition("[events]")[0] + '[index]\npath = "index"\n'
    (tmp_path / "job.toml").write_text(job.replace("[index]", "max_bad = 0.4\n\n[index]"))
    with pytest.raises(RuleError, match="1 of 2 rules are refused"):
        run_pipeline(read_config(tmp_path / "job.toml"), spark=spark)
