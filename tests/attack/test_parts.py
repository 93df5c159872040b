"""A smoke of every part of the attack: small, the same every time, and without failures."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import attack.__main__ as campaign
from attack.campaign import Budget, Report
from attack.differential.checks import CHECKS, find_fault
from attack.differential.draw import DRAW, SMALL

SMOKE = {
    "json": Budget(1, rounds=2, size=SMALL),
    "fuzz": Budget(1, rounds=14, size=0.05),
    "kills": Budget(1, rounds=1, size=0.1),
    "power_cut": Budget(1, rounds=1, size=0.12),
    "failing_disk": Budget(1, rounds=1, size=0.15),
    "memory": Budget(1, rounds=3, size=0.3),
    "lines": Budget(1, rounds=1, size=0.1),
    "threads": Budget(1, rounds=24, size=1),
    "leaks": Budget(1, rounds=1, size=0.01),
    "bounds": Budget(1, rounds=1, size=0.1),
}
"""Small budgets; the other parts have tests of their own."""


@pytest.mark.parametrize("check", CHECKS)
def test_differential_fuzzing_finds_nothing(check: str) -> None:
    for seed in range(3):
        case = DRAW[check](Random(f"{check} {seed}"), SMALL)
        assert find_fault(case) is None


@pytest.mark.parametrize("part", SMOKE)
def test_a_part_finds_nothing(part: str) -> None:
    report = campaign.PARTS[part](SMOKE[part])
    assert report.failures == []
    assert sum(report.tried.values()) > 0


def test_the_same_seed_draws_the_same_cases() -> None:
    for check, draw in DRAW.items():
        assert draw(Random("seed"), SMALL) == draw(Random("seed"), SMALL), check


def test_all_parts_are_tried() -> None:
    assert {*campaign.PARTS} == {*SMOKE, "differential", "mutants", "interleavings", "mutation"}


def test_the_table_of_a_run_goes_between_the_markers() -> None:
    page = f"before\n{campaign.BEGIN}\nold\n{campaign.END}\nafter\n"
    kills, fuzz = Report("kills"), Report("fuzz")
    kills.tried["writers killed"] = 1_000
    fuzz.tried.update({"text": 3, "json": 4})
    written = campaign.write_table(page, [(kills, 90.0)], seed=7)
    assert "| kills | writers killed | 1,000 | 0 | 7 | 1.5 |" in written
    assert "old" not in written
    written = campaign.write_table(written, [(fuzz, 60.0)], seed=8)
    rows = [line for line in written.splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[1:3] for row in rows] == [
        ["inputs, all together", "7"],
        ["text", "3"],
        ["json", "4"],
        ["writers killed", "1,000"],
    ]
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    with pytest.raises(ValueError, match="markers"):
        campaign.write_table("no markers", [(kills, 1.0)], 7)


def test_the_page_of_guarantees_has_the_table() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "guarantees.md"
    text = page.read_text("utf-8")
    assert campaign.BEGIN in text
    assert campaign.END in text
