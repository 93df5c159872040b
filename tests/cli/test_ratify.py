"""Comparing an index with its rules."""

from __future__ import annotations

import json

from tests.cli.command import run


def test_ratify_compares_an_index_with_its_rules() -> None:
    run("build", "rules.jsonl", "-o", "index")
    assert run("ratify", "index", "--seconds", "0").startswith("4 rules, 8 events, ")
    found = json.loads(run("ratify", "rules.jsonl", "--seconds", "0", "--sample", "2", "--json"))
    assert (found["rules"], found["differences"]) == (2, [])
