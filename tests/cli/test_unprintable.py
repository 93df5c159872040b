"""What strangers put into ids, rules and events does not reach the terminal as it is."""

from __future__ import annotations

import ast
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tamis.cli.commands
from tamis.cli import app
from tamis.files.unprintable import PrintableFormatter, escape_json, escape_unprintable
from tamis.server.access_log import AccessLog
from tests.cli.command import parse_lines, run, write

# Of C0, DEL, C1 (CSI and NEL), overrides and isolates of direction, a separator, a tag.
NASTY = "a\x1b[2J\x7f\x9b31m\x85\u202eb\u2066\u2028\U000e0041é漢"
NAME = f'"{NASTY}"'


@pytest.fixture(autouse=True)
def nasty_files(files: None) -> None:
    """Files whose rules, events and ids are full of it, in the folder of the test."""
    rules = [
        {"id": NASTY, "rule": f"{NAME} = '{NASTY}'", "payload": {"p": NASTY}, "tags": [NASTY]},
        {"id": f"{NASTY}\n2", "rule": f"{NAME} IN ('{NASTY}')"},
        {"id": f"{NASTY}3", "rule": f"{NAME} < 1 AND {NAME} > 2"},
    ]
    write("rules.jsonl", rules)
    write("events.jsonl", [{"id": NASTY, NASTY: NASTY}])
    write("bad.jsonl", [{"id": NASTY, "rule": f"{NAME} ="}])
    write(f"{NASTY}.jsonl", [{"id": 1, "rule": "x ="}])


def find_unprintable(text: str) -> set[str]:
    return {c for c in text if not c.isprintable() and c != "\n"}


@pytest.mark.parametrize(
    "command",
    [
        "match rules.jsonl events.jsonl --event-id id",
        "match rules.jsonl events.jsonl --top 2",
        "match rules.jsonl events.jsonl --with rule --with payload --with tags",
        "match rules.jsonl events.jsonl --count",
        "export rules.jsonl --output -",
        "explain rules.jsonl NASTY EVENT",
        "stats rules.jsonl",
        "stats rules.jsonl --json",
        "lint rules.jsonl",
        "lint rules.jsonl --json",
        "similar rules.jsonl NASTY",
        "similar rules.jsonl NASTY --json",
        "similar rules.jsonl nothing",
        "check rules.jsonl events.jsonl",
        "check bad.jsonl events.jsonl",
        "test rules.jsonl",
        "ratify rules.jsonl",
        "backtest rules.jsonl events.jsonl --rule NAME=1 --id NASTY",
        "build bad.jsonl -o index",
        "build FILE -o index",
        "match bad.jsonl events.jsonl --skip-bad-rules",
        "match NASTY NASTY",
        "pipeline check NASTY.toml",
        "keys create . --right read --name NASTY",
        "keys list .",
    ],
)
def test_no_command_prints_what_controls_a_terminal(command: str) -> None:
    words = [
        w.replace("NASTY", NASTY)
        .replace("FILE", f"{NASTY}.jsonl")
        .replace("EVENT", json.dumps({NASTY: NASTY}))
        for w in command.split()
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code in {0, 1}, result.output
    assert find_unprintable(result.stdout + result.stderr) == set()


def test_results_stay_the_same_json() -> None:
    found = parse_lines(run("match", "rules.jsonl", "events.jsonl"))
    assert found == [{"event": 0, "rules": [NASTY, f"{NASTY}\n2"]}]
    (first, *_) = parse_lines(run("export", "rules.jsonl", "-o", "-"))
    assert first["id"] == NASTY
    assert first["payload"] == {"p": NASTY}


def test_files_keep_texts_as_they_are() -> None:
    run("match", "rules.jsonl", "events.jsonl", "-o", "out.jsonl")
    assert NASTY.partition("\x1b")[2][3:] in Path("out.jsonl").read_text()


@pytest.mark.parametrize("text", ["", "plain", "é漢😀", NASTY, f'{NASTY}"\\'])
def test_escaped_json_says_the_same(text: str) -> None:
    lines = json.dumps([text], ensure_ascii=False).encode() + b"\n" + b"1\n"
    escaped = escape_json(lines)
    assert [json.loads(line) for line in escaped.splitlines()] == [[text], 1]
    assert find_unprintable(escaped.decode()) == set()
    assert "é漢" not in text or "é漢" in escaped.decode()


def test_logged_messages_are_escaped_line_by_line() -> None:
    record = logging.LogRecord("tamis", logging.WARNING, "", 0, "%s\nnext", (NASTY,), None)
    shown = PrintableFormatter().format(record)
    assert find_unprintable(shown) == set()
    assert shown.split("\n")[1] == "next"
    assert escape_unprintable("a\nb\x9b") == "a\\nb\\x9b"


def find_direct_prints() -> Iterator[str]:
    for file in sorted(Path(*tamis.cli.commands.__path__).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                *("print", "typer.echo", "typer.secho"),
                *("sys.stdout.write", "sys.stdout.buffer.write", "sys.stderr.write"),
            }:
                yield file.name


def test_commands_print_through_the_console() -> None:
    """`doctor` styles its lines, and escapes what it styles."""
    assert set(find_direct_prints()) <= {"doctor.py"}


def test_access_log_is_escaped() -> None:
    stream = io.StringIO()
    AccessLog(stream).event(NASTY, request=NASTY)
    assert find_unprintable(stream.getvalue()) == set()
    assert json.loads(stream.getvalue())["message"] == NASTY
