"""Runs the campaign: ``make attack``, or ``python -m attack --seconds 600 --seed 1``.

It prints the seed first and a table at the end, and exits with 1 if anything failed.
``--table PAGE`` writes the table into a page of the documentation.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attack import (
    bounds,
    failing_disk,
    fuzz,
    interleavings,
    kills,
    leaks,
    lines,
    memory,
    mutants,
    mutation,
    power_cut,
    threads,
)
from attack.campaign import Budget, Report
from attack.differential import run as differential

__all__ = ["PARTS", "main", "write_table"]

PARTS: Final[dict[str, Callable[[Budget], Report]]] = {
    "differential": differential.run,
    "json": differential.run_json,
    "fuzz": fuzz.run,
    "kills": kills.run,
    "power_cut": power_cut.run,
    "failing_disk": failing_disk.run,
    "memory": memory.run,
    "lines": lines.run,
    "threads": threads.run,
    "interleavings": interleavings.run,
    "leaks": leaks.run,
    "bounds": bounds.run,
    "mutants": mutants.run,
    "mutation": mutation.run,
}
"""The parts of the campaign, in the order in which they run."""

_SHARES: Final = {"differential": 0.4, "fuzz": 0.15, "kills": 0.15}
"""How the seconds of a whole campaign are shared; the other parts have 0.04 each."""

_ALONE: Final = {"mutation"}
"""Parts that run only if they are named: they take hours."""

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
    parts = asked.part or [part for part in PARTS if part not in _ALONE]
    print(f"attack: SEED={seed} SECONDS={asked.seconds:g} PART={' '.join(parts)}", flush=True)
    failed = False
    for part in parts:
        share = 1.0 if len(parts) == 1 else _SHARES.get(part, 0.04)
        start = time.monotonic()
        report = PARTS[part](Budget(seed, asked.seconds * share))
        seconds = time.monotonic() - start
        print(describe(report, seconds), flush=True)
        failed = failed or bool(report.failures)
        if asked.table is not None:
            page = asked.table.read_text("utf-8")
            asked.table.write_text(write_table(page, [(report, seconds)], seed), "utf-8")
    sys.exit(failed)


def describe(report: Report, seconds: float) -> str:
    """A report as text."""
    lines = [f"\n{report.part}: {len(report.failures)} failures in {seconds:.0f} s"]
    lines += [f"  {count:>15,}  {what}" for what, count in report.tried.items()]
    lines += [f"  note: {note}" for note in report.notes]
    lines += [f"  FAILED: {failure}" for failure in report.failures]
    return "\n".join(lines)


_TOTALS: Final = {"differential": "decisions, all together", "fuzz": "inputs, all together"}
"""What the numbers of a part add up to, where they do."""

_HEAD: Final = (
    "| Part | What was tried | How many | Failures | Seed | Minutes |",
    "| --- | --- | ---: | ---: | ---: | ---: |",
)


def write_table(page: str, reports: list[tuple[Report, float]], seed: int) -> str:
    """The page with the rows of these parts, and the seconds they took; other rows stay."""
    before, begin, rest = page.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks the markers {BEGIN!r} and {END!r}")
    rows = {part: [r for r in old.splitlines() if r.startswith(f"| {part} |")] for part in PARTS}
    for report, seconds in reports:
        tried = dict(report.tried)
        if report.part in _TOTALS:
            tried = {_TOTALS[report.part]: sum(tried.values()), **tried}
        facts = f"{len(report.failures):,} | {seed} | {seconds / 60:.1f}"
        rows[report.part] = [
            f"| {report.part} | {what} | {count:,} | {facts} |" for what, count in tried.items()
        ]
    table = "\n".join([*_HEAD, *(row for part in PARTS for row in rows[part])])
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    main()
