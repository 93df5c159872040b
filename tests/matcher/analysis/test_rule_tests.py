"""The tests that rules carry: in a matcher, by the command, and under pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli import app

ADULTS: dict[str, Any] = {
    "id": "adults",
    "rule": "age >= 18",
    "payload": {"tests": {"must_match": [{"age": 18}, {"age": 40}], "must_not_match": [{}]}},
}
BROKEN: dict[str, Any] = {
    "id": "broken",
    "rule": "price < 10 AND city = 'Nice'",
    "payload": {"tests": {"must_match": [{"price": 5, "city": "Lyon"}]}},
    "tags": ["shop"],
}


def write_rules(path: Path, *rules: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    return path


def test_a_failure_shows_the_tree_of_the_rule() -> None:
    matcher = tamis.Matcher()
    matcher.add_many([ADULTS, BROKEN])
    report = matcher.test()
    assert (report.rules, report.tests, len(report.failures)) == (2, 4, 1)
    assert report.failures[0].rule == "broken"
    assert "✗ city = 'Nice'   [city = 'Lyon': did not hold]" in str(report)
    assert str(report).endswith("2 rules with tests: 3 passed, 1 failed")
    assert matcher.test(only=["adults"]).failures == ()
    assert len(matcher.test(only=tamis.tagged("shop")).failures) == 1
    assert matcher.test(only=["unknown"]).tests == 0


@pytest.mark.parametrize(
    "tests",
    [[], {"match": []}, {"must_match": {}}, {"must_match": [1]}, "none"],
)
def test_malformed_tests_fail(tests: Any) -> None:
    matcher = tamis.Matcher()
    matcher.add("odd", "x = 1", payload={"tests": tests})
    matcher.add("other", "x = 1", payload=["tests"])
    report = matcher.test()
    assert [failure.rule for failure in report.failures] == ["odd"]
    assert report.to_json()["failures"][0]["event"] is None


def test_an_event_that_is_refused_fails() -> None:
    matcher = tamis.Matcher(schema={"x": "integer"})
    matcher.add("typed", "x = 1", payload={"tests": {"must_not_match": [{"x": "text"}]}})
    assert "the event is refused" in str(matcher.test())


def test_the_command_reports_failures(tmp_path: Path) -> None:
    rules = write_rules(tmp_path / "rules.jsonl", ADULTS, BROKEN)
    done = CliRunner().invoke(app, ["test", str(rules)])
    assert done.exit_code == 1
    assert "broken: must_match 1: the rule does not match" in done.output
    as_json = CliRunner().invoke(app, ["test", str(rules), "--json"])
    assert [failure["rule"] for failure in json.loads(as_json.output)["failures"]] == ["broken"]
    passed = CliRunner().invoke(app, ["test", str(write_rules(rules, ADULTS))])
    assert (passed.exit_code, passed.output) == (0, "1 rules with tests: 3 passed, 0 failed\n")


def test_pytest_runs_the_tests_of_rules(tmp_path: Path) -> None:
    write_rules(tmp_path / "rules.jsonl", ADULTS, BROKEN, {"id": "plain", "rule": "x = 1"})
    (tmp_path / "pytest.ini").write_text("[pytest]\ntamis_rules = *.jsonl\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tamis.pytest_plugin", "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "✗ city = 'Nice'" in done.stdout
    assert "Traceback" not in done.stdout
