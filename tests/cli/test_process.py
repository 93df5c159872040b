"""The command as a process: pipes, signals and terminals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import MATCHES, parse_lines, start, write


def test_a_pipe_receives_only_results() -> None:
    command = start("match", "rules.jsonl", "-", stdin=subprocess.PIPE)
    out, err = command.communicate(Path("events.jsonl").read_bytes())
    assert command.returncode == 0
    assert err == b""
    assert [line["rules"] for line in parse_lines(out.decode())] == MATCHES


def test_results_are_printed_before_the_input_ends() -> None:
    with start("match", "rules.jsonl", "-", stdin=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        for n in (0, 1):
            command.stdin.write(b'{"age": 30}\n')
            command.stdin.flush()
            assert json.loads(command.stdout.readline()) == {"event": n, "rules": [7]}


def test_bad_input_exits_with_code_1_and_no_traceback() -> None:
    Path("events.jsonl").write_bytes(b'{"age": 15, "country": "FR"}\n' * 3 + b"{")
    command = start("match", "rules.jsonl", "events.jsonl", "-o", "out.parquet")
    out, err = command.communicate()
    assert command.returncode == 1
    assert out == b""
    assert err == b"tamis: events.jsonl:4: not valid JSON: input data was truncated\n"
    assert not list(Path().glob("*out*"))


def test_a_closed_pipe_ends_the_command_silently() -> None:
    write("events.jsonl", [{"age": 15, "country": "FR"}] * 200_000)
    with start("match", "rules.jsonl", "events.jsonl") as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert json.loads(command.stdout.readline())["event"] == 0
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        command = start("match", "rules.jsonl", "events.jsonl", stdout=full)
        _, err = command.communicate()
    assert command.returncode == 1
    assert err == b"tamis: [Errno 28] No space left on device\n"


def test_an_interrupt_ends_the_command_silently() -> None:
    with start("match", "rules.jsonl", "-", "-o", "out.csv", stdin=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stderr is not None
        command.stdin.write(b'{"age": 30}\n' * 5_000)
        command.stdin.flush()
        # Modules are imported before the first result: the import of one that is interrupted leaves
        # files open, which are errors here.
        while not any(file.stat().st_size for file in Path().glob(".out.csv*")):
            assert command.poll() is None
            time.sleep(0.05)
        command.send_signal(signal.SIGINT)
        assert command.stderr.read() == b""
    assert command.returncode == 130
    assert not list(Path().glob(".out.csv*"))


def read_terminal(ours: int) -> str:
    """What a command prints on a terminal until it ends; the terminal holds 4 kB at most."""
    shown = b""
    with suppress(OSError), open(ours, "rb", buffering=0) as terminal:
        while read := terminal.read(1 << 16):
            shown += read
    return shown.decode()


def test_a_terminal_shows_a_progress_bar() -> None:
    ours, theirs = pty.openpty()
    command = start(
        "match", "rules.jsonl", "events.jsonl", "-o", "out.csv", stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = read_terminal(ours)
    assert command.wait() == 0
    assert "Matching events" in shown
    assert Path("out.csv").exists()


def test_no_progress_bar_appears_between_results_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = start("match", "rules.jsonl", "events.jsonl", stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = read_terminal(ours)
    assert command.wait() == 0
    *results, totals = shown.splitlines()
    assert [line["rules"] for line in parse_lines("\n".join(results))] == MATCHES
    assert totals.startswith("tamis: 4 events, 3 with matches; 4 matches by 4 of 4 rules; ")


def run_without(stream: str, *arguments: str) -> tuple[int, bytes, bytes]:
    """Run the command with a standard stream closed; its exit code and what it printed."""
    command = [sys.executable, "-m", "tamis", *arguments]
    shell = ["sh", "-c", f'exec "$@" {stream}', "sh", *command]
    done = subprocess.run(shell, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments", [["match", "rules.jsonl", "-"], ["explain", "rules.jsonl", "7", "-"]]
)
def test_a_closed_input_is_reported_in_one_line(arguments: list[str]) -> None:
    assert run_without("<&-", *arguments) == (1, b"", b"tamis: <stdin>: standard input is closed\n")


@pytest.mark.parametrize("name", ["match", "stats", "export"])
def test_a_closed_output_is_reported_in_one_line(name: str) -> None:
    files = ["rules.jsonl", "events.jsonl"][: 2 if name == "match" else 1]
    assert run_without(">&-", name, *files) == (1, b"", b"tamis: standard output is closed\n")


def test_closed_streams_that_are_not_needed_do_no_harm() -> None:
    arguments = ["match", "rules.jsonl", "events.jsonl", "-o", "out.jsonl"]
    assert run_without("<&- >&- 2>&-", *arguments) == (0, b"", b"")
    found = [line["rules"] for line in parse_lines(Path("out.jsonl").read_text())]
    assert found == MATCHES
    assert run_without("2>&-", "match", "rules.jsonl", "no.jsonl") == (1, b"", b"")


def test_an_interrupt_during_imports_leaves_no_traceback() -> None:
    # Python names each module on standard error when its import is complete.
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    with start("match", "rules.jsonl", "-", stdin=subprocess.PIPE, env=environment) as command:
        assert command.stderr is not None
        while b"tamis.interrupts" not in command.stderr.readline():
            assert command.poll() is None
        command.send_signal(signal.SIGINT)
        rest = command.stderr.read()
    assert command.returncode == -signal.SIGINT
    assert b"tamis.cli" not in rest
    assert b"Traceback" not in rest
    assert b"KeyboardInterrupt" not in rest
