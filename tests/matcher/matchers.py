"""Matchers for tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tamis import Matcher, Op, Predicate

A = Predicate("a", Op.EQ, (1,))
MANY = 200
"""More rules of a batch than the tail takes, so that they become a segment."""


def settle(matcher: Matcher) -> None:
    """Do all the work that the background thread would do in time."""
    while matcher._writer.compact(quiet=True):
        pass


def copy_as_killed(matcher: Matcher, folder: Path, copy: Path) -> None:
    """Make `copy` what a kill of this process would leave of a matcher's directory.

    The background thread ends first: a checkpoint would change files while they are copied.
    """
    matcher._writer._worker.stop()
    shutil.copytree(folder, copy)


def filled(count: int = MANY, **options: Any) -> Matcher:
    """A matcher with `count` rules, numbered from 0, that match ``z = 1``."""
    matcher = Matcher(**options)
    matcher.add_many([(number, "z = 1") for number in range(count)])
    return matcher


SIZES = pytest.mark.parametrize("size", [0, 10, MANY])
"""How many rules there are before: none, all in the tail, all in a segment."""
