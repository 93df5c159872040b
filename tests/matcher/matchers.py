"""Matchers for tests."""

from __future__ import annotations

from typing import Any

import pytest

from tamis import Matcher, Op, Predicate

A = Predicate("a", Op.EQ, (1,))
MANY = 200
"""More rules than wait in the tail, so that they lie in a segment."""


def settle(matcher: Matcher) -> None:
    """Do all that the tidying thread would do in time."""
    while matcher._writer.compact(quiet=True):
        pass


def filled(count: int = MANY, **options: Any) -> Matcher:
    """A matcher that holds `count` rules of its own, numbered from 0, which match ``z = 1``."""
    matcher = Matcher(**options)
    matcher.add_many([(number, "z = 1") for number in range(count)])
    return matcher


SIZES = pytest.mark.parametrize("size", [0, 10, MANY])
"""Nothing before, all in the tail, and all in a segment."""
