"""A failing disk: each file call of a writer fails once, in every way, one after another.

A change that fails raises a `StorageError` and leaves all as it was; what was acknowledged before
and after it is there when the directory is opened again.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import tamis
from attack.campaign import Budget, Report
from attack.file_calls import FileCalls
from attack.workload import (
    Change,
    State,
    apply_change,
    draw_changes,
    open_writer,
    read_state,
    small_files,
)

__all__ = ["FAULTS", "run"]

_CHANGES: Final = 14

FAULTS: Final = {
    "ENOSPC": errno.ENOSPC,
    "EIO": errno.EIO,
    "EINTR": errno.EINTR,
    "short write": None,
}
"""What goes wrong, by name; a short write takes only a part of the data."""


class FailingCalls(FileCalls):
    """Makes one call fail.

    Parameters
    ----------
    root
        The folder whose calls count.
    place
        Which call fails, from 0.
    fault
        One of `FAULTS`.
    """

    def __init__(self, root: Path, place: int, fault: str) -> None:
        super().__init__(root)
        self._left = place
        self._fault = fault
        self.failed: str | None = None
        """The call that failed."""

    def on_call(self, name: str, path: str, run: Callable[[], Any], arguments: Any) -> Any:
        """Make the call, or fail."""
        self._left -= 1
        if self._left != -1:
            return run()
        number = FAULTS[self._fault]
        if number is None:
            if name not in ("write", "pwrite") or len(arguments[1]) < 2:
                return run()
            self.failed = name
            if name == "pwrite":
                return os.pwrite(arguments[0], arguments[1][:7], arguments[2])
            return os.pwrite(arguments[0], arguments[1][: len(arguments[1]) // 2], _seek(arguments))
        self.failed = name
        if name == "close":
            run()
        raise OSError(number, os.strerror(number), path)


def _seek(arguments: Any) -> int:
    """The place of a write; moves it as far as half of the data takes."""
    at = os.lseek(arguments[0], 0, os.SEEK_CUR)
    os.lseek(arguments[0], len(arguments[1]) // 2, os.SEEK_CUR)
    return at


def run(budget: Budget) -> Report:
    """Fail every call of a writer's work, once in each way."""
    report = Report("failing_disk")
    share = min(1.0, budget.size)
    for number, random in budget.start_rounds("failing_disk"):
        changes = list(draw_changes(random, max(4, int(_CHANGES * share))))
        for fault in FAULTS:
            place = 0
            while True:
                failed = _fail(changes, place, fault, report, f"round {number}, {fault}")
                if failed is None or report.is_done:
                    break
                report.tried[fault] += failed
                # All of them in a full round; a smoke leaves out most.
                place += 1 if share == 1.0 else random.randint(1, int(2 / share))
        if report.is_done:
            break
    return report


def _fail(
    changes: list[tuple[Change, State]], place: int, fault: str, report: Report, name: str
) -> bool | None:
    """Work with one failing call; whether it could fail, and None past the last call."""
    with TemporaryDirectory(prefix="attack-") as folder, small_files():
        root = Path(folder) / "disk"
        root.mkdir()
        calls = FailingCalls(root, place, fault)
        with calls:
            try:
                wrong = _work(root, changes)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
        if wrong is not None:
            report.failures.append(f"{name} at call {place} ({calls.failed}): {wrong}")
        return None if calls._left >= 0 else calls.failed is not None


def _work(root: Path, changes: list[tuple[Change, State]]) -> str | None:
    """Make the changes one by one, and look after each that failed; what is wrong, or None."""
    index = root / "index"
    matcher = _open(index)
    before = State()
    for number, (change, after) in enumerate(changes):
        failures = 0
        while True:
            try:
                apply_change(matcher, change, number)
                break
            except tamis.StorageError:
                failures += 1
            if failures > 2:
                return f"{change[0]} failed {failures} times"
            live = read_state(matcher)
            if live not in (before, after):
                return f"{change[0]} failed, and left neither the state before nor the one after"
            wrong = _compare_copy(root, [before, after] if failures > 1 else [live, after])
            if wrong is not None:
                return f"{change[0]} failed: {wrong}"
            if live == after:
                break
            if failures == 2:
                # The matcher may refuse all further changes: what is on the disk is unknown to it.
                _close(matcher)
                matcher = _open(index)
                if read_state(matcher) == after:
                    break
        if read_state(matcher) != after:
            return f"{change[0]} was acknowledged, and is not there"
        wrong = _compare_copy(root, [after])
        if wrong is not None:
            return f"{change[0]} was acknowledged: {wrong}"
        before = after
    _close(matcher)
    return _compare_copy(root, [before])


def _open(index: Path) -> tamis.Matcher:
    try:
        return open_writer(index)
    except tamis.StorageError:
        return open_writer(index)


def _close(matcher: tamis.Matcher) -> None:
    try:
        matcher.close()
    except tamis.StorageError:
        matcher.close()


def _compare_copy(root: Path, possible: list[State]) -> str | None:
    """Open a copy, as after a kill, and compare."""
    copy = root.parent / "copy"
    shutil.copytree(root / "index", copy)
    try:
        with tamis.open(copy, read_only=True, verify=True) as matcher:
            found = read_state(matcher)
    except tamis.TamisError as error:
        return f"the directory does not open: {error}"
    finally:
        shutil.rmtree(copy)
    if found not in possible:
        return f"{len(found.rules)} rules are there, not {[len(s.rules) for s in possible]}"
    return None
