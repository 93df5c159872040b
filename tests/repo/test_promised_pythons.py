"""The script that runs the tests on every promised Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import test_pythons as script


def test_promised_versions_are_those_of_the_classifiers() -> None:
    versions = script.promised()
    assert versions[0] == (3, 11)
    assert versions == sorted(versions)
    assert len(versions) > 2


def test_interpreter_of_this_version_is_found() -> None:
    number = "{}.{}".format(*sys.version_info[:2])
    for micro, python in script.find_interpreters(number):
        assert micro >= 0
        assert Path(python).exists()
    assert script.find_interpreters("3.99") == []


def test_fast_part_is_nothing_without_a_newer_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []

    def find_rows(version: tuple[int, int], *, unpack: bool = True) -> list[script.Row]:
        asked.append(unpack)
        return []

    monkeypatch.setattr(script, "find_rows", find_rows)
    monkeypatch.setattr(sys, "argv", ["test_pythons.py", "--fast"])
    script.main()
    assert not any(asked)
    assert "no Python here that is newer" in capsys.readouterr().out


def test_named_row_looks_for_no_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def find_rows(version: tuple[int, int]) -> list[script.Row]:
        asked.append(version)
        return []

    monkeypatch.setattr(script, "find_rows", find_rows)
    monkeypatch.setattr(sys, "argv", ["test_pythons.py", "3.11-lowest"])
    with pytest.raises(SystemExit, match=r"not all of 3\.11-lowest can be had"):
        script.main()
    assert asked == [(3, 11)]


@pytest.mark.parametrize("breaks_off", [True, False])
def test_row_whose_tests_break_off_has_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, breaks_off: bool
) -> None:
    ran: list[list[str]] = []

    def inside(row: script.Row, clone: Path, command: list[str]) -> bool:
        ran.append(command)
        return breaks_off

    def clone(command: list[str], **options: object) -> None:
        Path(command[-1]).mkdir()

    monkeypatch.setattr(script, "CLONES", tmp_path)
    monkeypatch.setattr(script, "inside", inside)
    monkeypatch.setattr(subprocess, "run", clone)
    assert not script.run(script.Row("3.11", "python3.11"), fast=False)
    assert len(ran) == 1 + breaks_off


def test_row_replaces_the_older_one_of_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "release.md"
    page.write_text(f"before\n\n{script.BEGIN}\n\n{script.END}\n\nafter\n")
    monkeypatch.setattr(script, "PAGE", page)
    monkeypatch.setattr(
        script, "describe", lambda row, clone, counts: f"| {row.name} | {counts['tests']} |"
    )
    for name, tests in (("3.12", "1"), ("3.11", "2"), ("3.12", "3")):
        script.write(script.Row(name, "python"), tmp_path, {"tests": tests})
    assert script.table_rows() == ["| 3.11 | 2 |", "| 3.12 | 3 |"]
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\n\nafter\n")


def test_page_has_the_marks_of_the_table() -> None:
    text = script.PAGE.read_text("utf-8")
    assert text.count(script.BEGIN) == text.count(script.END) == 1
