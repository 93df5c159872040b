"""Every line of the tutorial runs, and answers what the page shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "publish-subscribe.md"
MARK = "--- end of block ---"


def find_blocks() -> list[tuple[str, str]]:
    """The blocks of the page, each with its language."""
    tokens = MarkdownIt().parse(PAGE.read_text())
    return [(token.info, token.content) for token in tokens if token.type == "fence"]


def find_free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def check_same(shown: Any, found: Any, where: str = "") -> None:
    """Compare what the page shows with what came; … stands for anything."""
    if shown == "…":
        return
    if isinstance(shown, dict):
        assert isinstance(found, dict), where
        assert shown.keys() == found.keys(), where
        for name, value in shown.items():
            check_same(value, found[name], f"{where}.{name}")
    elif isinstance(shown, list):
        assert isinstance(found, list), where
        assert len(shown) == len(found), where
        for one, other in zip(shown, found, strict=True):
            check_same(one, other, f"{where}[]")
    else:
        assert shown == found, where


def read_last(text: str) -> Any:
    """The last of the JSON texts that a block has printed."""
    decoder, at, found = json.JSONDecoder(), 0, None
    while at < len(text):
        found, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_tutorial_runs(tmp_path: Path) -> None:
    blocks = find_blocks()
    scripts = [text for language, text in blocks if language == "sh"]
    text = "\n".join(f"{script}\necho; echo '{MARK}'" for script in scripts)
    for port in ("8080", "9000"):
        text = re.sub(rf"\b{port}\b", find_free_port(), text)
    ending = "trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT\n"
    folder = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-euc", ending + text],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [answer.strip() for answer in done.stdout.split(MARK)]
    shown = 0
    for number, (language, content) in enumerate(blocks):
        if language == "json":
            place = sum(1 for before, _ in blocks[:number] if before == "sh") - 1
            check_same(json.loads(content), read_last(answers[place]))
            shown += 1
    assert shown == 6
    assert "Cranford" in done.stdout
    assert "tamis_" in done.stdout
