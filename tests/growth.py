"""Counts the steps of a computation, to see how they grow with its input.

A step is a call of a function, of Python or of C: unlike a time, a count is the same on every run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

__all__ = ["MOST_STEPS", "TooManyStepsError", "check_growth", "count_steps"]

MOST_STEPS: Final = 3_000_000
"""What grows as it should needs far fewer for the inputs of tests."""

_FACTOR: Final = 5
"""Twice the input may take this many times the steps: four times if each pair of parts costs
something, and a little more for what is only done with larger inputs."""


class TooManyStepsError(Exception):
    """The computation was stopped."""


def count_steps(function: Callable[[], Any], most: int = MOST_STEPS) -> int:
    """How many steps a function takes; what it raises counts as an answer.

    Raises
    ------
    TooManyStepsError
        It takes more than `most`.
    """
    steps = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal steps
        if event.endswith("call"):
            steps += 1
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
    return steps


def check_growth(run: Callable[[int], Any], size: int) -> tuple[int, int]:
    """Check that twice the input takes at most five times the steps; returns both counts.

    `run` prepares an input of a size, and returns what is measured.
    """
    run(1)()  # What happens once, such as imports, is not counted.
    single, double = (count_steps(run(times * size)) for times in (1, 2))
    assert double <= _FACTOR * max(single, 1_000), (single, double)
    return single, double
