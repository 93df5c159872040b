"""Finding rules that are much alike."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from tamis.cli import app
from tests.cli.command import run, run_failing, write


def test_similar_takes_an_id_or_a_rule() -> None:
    write("some.jsonl", [{"id": "wide", "rule": "a >= 1"}, {"id": 5, "rule": "a >= 2"}])
    assert run("similar", "some.jsonl", "5").endswith("%  wide wider\n")
    assert run("similar", "some.jsonl", "NOT a < 2 AND a IS NOT NULL", "-n", "1").endswith("  5\n")
    (found,) = json.loads(run("similar", "some.jsonl", "wide", "--json"))
    assert (found["id"], found["implies"], found["implied"]) == (5, True, False)
    assert run_failing("similar", "some.jsonl", "7") == "there is no rule '7'"


def test_rules_that_share_nothing_are_not_shown() -> None:
    rules = [{"id": "a", "rule": "x = 1"}, {"id": "b", "rule": "x = 1 AND y > 0"}]
    write("some.jsonl", [*rules, {"id": "far", "rule": "z IN (1, 2)"}])
    assert "  0%" not in run("similar", "some.jsonl", "a")
    result = CliRunner().invoke(app, ["similar", "rules.jsonl", "nothing = 'like it'"])
    assert result.exit_code == 0
    if not result.stdout:
        assert result.stderr == (
            "tamis: no other rule matches much the same events as \"nothing = 'like it'\"\n"
        )
    assert "  0%" not in result.stdout
