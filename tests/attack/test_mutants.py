"""The attack sees every fault that is put into Tamis, or into its oracle, on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from attack.campaign import Budget
from attack.mutants import MUTANTS, find_failure


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_seen(name: str, tmp_path: Path) -> None:
    assert find_failure(name, Budget(1, cases=tmp_path)) is not None
