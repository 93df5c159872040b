"""Every case that the attack ever found stays right."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from attack import fuzz
from attack.case import CASES, Case, load_case, save_case, shrink
from attack.differential.checks import find_fault


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_a_stored_case_stays_right(path: Path) -> None:
    case = load_case(path)
    fault = fuzz.check_case(case) if case.check == "fuzz" else find_fault(case)
    assert fault is None


def test_a_case_is_stored_with_all_kinds_of_values(tmp_path: Path) -> None:
    event = {"t": datetime(2024, 2, 29, tzinfo=UTC), "x": [1, 2.5, True, None], "i": float("inf")}
    case = Case("batch", [{"id": 1, "rule": {"attr": "x", "=": 1}}], [event], {"form": "text"})
    assert load_case(save_case(case, "wrong", tmp_path)) == case


def test_a_case_shrinks_to_what_fails() -> None:
    wanted = {"attr": "x", "=": 7}
    rules = [{"id": n, "rule": {"attr": "x", "=": n}} for n in range(40)]
    rules[20]["rule"] = {"and": [{"attr": "y", "in": [1, 2]}, {"not": {"or": [wanted, True]}}]}
    events = [{"x": n, "y": [n, n + 1]} for n in range(30)]

    def fails(case: Case) -> bool:
        return "7" in str([r["rule"] for r in case.rules if r["id"] == 20]) and any(
            event.get("x") == 3 for event in case.events
        )

    small = shrink(Case("batch", rules, events), fails)
    assert small.rules == [{"id": 20, "rule": wanted}]
    assert small.events == [{"x": 3}]
