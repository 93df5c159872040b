"""Storing rules in a directory, and using it where a file of rules is expected."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tamis.cli import app
from tests.cli.command import RULES, run, run_failing, write


def test_commands_take_a_directory_of_rules() -> None:
    assert run("build", "rules.jsonl", "-o", "index", "--engine", "scan") == "4 rules in index\n"
    expected = run("match", "rules.jsonl", "events.jsonl")
    for extra in ((), ("--engine", "keyed"), ("--logic", "strong")):
        assert run("match", "index", "events.jsonl", *extra) == expected
    assert "teens" in run("match", "index", "events.jsonl", "--tag", "eu")
    assert run("explain", "index", "7", '{"age": 20}').startswith("7 matches")
    assert run("explain", "index", "teens", "{}").startswith("teens does not match")
    assert "no rule 'unknown'" in run_failing("explain", "index", "unknown", "{}")
    assert "logic is 'strong'" in run_failing("match", "index", "events.jsonl", "--logic", "weak")
    Path("empty").mkdir()
    assert "empty" in run_failing("match", "empty", "events.jsonl")


def test_build_replaces_an_index_only_with_overwrite() -> None:
    write("some.jsonl", [*RULES, {"id": "bad", "rule": "x ="}])
    assert "bad" in run_failing("build", "some.jsonl", "-o", "index")
    assert not Path("index").exists()
    result = CliRunner().invoke(app, ["build", "some.jsonl", "-o", "index", "--skip-bad-rules"])
    assert (result.exit_code, result.stdout) == (0, "4 rules in index\n")
    assert "1 rules were skipped" in result.stderr
    assert "--overwrite" in run_failing("build", "rules.jsonl", "-o", "index")
    assert run("build", "rules.jsonl", "-o", "index", "--overwrite") == "4 rules in index\n"
    run("build", "rules.jsonl", code=2)
