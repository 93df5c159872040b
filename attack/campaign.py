"""What all parts of the attack share: a budget, a seed, and a report of what was tried."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from attack.case import CASES, Case, save_case, shrink

__all__ = ["Budget", "Report"]

_MOST_FAILURES = 5
"""A part stops after so many: they most often have one cause."""


@dataclass
class Report:
    """What a part has tried, and what failed."""

    part: str
    tried: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a reader has to know, such as a missing package."""

    @property
    def is_done(self) -> bool:
        """Whether there were so many failures that more would say nothing new."""
        return len(self.failures) >= _MOST_FAILURES

    def add_case(self, case: Case, message: str, fails: Callable[[Case], bool], to: Path) -> None:
        """Reduce a failing case, write it to a file, and report it."""
        small = shrink(case, fails)
        path = save_case(small, message, to)
        self.failures.append(f"{message}\n    as a case: {path}")


@dataclass(frozen=True)
class Budget:
    """How much a part may try.

    Attributes
    ----------
    seed
        The same seed gives the same rounds in the same order.
    seconds
        When to stop, measured from the first round.
    rounds
        The most rounds, for short runs that must be the same on every machine.
    size
        The size of a round: 1 is the usual one.
    cases
        Where failing cases are written.
    """

    seed: int
    seconds: float = 1e9
    rounds: int | None = None
    size: float = 1.0
    cases: Path = CASES

    def start_rounds(self, name: str) -> Iterator[tuple[int, Random]]:
        """The number of each round and its random numbers, as long as the budget lasts."""
        end = time.monotonic() + self.seconds
        for number in count():
            if number == self.rounds or (number and time.monotonic() > end):
                return
            yield number, Random(f"{self.seed}/{name}/{number}")
