"""A child that is forked while other threads work can match, and never hangs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import tamis
from tamis import Matcher

SCRIPT = Path(__file__).with_name("forked_children.py")
CHILDREN = int(os.environ.get("TAMIS_FORKS", "30"))


@pytest.mark.slow
def test_children_forked_under_load(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "index"), str(CHILDREN)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{CHILDREN} children, 0 failed")


_shared: Matcher | None = None


def match_shared(number: int) -> tuple[list[str | int], int]:
    assert _shared is not None
    events = [{"x": n % 50} for n in range(2_000)]
    return _shared.match({"x": number}), len(_shared.match_many(events))


def test_a_pool_of_forked_processes_uses_a_matcher_with_threads() -> None:
    """The threads that `match_many` uses are not in the children."""
    global _shared
    _shared = Matcher()
    _shared.add_many([(n, f"x = {n}") for n in range(50)])
    expected = [match_shared(number) for number in range(8)]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(match_shared, range(8), timeout=120)) == expected


def match_stored(path: str) -> list[object]:
    with tamis.open(path, read_only=True) as matcher:
        return list(matcher.match({"x": 1}))


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_other_processes_open_what_is_stored(tmp_path: Path, method: str) -> None:
    with tamis.open(tmp_path / "index") as matcher:
        matcher.add_many([(n, "x = 1") for n in range(30)])
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            found = pool.submit(match_stored, str(tmp_path / "index")).result(120)
        assert found == list(range(30))
