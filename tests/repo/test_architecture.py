"""ARCHITECTURE.md fits into one reading and names real files; every file says what it is for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.file_list import SOURCE, find_folders, list_files

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")

_FILE = re.compile(r"`([a-z_/]+\.py)`")


def test_the_page_fits_into_one_reading() -> None:
    assert len(PAGE.encode()) <= 14_000


def test_the_page_has_every_room() -> None:
    rooms = {folder.name for folder in find_folders(SOURCE) if folder.parent == SOURCE}
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^### .*", PAGE, re.MULTILINE))))
    assert rooms - named == {"samples"}


def test_the_page_names_files_that_exist() -> None:
    named = set(_FILE.findall(PAGE))
    assert len(named) > 30, "the walks should name the files they pass"
    missing = sorted(
        name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()
    )
    assert not missing, f"ARCHITECTURE.md names files that do not exist: {missing}"


def test_the_list_has_every_file(tmp_path: Path) -> None:
    package = tmp_path / "tamis"
    package.mkdir()
    (package / "__init__.py").write_text('"""A package."""\n')
    (package / "added.py").write_text('"""Does something | new."""\n')
    assert r"| `added.py` | Does something \| new. |" in list_files(package)
    assert "| `evaluate.py` |" in list_files()


def test_a_file_without_a_docstring_is_refused(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("")
    with pytest.raises(ValueError, match="has no docstring"):
        list_files(tmp_path)
