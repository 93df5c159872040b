"""Every decision says its status and the rule that follows, and is listed."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("0*.md"))


def test_each_decision_begins_with_its_rule() -> None:
    head = re.compile(r"# \d{4}\. .+\n\nStatus: (.+\n)+\n\*\*Rule that follows:\*\* .+\n\n## ")
    assert [page.name for page in PAGES if not head.match(page.read_text("utf-8"))] == []


def test_each_decision_is_listed_in_order() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\((.+?)\)", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    assert listed == [(page.name[:4], page.name) for page in PAGES]
