"""Why a rule matches an event, as a tree and as JSON."""

from __future__ import annotations

import json
import os

from tests.cli.command import parse_lines, run, start, write


def test_explain_prints_a_tree() -> None:
    assert run("explain", "rules.jsonl", "teens", '{"age": 15}').splitlines() == [
        "teens does not match:",
        "? AND   [unknown]",
        "  ✓ age BETWEEN 13 AND 19   [age = 15: held]",
        "  ∅ country IN ('FR', 'BE')   [country is absent: absent]",
        "it would match with:",
        "  country IN ('FR', 'BE')   [country is absent]",
    ]
    assert run("explain", "rules.jsonl", "fans", "events.jsonl:2").startswith("fans matches:\n✓ OR")
    pretty = '{\n  "state": "NY"\n}\n'
    assert run("explain", "rules.jsonl", "not-ca", "-", stdin=pretty).startswith("not-ca matches")
    assert run("explain", "rules.jsonl", "not-ca", "{}", "--logic", "weak").startswith("not-ca mat")


def test_explain_prints_json() -> None:
    (found,) = parse_lines(run("explain", "rules.jsonl", "7", "events.jsonl:1", "--json"))
    assert found["rule"] == 7
    assert found["matches"] is True
    assert found["explanation"]["values"] == [40]
    assert found["changes"] == []
    (found,) = parse_lines(run("explain", "rules.jsonl", "7", '{"age": 2}', "--json"))
    assert [change["values"] for change in found["changes"]] == [[2]]


def test_explain_works_without_unicode() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = start("explain", "rules.jsonl", "7", '{"age": 18}', env=environment)
    out, err = command.communicate()
    assert command.returncode == 0, err
    assert b"age >= 18" in out


def test_control_characters_are_shown_escaped() -> None:
    write(
        "rules.jsonl", [{"id": "\x1b[31mred", "rule": "\"x\x9b\" = '\x1b]0;title\x07' AND y = 2"}]
    )
    shown = run("explain", "rules.jsonl", "\x1b[31mred", json.dumps({"y": "\x07"}))
    assert shown.startswith(r"\x1b[31mred does not match:")
    assert r"\x1b]0;title\x07" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_brief_says_what_decides_in_one_line() -> None:
    def explain(event: str, *options: str) -> str:
        return run("explain", "rules.jsonl", "teens", event, "--brief", *options)

    assert explain('{"age": 15, "country": "FR"}') == (
        "teens matches: age BETWEEN 13 AND 19 (age = 15) and country IN ('FR', 'BE') "
        "(country = 'FR')\n"
    )
    assert explain('{"age": 15}') == (
        "teens does not match: it needs country IN ('FR', 'BE') (country is absent)\n"
    )
    write("not.jsonl", [{"id": "n", "rule": "NOT (a = 1 OR b = 2) AND (c = 1 OR c = 2)"}])
    shown = run("explain", "not.jsonl", "n", '{"a": 3, "b": 4, "c": 2}', "--brief")
    assert shown == "n matches: NOT a = 1 (a = 3) and NOT b = 2 (b = 4) and c = 2\n"
    write("all.jsonl", [{"id": "all", "rule": "TRUE"}])
    assert run("explain", "all.jsonl", "all", "{}", "--brief") == "all matches: TRUE\n"
