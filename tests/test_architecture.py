"""ARCHITECTURE.md names every file there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import architecture

PAGE = architecture.PAGE.read_text("utf-8")

_FILE = re.compile(r"`([a-z_/]+\.py)`")


def walks() -> str:
    """The part of the page that people write: all that stands before the table."""
    return PAGE.partition(architecture.BEGIN)[0]


def test_the_table_has_a_line_for_every_file() -> None:
    assert architecture.update(PAGE, architecture.table()) == PAGE, "run `make architecture`"


def test_a_new_file_makes_the_table_stale(tmp_path: Path) -> None:
    package = tmp_path / "tamis"
    package.mkdir()
    (package / "__init__.py").write_text('"""A package."""\n')
    before = architecture.table(package)
    (package / "added.py").write_text('"""Does something | new."""\n')
    after = architecture.table(package)
    assert after != before
    assert r"| `added.py` | Does something \| new. |" in after


def test_a_file_without_a_docstring_is_refused(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("")
    with pytest.raises(ValueError, match="has no docstring"):
        architecture.table(tmp_path)


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        architecture.update("no table here", "")


def test_the_walks_name_files_that_exist() -> None:
    named = set(_FILE.findall(walks()))
    assert len(named) > 30, "the walks should name the files they pass"
    missing = sorted(
        name
        for name in named
        if not (architecture.SOURCE / name).exists() and not (architecture.ROOT / name).exists()
    )
    assert not missing, f"ARCHITECTURE.md names files that do not exist: {missing}"
