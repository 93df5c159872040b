"""The files that every test of the command starts with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import EVENTS, RULES, write


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own, with a file of rules and one of events."""
    monkeypatch.chdir(tmp_path)
    write("rules.jsonl", RULES)
    write("events.jsonl", EVENTS)
