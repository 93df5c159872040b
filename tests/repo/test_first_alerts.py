"""Every block of the first tutorial runs, in order, and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "first-alerts.md"
MARK = "--- end of block ---"


class Shell:
    """A shell that stays open, as a reader's does: its variables and background jobs live on."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["bash", "-u"],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str) -> str:
        """Run a block, and return what it printed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{script}\necho $? '{MARK}'\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line.rstrip().endswith(MARK):
                assert line.split()[0] == "0", f"{script}\n{''.join(lines)}"
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended\n{''.join(lines)}")

    def close(self) -> None:
        """End the shell and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.close()


def find_free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def agrees(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed; … stands for anything."""
    pattern = "(?s:.*)".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(pattern, printed.strip()) is not None


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_tutorial_runs_and_prints_what_it_shows(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    for port in ("8080", "9000"):
        text = re.sub(rf"\b{port}\b", find_free_port(), text)
    session: dict[str, Any] = {"__name__": "__main__"}
    printed, seen = "", {"sh": 0, "python tutorial": 0, "text": 0}
    for token in MarkdownIt().parse(text):
        if token.type != "fence" or token.info not in seen:
            continue
        seen[token.info] += 1
        if token.info == "text":
            assert agrees(token.content, printed), f"{token.content}\nbut printed:\n{printed}"
        elif token.info == "sh":
            printed = shell.run(token.content)
        else:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(token.content, str(PAGE), "exec"), session)
            printed = out.getvalue()
    assert seen == {"sh": 6, "python tutorial": 6, "text": 10}


def test_an_answer_that_differs_is_noticed() -> None:
    assert agrees("a … z\n", "a b z")
    assert not agrees("a … z\n", "a b y")
