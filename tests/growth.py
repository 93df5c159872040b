"""Counts the steps of a computation, to see how they grow with its input.

A step is a call of a function, of Python or of C: unlike a time, a count is the same on every run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple

from tamis.deadline import check_time

__all__ = ["MOST_STEPS", "Steps", "TooManyStepsError", "check_growth", "count_steps"]

MOST_STEPS: Final = 10_000_000
"""What grows as it should needs far fewer for the inputs of tests."""

_FACTOR: Final = 5
"""Twice the input may take this many times the steps: four times if each pair of parts costs
something, and a little more for what is only done with larger inputs."""


class TooManyStepsError(Exception):
    """The computation was stopped."""


class Steps(NamedTuple):
    """What a computation takes."""

    all: int
    longest: int
    """The most steps between two looks at the clock: how long it goes on when it is given up."""


def count_steps(function: Callable[[], Any], most: int = MOST_STEPS) -> Steps:
    """Count the steps of a function; what it raises counts as an answer.

    Raises
    ------
    TooManyStepsError
        It takes more than `most`.
    """
    steps = longest = last = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal steps, longest, last
        if event.endswith("call"):
            steps += 1
            if event == "call" and frame.f_code is check_time.__code__:
                longest, last = max(longest, steps - last), steps
            if steps > most:
                raise TooManyStepsError

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    except Exception:  # a refusal is an answer
        pass
    finally:
        sys.setprofile(before)
    if steps > most:
        raise TooManyStepsError
    return Steps(steps, max(longest, steps - last))


def check_growth(run: Callable[[int], Any], size: int) -> Steps:
    """Check that twice the input takes at most five times the steps, and return these.

    `run` prepares an input of a size, and returns what is measured.
    """
    count_steps(run(1))  # What happens once, such as imports, is not counted.
    single, double = (count_steps(run(times * size)) for times in (1, 2))
    assert double.all <= _FACTOR * max(single.all, 1_000), (single, double)
    return double
