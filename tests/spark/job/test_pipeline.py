"""Pipelines: what they write, and the errors for bad files."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tamis
from tamis.cli import app
from tamis.spark.job.config import read_config
from tamis.spark.job.pipeline import run_pipeline

RULES: list[dict[str, Any]] = [
    {"id": "cheap", "rule": "price < 10", "tags": ["low"], "payload": {"owner": "Ana"}},
    {"id": "form", "rule": {"attr": "price", ">=": 10}, "weights": [["price >= 10", 3.0]]},
    {"id": "weak", "rule": "colour <> 'red'", "logic": "weak", "payload": "plain"},
    {"id": "broken", "rule": "price <"},
]
EVENTS: list[dict[str, Any]] = [
    {"id": 1, "price": 5.0},
    {"id": 2, "price": 50.0, "colour": "red"},
    {"id": 3, "colour": "blue"},
]
MATCHES = [(1, "cheap"), (1, "weak"), (2, "form"), (3, "weak")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rules and events; pipelines run from another folder."""
    write_lines(tmp_path / "rules.jsonl", RULES)
    write_lines(tmp_path / "events.jsonl", EVENTS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def rows_of(folder: Path, *names: str) -> list[tuple[Any, ...]]:
    table = pq.read_table(folder).select(list(names))
    return sorted(zip(*table.to_pydict().values(), strict=True))


BATCH = """
[rules]
path = "rules.jsonl"

[events]
path = "events.jsonl"
keys = "id"

[index]
path = "index"
keep = 1

[output]
matches = "out/matches"
counts = "out/counts"
top = { path = "out/top", n = 1 }
report = "out/report.html"
title = "Prices"
"""


def test_a_batch_writes_everything(spark: SparkSession, folder: Path) -> None:
    (folder / "job.toml").write_text(BATCH)
    shown: list[str] = []

    def stage(name: str, _: SparkSession) -> Any:
        shown.append(name)
        return nullcontext()

    outcome = run_pipeline(read_config(folder / "job.toml"), spark=spark, stage=stage)
    assert shown == list(outcome.seconds) == ["build", "match", "counts", "top", "report"]
    assert outcome.version.rules == 3
    assert outcome.version.bad == 1
    assert rows_of(folder / "out/matches", "id", "rule") == MATCHES
    assert rows_of(folder / "out/counts", "id", "matches") == [(1, 2), (2, 1), (3, 1)]
    assert rows_of(folder / "out/top", "id", "rule", "score")[1] == (2, "form", 3.0)
    page = (folder / "out/report.html").read_text()
    assert "<h1>Prices</h1>" in page
    with tamis.open(outcome.version.shards[0].path, read_only=True) as matcher:
        assert matcher.rule("cheap").payload == {"owner": "Ana"}
        assert matcher.rule("weak").payload == "plain"
        assert matcher.match({"price": 1}, only=tamis.tagged("low")) == ["cheap"]


YAML = """
mode: stream
rules: {path: rules.csv, rule: text}
events: {path: events, schema: "id long, price double, colour string", format: json}
index: {path: index}
output: {matches: matches}
stream: {checkpoint: checkpoint, trigger: availableNow}
"""


def test_a_stream_continues_where_it_was(spark: SparkSession, folder: Path) -> None:
    (folder / "rules.csv").write_text('id,text\ncheap,price < 10\nform,"price >= 10"\n')
    (folder / "events").mkdir()
    (folder / "job.yaml").write_text(YAML)
    write_lines(folder / "events" / "1.json", EVENTS[:1])
    assert run_pipeline(read_config(folder / "job.yaml"), spark=spark).batches == 1
    write_lines(folder / "events" / "2.json", EVENTS[1:])
    outcome = run_pipeline(read_config(folder / "job.yaml"), spark=spark)
    assert outcome.batches == 2
    rows = rows_of(folder / "matches", "id", "rule", "index_version")
    assert rows == [(1, "cheap", 1), (2, "form", 2)]


def test_rules_may_be_left_out_if_there_is_an_index(spark: SparkSession, folder: Path) -> None:
    table = pa.table({"id": [7], "rule": ["price > 1"]})
    pq.write_table(table, folder / "rules.parquet")
    only_build = '[rules]\npath = "rules.parquet"\n[index]\npath = "index"\n'
    (folder / "build.toml").write_text(only_build)
    run_pipeline(read_config(folder / "build.toml"), spark=spark)
    only_match = BATCH.partition("[events]")[2].partition("counts")[0]
    (folder / "match.toml").write_text("[events]" + only_match)
    run_pipeline(read_config(folder / "match.toml"), spark=spark)
    assert rows_of(folder / "out/matches", "id", "rule") == [(1, 7), (2, 7)]


def test_missing_columns_are_named_with_their_keys(spark: SparkSession, folder: Path) -> None:
    (folder / "job.toml").write_text(BATCH.replace("[events]", 'rule = "text"\n[events]'))
    with pytest.raises(tamis.InputFileError, match=r"job\.toml: rules\.rule: there is no column"):
        run_pipeline(read_config(folder / "job.toml"), spark=spark)
    (folder / "job.toml").write_text(BATCH.replace('"id"', '"key"'))
    with pytest.raises(tamis.InputFileError, match=r"events\.keys: there is no column 'key'"):
        run_pipeline(read_config(folder / "job.toml"), spark=spark)
    assert not (folder / "index").exists()


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("[index]", "[idx]", "idx: there is no such key"),
        ('path = "index"', "", "index.path: the key is missing"),
        ('path = "rules.jsonl"', "path = 7", "rules.path: expected str, got int"),
        ('matches = "out/matches"', "matches = 7", "output.matches: expected str or a table, got"),
        ('path = "rules.jsonl"', 'paht = "x"', "rules.paht: there is no such key"),
        ('"rules.jsonl"', '"rulez.jsonl"', "rules.path: there is no "),
        ('"rules.jsonl"', '"job.toml"', "rules.format: 'job.toml' does not show the format"),
        ("n = 1", "n = 0", "output.top.n: is at least 1, not 0"),
        ("keep = 1", "keep = 0", "index.keep: is at least 1, not 0"),
        ('matches = "out/matches"', "", "output.report: a report needs matches"),
        ("[rules]", 'mode = "stream"\n[rules]', "stream.checkpoint: the key is missing"),
        ("[rules]", 'mode = "steam"\n[rules]', "mode: invalid enum value 'steam'"),
        ("[index]", '[stream]\ncheckpoint = "c"\n[index]', "stream: is for mode"),
        ("[rules]", "[rules", "malformed TOML: "),
    ],
)
def test_errors_name_the_file_and_the_key(
    before: str, after: str, reason: str, folder: Path
) -> None:
    (folder / "job.toml").write_text(BATCH.replace(before, after, 1))
    with pytest.raises(tamis.InputFileError) as caught:
        read_config(folder / "job.toml")
    assert str(caught.value).startswith(f"{folder / 'job.toml'}: {reason}")


