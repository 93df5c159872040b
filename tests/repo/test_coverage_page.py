"""The page on what of the sources is here names tests and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "experiments" / "coverage.md"

_NAMED = re.compile(r"`(tests/[^`]*)`")
_FILE = re.compile(r"`((?!tests/)[\w/]+\.py)`")
_ROW = re.compile(r"^\| (\d+) \| (.*) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#]+\.md)\)")


def find_missing(text: str) -> list[str]:
    """The tests and pages that a text names and that do not exist."""
    missing = []
    for named in _NAMED.findall(text):
        path, _, name = named.partition("::")
        file = ROOT / path
        is_test = name.startswith("test_") and file.is_file()
        if named == "tests/repo/test_coverage_page.py":
            continue  # the page says what checks it
        if not is_test or not re.search(rf"^def {name}\(", file.read_text(), re.MULTILINE):
            missing.append(named)
    return missing + [link for link in _LINK.findall(text) if not (PAGE.parent / link).is_file()]


def test_every_named_test_and_page_exists() -> None:
    text = PAGE.read_text()
    assert len(set(_NAMED.findall(text))) > 70
    assert find_missing(text) == []


def test_every_named_file_exists() -> None:
    """A file is named by the end of its path."""
    files = [
        f"/{path.relative_to(ROOT)}"
        for top in ("src", "experiments")
        for path in (ROOT / top).rglob("*.py")
    ]
    named = set(_FILE.findall(PAGE.read_text()))
    assert len(named) > 10
    assert [name for name in sorted(named) if not any(f.endswith(f"/{name}") for f in files)] == []


def test_every_item_is_shown() -> None:
    rows = _ROW.findall(PAGE.read_text())
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 144
    for number, rest in rows:
        shown = rest.split(" | ")[-1]
        assert _NAMED.search(shown) or _LINK.search(shown), number


@pytest.mark.parametrize(
    "shown",
    [
        "`tests/repo/test_coverage_page.py::test_that_nobody_wrote`",
        "`tests/test_no_such_file.py::test_every_item_is_shown`",
        "`tests/repo/test_coverage_page.py::find_missing`",
        "`tests/Test-coverage.py::test_every_item_is_shown`",
        "`tests/engines`",
        "[a page](no-such-page.md)",
    ],
)
def test_a_row_that_names_what_does_not_exist_is_reported(shown: str) -> None:
    row = f"| 1 | 2.2 | An item | here | {shown}, `tests/test_experiments.py::FIGURES` |"
    assert len(find_missing(row)) == 2
    assert find_missing(f"{PAGE.read_text()}\n{row}")
