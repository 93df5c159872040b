"""An exception at every line of the write path: the tests that do it, as a part of the attack."""

from __future__ import annotations

import re
import subprocess
import sys

from attack.campaign import Budget, Report
from tests.matcher.storage import test_interruptions

__all__ = ["run"]


def run(budget: Budget) -> Report:
    """Raise at every line of every kind of write; a small budget takes a few kinds."""
    report = Report("lines")
    chosen = "" if budget.size >= 1 else "remove"
    for _ in budget.start_rounds("lines"):
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
        command += [str(test_interruptions.__file__), "-k", chosen]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        passed = re.search(r"(\d+) passed", done.stdout)
        report.tried["kinds of writes"] += int(passed[1]) if passed else 0
        if done.returncode:
            report.failures.append(done.stdout[-1_500:])
        # Every line was tried: another round would repeat it.
        break
    return report
