"""Runs the engines and hostile files on kernels with bounds checks compiled in.

A kernel that leaves an array raises an IndexError then, also where it reads through an address or
with an instruction of its own (`tamis.encode.addresses.check_items`). A negative index down to
minus the length counts from the end, as in Python; it stays inside and is not noticed. Numba reads
its setting when it is imported, so each run is a process of its own. Their kernels take minutes to
compile; ``TAMIS_KERNEL_CACHE`` names a folder that keeps them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from unittest.mock import patch

import tamis
from attack import fuzz
from attack.campaign import Budget, Report
from attack.differential import run as differential
from tamis.warmup import warmup

__all__ = ["main", "run"]

ENGINES: Final = ("tiles", "shared", "scan", "betree", "betree-batch")
"""The engines of the product, and those of the papers that share their kernels."""

CONTRACT: Final = ("tests/contract", "-k", " or ".join(ENGINES[:4]))
FILES: Final = (
    *(f"tests/matcher/storage/test_{name}.py" for name in ("hostile_files", "corruption", "store")),
    "tests/files/test_broken_files.py",
)
SMALL: Final = ("tests/engines/test_lanes.py", "tests/engines/test_address_block.py")
"""What a smoke runs: few kernels, which are compiled in seconds."""

_SHARES: Final = (0.8, 0.2)
"""How the seconds are shared between decisions and changed files, beside the tests."""
_ROOT: Final = Path(__file__).resolve().parents[1]


def run(budget: Budget) -> Report:
    """Run tests, random cases and changed files with bounds checks; less if the size is below 1."""
    report = Report("bounds")
    suites = {"the contract": CONTRACT, "hostile files": FILES}
    for name, suite in suites.items() if budget.size >= 1 else [("small kernels", SMALL)]:
        _run_tests(name, suite, report)
    if budget.size >= 1:
        _run_cases(budget, report)
    return report


def _run_process(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "TAMIS_KERNELS": "wait"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _run_tests(name: str, suite: Sequence[str], report: Report) -> None:
    done = _run_process(["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *suite])
    passed = re.search(r"(\d+) passed", done.stdout)
    report.tried[f"tests of {name}"] += int(passed[1]) if passed else 0
    if done.returncode:
        report.failures.append(f"tests of {name}: {(done.stdout + done.stderr)[-2_000:]}")


def _run_cases(budget: Budget, report: Report) -> None:
    asked = [str(budget.seed), str(budget.seconds), str(budget.cases)]
    done = _run_process(["-c", "from attack.bounds import main; main()", *asked])
    if done.returncode:
        report.failures.append(f"exit code {done.returncode}: {done.stderr[-2_000:]}")
        return
    found = json.loads(done.stdout.splitlines()[-1])
    report.tried.update(found["tried"])
    report.failures += found["failures"]


def main() -> None:
    """Draw cases in this process, whose arguments are a seed, seconds and a folder."""
    seed, seconds, cases = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    warmup(ENGINES)
    with patch.object(tamis, "engines", lambda: [*ENGINES]):
        decided, changed = (
            part(Budget(seed, seconds * share, cases=cases))
            for part, share in zip((differential.run, _change_files), _SHARES, strict=True)
        )
    tried = {
        "decisions": sum(decided.tried.values()),
        "changed files of an index": sum(changed.tried.values()),
    }
    print(json.dumps({"tried": tried, "failures": decided.failures + changed.failures}))


def _change_files(budget: Budget) -> Report:
    return fuzz.run(budget, ("index",))
