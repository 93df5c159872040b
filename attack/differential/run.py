"""Runs differential fuzzing: draws cases of every kind in turn, and reduces those that fail."""

from __future__ import annotations

from typing import Final

from attack.campaign import Budget, Report
from attack.differential.checks import find_fault
from attack.differential.draw import DRAW

__all__ = ["ROUND", "run", "run_json"]

ROUND: Final = (
    *("batch",) * 4,
    "engine",
    "engine",
    "calls",
    "calls",
    "function",
    "sql",
    "join",
    "schema",
    "command",
    "expression",
    "text",
    "json",
    "documents",
    "documents",
    "arrow",
)
"""The checks in the order in which they take turns; batches decide the most in a second."""


def run_json(budget: Budget) -> Report:
    """Compare JSON with columns, and nothing else."""
    return run(budget, ("json",), "json")


def run(budget: Budget, checks: tuple[str, ...] = ROUND, part: str = "differential") -> Report:
    """Draw cases and check them."""
    report = Report(part)
    for number, random in budget.start_rounds(part):
        case = DRAW[checks[number % len(checks)]](random, budget.size)
        message = find_fault(case)
        report.tried[case.check] += case.decisions
        if message is not None:
            report.add_case(case, message, lambda c: find_fault(c) is not None, budget.cases)
            if report.is_done:
                break
    return report
