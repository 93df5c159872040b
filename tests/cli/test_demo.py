"""The options of the demo."""

from __future__ import annotations

from tests.cli.command import run


def test_demo_takes_its_options() -> None:
    shown = run("demo", "--rules", "50", "--flights", "500", "--seed", "3")
    assert "500" in shown
