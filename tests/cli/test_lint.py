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
        "1 rule that can never match",
        "  'never' matches only events with several values of 'x'",
        "",
        "1 rule that matches only where another does",
        "  'wide' covers 'part'",
        "",
        "2 findings in 3 rules",
    ]
    assert run("lint", "odd.jsonl", "--all", code=1).splitlines() == [
        "subsumed   'part' matches only where 'wide' does",
        "never      'never' matches only events with several values of 'x'",
        "2 findings in 3 rules",
    ]
    found = json.loads(run("lint", "odd.jsonl", "--single-valued", "--json", code=1))
    assert [(one["kind"], one["rule"], one["other"]) for one in found] == [
        ("subsumed", "part", "wide"),
        ("never", "never", None),
    ]


def test_lint_shows_the_largest_groups_first_within_80_columns() -> None:
    rules = [{"id": f"rule-{n}-{copy}", "rule": f"a = {n}"} for n in range(12) for copy in range(n)]
    write("copies.jsonl", rules)
    lines = run("lint", "copies.jsonl", code=1).splitlines()
    assert lines[0] == "55 rules that repeat an older rule"
    assert lines[1].startswith("  'rule-11-0' is repeated by 10: 'rule-11-1', 'rule-11-2', ")
    assert lines[1].endswith(", …")
    assert lines[-3] == ""
    assert lines[-2] == "Each finding on a line: tamis lint --all copies.jsonl"
    assert lines[-1] == "55 findings in 66 rules"
    assert max(map(len, lines)) <= 80
    assert len(run("lint", "--all", "copies.jsonl", code=1).splitlines()) == 56
