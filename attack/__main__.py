"""Runs the campaign: ``make attack``, or ``python -m attack --seconds 600 --seed 1``.

It prints the seed first and a table at the end, and exits with 1 if anything failed.
``--table PAGE`` writes the table into a page of the documentation.
"""

from __future__ import annotations

import argparse
import platform
import secrets
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attack import failing_disk, fuzz, kills, leaks, lines, mutants, power_cut, threads
from attack.campaign import Budget, Report
from attack.differential import run as differential

__all__ = ["PARTS", "main", "write_table"]

PARTS: Final[dict[str, Callable[[Budget], Report]]] = {
    "differential": differential.run,
    "fuzz": fuzz.run,
    "kills": kills.run,
    "power_cut": power_cut.run,
    "failing_disk": failing_disk.run,
    "lines": lines.run,
    "threads": threads.run,
    "leaks": leaks.run,
    "mutants": mutants.run,
}
"""The parts of the campaign, in the order in which they run."""

_SHARES: Final = {"differential": 0.4, "fuzz": 0.15, "kills": 0.15}
"""How the seconds of a whole campaign are shared; the other parts have 0.06 each."""

BEGIN: Final = "<!-- The table of the long run; `make attack TABLE=…` writes it. -->"
END: Final = "<!-- End of the table of the long run. -->"


def main() -> None:
    """Run the parts that the command line names."""
    parser = argparse.ArgumentParser(prog="make attack", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--part", choices=PARTS, nargs="*", default=None)
    parser.add_argument("--table", type=Path, help="the page to write the table into")
    asked = parser.parse_args()
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    parts = asked.part or list(PARTS)
    print(f"attack: SEED={seed} SECONDS={asked.seconds:g} PART={' '.join(parts)}", flush=True)
    reports, begin = [], time.monotonic()
    for part in parts:
        share = 1.0 if len(parts) == 1 else _SHARES.get(part, 0.06)
        start = time.monotonic()
        report = PARTS[part](Budget(seed, asked.seconds * share))
        reports.append(report)
        print(describe(report, time.monotonic() - start), flush=True)
    if asked.table is not None:
        page = asked.table.read_text("utf-8")
        took = time.monotonic() - begin
        asked.table.write_text(write_table(page, reports, seed, took), "utf-8")
    sys.exit(any(report.failures for report in reports))


def describe(report: Report, seconds: float) -> str:
    """A report as text."""
    lines = [f"\n{report.part}: {len(report.failures)} failures in {seconds:.0f} s"]
    lines += [f"  {count:>15,}  {what}" for what, count in report.tried.items()]
    lines += [f"  note: {note}" for note in report.notes]
    lines += [f"  FAILED: {failure}" for failure in report.failures]
    return "\n".join(lines)


_NAMES: Final = {
    "differential": "Decisions (a rule on an event)",
    "fuzz": "Inputs",
}


def write_table(page: str, reports: list[Report], seed: int, seconds: float) -> str:
    """The page with the table of these reports between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks the markers {BEGIN!r} and {END!r}")
    rows = ["| Part | What was tried | How many | Failures |", "| --- | --- | ---: | ---: |"]
    for report in reports:
        total = sum(report.tried.values())
        if report.part in _NAMES and len(report.tried) > 1:
            failures = f"{len(report.failures):,}"
            rows.append(f"| {report.part} | {_NAMES[report.part]}, all | {total:,} | {failures} |")
        for what, count in report.tried.items():
            failures = "" if report.part in _NAMES else f"{len(report.failures):,}"
            rows.append(f"| {report.part} | {what} | {count:,} | {failures} |")
    day = datetime.now(UTC).date()
    note = (
        f"Run on {day} with `SEED={seed}`, {seconds / 60:.0f} minutes, "
        f"Python {platform.python_version()} on {platform.system()}."
    )
    table = "\n".join(rows)
    return f"{before}{BEGIN}\n\n{note}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    main()
