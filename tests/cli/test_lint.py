"""Finding idle rules."""

from __future__ import annotations

import json

from tests.cli.command import run, write


def test_lint_finds_rules_that_are_redundant_or_never_match() -> None:
    assert run("lint", "rules.jsonl") == "0 findings in 4 rules\n"
    write(
        "odd.jsonl",
        [
            {"id": "wide", "rule": "a IN (1, 2)"},
            {"id": "part", "rule": "a = 1"},
            {"id": "never", "rule": "x > 5 AND x < 3"},
        ],
    )
    assert run("lint", "odd.jsonl", code=1).splitlines() == [
        "subsumed   'part' matches only where 'wide' does",
        "never      'never' matches only events with several values of 'x'",
        "2 findings in 3 rules",
    ]
    found = json.loads(run("lint", "odd.jsonl", "--single-valued", "--json", code=1))
    assert [(one["kind"], one["rule"], one["other"]) for one in found] == [
        ("subsumed", "part", "wide"),
        ("never", "never", None),
    ]
