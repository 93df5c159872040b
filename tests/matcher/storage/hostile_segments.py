"""Segments whose checksums are right and whose arrays are hostile; run by `test_hostile_files.py`.

Each case changes one array of a stored segment and forks a process that opens the directory and
asks for everything. It must end with answers or a `TamisError`; a crash or another exception is
printed. This process itself starts no threads, so that it may fork.

Usage: python hostile_segments.py FOLDER CASES_PER_ARRAY SEED
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tamis
from tamis import Matcher, TamisError
from tamis.matcher.selection import tagged
from tamis.matcher.storage.array_file import map_sections, write_sections
from tamis.workloads.begen import Workload

PLAIN, MIXED, SCANNED = "plain", "mixed", "scanned"
SECONDS = 20
"""How long one case may take."""

MIXED_RULES = (
    "x = {n} AND y <> 5",
    "x IN (1, 2, {n}, 77) AND s = 'v{n}'",
    "s LIKE '%b{n}%' OR s RLIKE '^z{n}'",
    "y BETWEEN {n} AND 300 AND s NOT IN ('v1', 'v2')",
    "t >= TIMESTAMP '2023-05-05 10:00:00' AND x > {n}",
    "other IS NULL AND x < {n}",
    "TRUE",
    "x = 1 AND y = 2",
    " AND ".join(f"(x = {i} OR y > {{n}} OR s = 'n{i}')" for i in range(12)),
    "s IN ('a', 'é', 'v{n}') OR y = 9007199254740993",
)


def build(kind: str) -> Matcher:
    """A matcher with one segment."""
    matcher = Matcher("scan" if kind == SCANNED else "tiles")
    if kind == PLAIN:
        matcher.add_many(Workload(size=3_000, seed=7).rules_table())
        # More than a narrow tile has room for, under one key.
        matcher.add_many([(f"wide {n}", f"a = 1 AND b > {n} AND c <> {n % 9}") for n in range(400)])
    else:
        for number in range(600):
            text = MIXED_RULES[number % len(MIXED_RULES)].format(n=number)
            matcher.add(
                number if number % 2 else f"r{number}é",
                text,
                weights={("x", 1): 2.5} if number % 10 == 7 else None,
                payload={"n": number} if number % 5 == 0 else None,
                tags=["even"] if number % 2 == 0 else (),
                priority=number % 3,
                valid_from="2020-01-01" if number % 7 == 0 else None,
            )
    matcher.optimize()
    return matcher


def events_of(kind: str) -> list[dict[str, Any]]:
    if kind == PLAIN:
        wide = [{"a": 1, "b": n, "c": n % 10} for n in range(0, 500, 50)]
        several = [{"a": [1, 2], "b": [n, 3], "c": [1, 2]} for n in range(0, 500, 100)]
        return [*Workload(size=3_000, seed=7).events(80), *wide, *several]
    values = [1, 2, 7, 77, 300, 599]
    plain = [{"x": n, "y": 2 * n, "s": f"v{n}"} for n in values]
    return [
        *({"x": [n, 1], "y": [n, 2], "s": ["zb8b", f"v{n}"]} for n in values),
        *plain,
        {"t": "2024-01-01T00:00:00Z", "x": 500, "s": "b2b12b22"},
        {},
    ] * 6


def ask(folder: Path, kind: str) -> None:
    """Open a directory, and use all of it."""
    events = events_of(kind)
    with tamis.open(folder) as matcher:
        ids = list(matcher)
        for event in events[:40]:
            matcher.match(event)
            matcher.top(event, 5)
            matcher.first(event, 3)
            matcher.match(event, only=tagged("even"))
        matcher.match_many(events)
        matcher.count_many(events)
        matcher.top_many(events, 3)
        matcher.match_expression("x IN (1, 2) AND y > 3 AND a = 1")
        for id in ids[::7]:
            matcher.rule(id)
        matcher.remove_many(ids[::5])
        matcher.add_many([(f"new {n}", f"x = {n}") for n in range(50)], replace=True)
        matcher.optimize()
        matcher.match_many(events)
        matcher.count_many(events)


def corrupt(array: NDArray[Any], random: Random) -> Iterator[NDArray[Any]]:
    """Arrays in the place of this one."""
    flat = array.reshape(-1)
    info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    extremes: list[Any] = [np.nan, np.inf, -1.0, 0.0]
    if info:
        sizes = [0, 1, len(flat), 2 * len(flat) + 1]
        extremes = [info.max, info.min, info.max // 2, *(n for n in sizes if n <= info.max)]
    yield array[: len(array) // 2] if array.ndim else array
    yield np.concatenate([array, array])
    yield array[:0]
    yield array.astype(np.float32 if array.dtype != np.float32 else np.int16)
    yield np.full_like(array, extremes[0])
    yield array[::-1].copy()
    while True:
        changed = flat.copy()
        if len(changed):
            for _ in range(random.choice([1, 1, 1, 5])):
                at = random.randrange(len(changed))
                way = random.randrange(4)
                if way == 0:
                    changed[at] = random.choice(extremes)
                elif way == 1:
                    changed[at] = changed[random.randrange(len(changed))]
                elif way == 2 and info:
                    changed[at] ^= array.dtype.type(1 << random.randrange(info.bits - 1))
                else:
                    with np.errstate(over="ignore"):
                        changed[at] += array.dtype.type(1)
        yield changed.reshape(array.shape)


def outcome_of(folder: Path, kind: str, log: Path) -> str:
    """What a forked process makes of a directory."""
    pid = os.fork()
    if pid == 0:
        with log.open("w") as file, redirect_stderr(file):
            try:
                signal.alarm(SECONDS)
                ask(folder, kind)
                code = 0
            except TamisError:
                code = 1
            except BaseException:
                traceback.print_exc()
                code = 2
            file.flush()
        os._exit(code)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return {0: "answers", 1: "refused"}.get(os.WEXITSTATUS(status), "raw error")


def main(folder: Path, each: int, seed: int) -> int:
    tamis.set_threads(1)
    random, failures, counts = Random(seed), 0, Counter[str]()
    for kind in (PLAIN, MIXED, SCANNED):
        good = folder / kind
        build(kind).save(good)
        # Kernels are loaded here, so that the forked processes need not.
        ask(Path(shutil.copytree(good, folder / "first")), kind)
        shutil.rmtree(folder / "first")
        name = next(file.name for file in good.glob("segment-*"))
        sections = map_sections(good / name, "segment")
        for changed in sections.arrays:
            cases = corrupt(np.atleast_1d(sections.arrays[changed]), random)
            for number in range(each):
                case = Path(shutil.copytree(good, folder / "case"))
                arrays = {**sections.arrays, changed: next(cases)}
                write_sections(case / name, "segment", sections.about, arrays)
                outcome = outcome_of(case, kind, folder / "log")
                counts[outcome] += 1
                if outcome not in ("answers", "refused"):
                    failures += 1
                    last = (folder / "log").read_text().strip().splitlines()[-6:]
                    print(f"{kind} {changed} {number}: {outcome}", *last, sep="\n    ")  # noqa: T201  a script
                shutil.rmtree(case)
    print(dict(counts))  # noqa: T201  a script
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
