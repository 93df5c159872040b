"""The page on what of the sources is here names tests and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "experiments" / "coverage.md"

_TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(\w+)`")
_ROW = re.compile(r"^\| (\d+) \| (.*) \|$", re.MULTILINE)


def test_every_named_test_exists() -> None:
    named = set(_TEST.findall(PAGE.read_text()))
    assert len(named) > 70
    for path, name in named:
        file = ROOT / path
        assert file.is_file(), path
        assert re.search(rf"^def {name}\(", file.read_text(), re.MULTILINE), f"{path}::{name}"


def test_every_item_is_shown_or_said_not_to_be() -> None:
    rows = _ROW.findall(PAGE.read_text())
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 144
    for number, rest in rows:
        shown = rest.split(" | ")[-1]
        is_shown = bool(_TEST.search(shown) or ".md" in shown)
        assert is_shown or "**Not**" in rest or "*in part*" in rest, number


def test_every_linked_page_exists() -> None:
    for link in re.findall(r"\]\(([^)]+\.md)\)", PAGE.read_text()):
        assert (PAGE.parent / link).is_file(), link
