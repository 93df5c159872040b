"""Power cuts: what was acknowledged is there, whatever else a crash has left.

A writer works while all of its file calls are recorded. Then the power is cut after every call, or
after many: the files are written as the disk would have them, and the directory is opened again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch
from uuid import uuid4

import tamis
from attack.campaign import Budget, Report
from attack.disk import Call, Disk, Recorder, Survival
from attack.file_calls import without_fsync
from attack.workload import State, apply_change, draw_changes, open_writer, read_state, small_files
from tamis.matcher.storage import log_statement

__all__ = ["run"]

_CHANGES: Final = 30
_SURVIVALS: Final[tuple[Survival, ...]] = ("all", "synced", "torn", "torn", "torn")


def run(budget: Budget) -> Report:
    """Cut the power of many writers at many moments."""
    report = Report("power_cut")
    end = time.monotonic() + budget.seconds
    for number, random in budget.start_rounds("power_cut"):
        share = min(1.0, budget.size)
        with TemporaryDirectory(prefix="attack-") as folder:
            root = Path(folder) / "disk"
            root.mkdir()
            calls = record(root, random, max(4, int(_CHANGES * share)))
            _cut_everywhere(root, calls, random, share, end, report, f"round {number}")
        if report.is_done:
            break
    return report


def record(root: Path, random: Random, count: int) -> list[Call]:
    """The file calls of a writer, with a mark before and after each change."""
    with small_files(), Recorder(root) as recorder:
        recorder.mark("begin", State())
        matcher = open_writer(root / "index")
        recorder.mark("done", State())
        for number, (change, state) in enumerate(draw_changes(random, count)):
            recorder.mark("begin", state)
            apply_change(matcher, change, number)
            recorder.mark("done", state)
            if number % 10 == 9:
                matcher.close()
                matcher = open_writer(root / "index")
        matcher.close()
    return recorder.calls


def _cut_everywhere(
    root: Path,
    calls: list[Call],
    random: Random,
    share: float,
    end: float,
    report: Report,
    name: str,
) -> None:
    """Follow the calls until `end`, and cut the power after a share of them, in every way."""
    disk = Disk(root)
    possible: list[State | None] = [None]
    for place, call in enumerate(calls):
        disk.follow(call)
        match call:
            case ("mark", "begin", state):
                possible.append(state)
            case ("mark", "done", state):
                possible = [state]
        if random.random() >= share:
            continue
        if time.monotonic() > end:
            return
        for survival in _SURVIVALS:
            wrong = _cut(root.parent / "after", disk, survival, random, possible)
            report.tried[f"cuts, {survival} kept" if survival != "torn" else "cuts, torn"] += 1
            if wrong is not None:
                report.failures.append(
                    f"{name}, after call {place} {call[:2]}, {survival}: {wrong}"
                )
                if report.is_done:
                    return


def _cut(
    to: Path, disk: Disk, survival: Survival, random: Random, possible: list[State | None]
) -> str | None:
    """Write what is left, open it, and compare with what may be there."""
    disk.write(to, survival, random)
    try:
        if not (to / "index").exists():
            return None if None in possible else "the directory is missing"
        with _booted_again(to), without_fsync(), open_writer(to / "index") as matcher:
            found = read_state(matcher)
            if found not in possible:
                return f"{_describe(found)}, not one of {[*map(_describe, possible)]}"
            # What a crash has left must not disturb later changes.
            matcher.add("later", "x = 3")
        with tamis.open(to / "index", read_only=True) as matcher:
            if "later" not in matcher:
                return "a change after the crash is lost"
        return None
    except (tamis.TamisError, AssertionError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(to)


@contextmanager
def _booted_again(folder: Path) -> Iterator[None]:
    """Give the time since the last boot another name."""
    name = folder / "boot_id"
    name.write_text(str(uuid4()))
    with patch.object(log_statement, "_BOOT_FILE", name):
        yield


def _describe(state: State | None) -> str:
    if state is None:
        return "no directory"
    return f"{len(state.rules)} rules, {len(state.documents)} documents"