def test_errors_in_yaml_name_the_line(folder: Path) -> None:
    (folder / "job.yml").write_text("rules: [1, 2\nindex: x: y\n")
    with pytest.raises(tamis.InputFileError, match=r"job\.yml:2: malformed YAML"):
        read_config(folder / "job.yml")
    (folder / "job.ini").touch()
    with pytest.raises(tamis.InputFileError, match=r"expected \.toml, \.yaml or \.yml"):
        read_config(folder / "job.ini")
    (folder / "empty.yaml").touch()
    with pytest.raises(tamis.InputFileError, match="index: the key is missing"):
        read_config(folder / "empty.yaml")


def test_the_command_checks_and_runs(spark: SparkSession, folder: Path) -> None:
    (folder / "job.toml").write_text(BATCH)
    checked = CliRunner().invoke(app, ["pipeline", "check", str(folder / "job.toml")])
    assert checked.exit_code == 0
    assert checked.stdout.splitlines()[:2] == [
        "build index from rules.jsonl",
        "match the events of events.jsonl with index",
    ]
    # The command uses the session of the tests, since there is one.
    result = CliRunner().invoke(app, ["pipeline", "run", str(folder / "job.toml")])
    assert result.exit_code == 0, result.output
    assert "version 1: 3 rules, 1 refused" in result.stdout
    assert str(folder / "out/report.html") in result.stdout
    missing = CliRunner().invoke(app, ["pipeline", "run", "nowhere.toml"])
    assert missing.exit_code == 1
    assert missing.stderr == "tamis: nowhere.toml: there is no such file\n"


def test_the_example_in_the_documentation_is_valid(folder: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "pipeline.md"
    example = page.read_text().partition("```toml\n")[2].partition("```")[0]
    (folder / "events.parquet").touch()
    (folder / "job.toml").write_text(example)
    assert read_config(folder / "job.toml").pipeline.output.title == "Alerts of the week"
    # Also with the lines that are commented out.
    bare = [line.removeprefix("# ") for line in example.splitlines()]
    every = "\n".join(bare).replace('mode = "batch"', 'mode = "stream"')
    for key in ("counts", "top", "report"):
        every = "\n".join(line for line in every.splitlines() if not line.startswith(key))
    (folder / "job.toml").write_text(every)
    stream = read_config(folder / "job.toml").pipeline.stream
    assert stream is not None
    assert stream.trigger == "10 seconds"
