"""Leaks: memory, threads and descriptors do not grow with the number of operations."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import tamis
from attack.campaign import Budget, Report

__all__ = ["run"]

_OPERATIONS: Final = 20_000
"""Operations of a round, which begins after a quarter of them."""

_SHARES: Final = {"match": 10.0, "open and close": 0.05}
"""How many operations there are of a kind, where not as many as of the others."""

_SLACK: Final = 3_000
"""Blocks of memory that may still come after the warm-up, with inputs that were seen before."""

_CACHES: Final = 800_000
"""Blocks that all caches of texts and predicates together may take: 100,000 entries each."""

_POOL: Final = 300
"""Distinct inputs of a short run; a long one draws new ones for ever, and fills the caches."""

_BYTES: Final = 256
"""Resident bytes that an operation may leave: less than any object that is kept by mistake."""

_RESIDENT_SLACK: Final = 128 << 20
"""What allocators may keep for later."""


class Usage(NamedTuple):
    """What a process has in use."""

    blocks: int
    resident: int
    threads: int
    descriptors: int


def measure() -> Usage:
    """What this process has in use now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Usage(
        sys.getallocatedblocks(),
        pages * os.sysconf("SC_PAGE_SIZE"),
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),  # noqa: PTH208  names are enough
    )


def run(budget: Budget) -> Report:
    """Repeat operations of every kind, and compare what is in use before and after."""
    report = Report("leaks")
    if not Path("/proc/self/statm").exists():
        report.notes.append("leaks are measured on Linux only")
        return report
    count = max(200, int(_OPERATIONS * budget.size))
    is_long = budget.size >= 1
    with TemporaryDirectory(prefix="attack-") as folder:
        for number, random in budget.start_rounds("leaks"):
            operations = _operations(Path(folder) / str(number), None if is_long else _POOL)
            for name, operate in operations.items():
                times = int(count * _SHARES.get(name, 1))
                wrong = _repeat(operate, times, random, _CACHES if is_long else _SLACK)
                report.tried[name] += times
                if wrong is not None:
                    report.failures.append(f"{name}: {wrong}")
            if report.is_done:
                break
    return report


def _repeat(
    operate: Callable[[Random], None], count: int, random: Random, slack: int
) -> str | None:
    """Operate after a warm-up; what grew by more than caches explain, or None."""
    for _ in range(max(2 * _POOL, count // 4)):
        operate(random)
    before = measure()
    for _ in range(count):
        operate(random)
    after = measure()
    if after.descriptors > before.descriptors:
        return f"{after.descriptors - before.descriptors} descriptors in {count} operations"
    # The background thread of a collection may be at work or not.
    if after.threads > before.threads + 1:
        return f"{after.threads - before.threads} threads in {count} operations"
    if after.blocks - before.blocks > slack + count // 4:
        return f"{after.blocks - before.blocks} blocks of memory in {count} operations"
    grown = after.resident - before.resident
    if grown > _RESIDENT_SLACK + count * _BYTES:
        return f"{grown:,} resident bytes in {count} operations"
    return None


def _operations(folder: Path, pool: int | None) -> dict[str, Callable[[Random], None]]:
    """The operations, by name; each leaves as many rules and documents as it found.

    Parameters
    ----------
    folder
        Where directories of rules are written.
    pool
        How many distinct numbers the operations draw from; None for any.
    """
    matcher = tamis.Matcher(documents=tamis.Retention(count=20))
    matcher.add_many([(f"r{n}", f"x = {n % 50} AND s LIKE '%{n % 7}%'") for n in range(2_000)])
    matcher.add("join", "x < ALL (SELECT d.x FROM seen d)")
    stored = tamis.open(folder, sync=False)
    stored.add_many([(n, f"x = {n}") for n in range(100)])
    copy = folder.with_name(f"{folder.name}-copy")
    stored.save(copy)

    def number(random: Random) -> float:
        return random.random() if pool is None else random.randrange(pool) / pool

    def event(random: Random) -> dict[str, object]:
        return {"x": random.randint(0, 60), "s": f"{number(random)}", f"k{number(random)}": 1}

    def match(random: Random) -> None:
        matcher.match(event(random))

    def match_many(random: Random) -> None:
        matcher.match_many([event(random) for _ in range(5)])

    def top_and_explain(random: Random) -> None:
        matcher.top(event(random), 3)
        matcher.explain("r1", event(random))

    def change(random: Random) -> None:
        matcher.add("new", f"x = {number(random)}", replace=True)
        matcher.remove("new")

    def change_stored(random: Random) -> None:
        stored.add("new", f"x = {number(random)}", replace=True)
        stored.remove("new")

    def publish(random: Random) -> None:
        matcher.publish({"x": random.randint(0, 60)})

    def refuse(random: Random) -> None:
        for bad in (f"x = {number(random)} AND", f"s RLIKE '({number(random)}'", "x ="):
            try:
                matcher.add("bad", bad)
            except tamis.RuleError:
                continue
            raise AssertionError(f"{bad!r} was taken")

    def open_and_close(random: Random) -> None:
        with tamis.open(copy, read_only=True) as opened:
            opened.match(event(random))

    return {
        "match": match,
        "match_many": match_many,
        "top and explain": top_and_explain,
        "add and remove": change,
        "stored add and remove": change_stored,
        "publish": publish,
        "refused rules": refuse,
        "open and close": open_and_close,
    }
