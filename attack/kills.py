"""Writers killed at random moments, with SIGKILL: what they acknowledged is there.

The writers are those of the tests; here they are killed as often as the budget allows.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attack.campaign import Budget, Report
from tests.matcher.storage import killed_writers

__all__ = ["run"]

_KILLS: Final = 50
"""Kills in a round, which all hit writers of one directory."""


def run(budget: Budget) -> Report:
    """Kill writers, round after round."""
    report = Report("kills")
    kills = max(3, int(_KILLS * budget.size))
    for number, random in budget.start_rounds("kills"):
        seed = random.randrange(2**31)
        with TemporaryDirectory(prefix="attack-") as folder:
            script = str(killed_writers.__file__)
            command = [sys.executable, script, str(Path(folder) / "index"), str(kills), str(seed)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            report.failures.append(f"round {number}, seed {seed}: {done.stderr.strip()[-500:]}")
            if report.is_done:
                break
            continue
        report.tried["writers killed"] += kills
        report.tried["changes acknowledged"] += int(done.stdout.split()[0])
    return report
