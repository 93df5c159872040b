"""Rules evaluated one by one, in as many processes as there are cores.

A process is this module, run: it is sent rules, then events again and again, all of them pickled,
and answers each time which rules hold. No process of :mod:`multiprocessing` would do, as those run
the caller's script once more.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any, Self, TypeAlias

from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent
from tamis.expr.model import Expr, Logic

__all__ = ["Evaluators", "Holding"]

Holding: TypeAlias = set[tuple[int, int]]
"""Pairs of the numbers of an event and of a rule that holds on it."""


class Evaluators:
    """Processes that have a share of some rules each.

    Parameters
    ----------
    rules
        Rules and their logics.
    processes
        How many processes; with none, all is done here.
    """

    def __init__(self, rules: Sequence[tuple[Expr, Logic]], processes: int) -> None:
        self._rules = rules
        self._shares = [range(i, len(rules), processes) for i in range(min(processes, len(rules)))]
        self._processes = [_started() for _ in self._shares]
        for process, share in zip(self._processes, self._shares, strict=True):
            _send(process, [rules[number] for number in share])

    def begin(self, events: Sequence[FlatEvent]) -> None:
        """Have events looked at, of which :meth:`end` tells what holds."""
        self._events = events
        for process in self._processes:
            _send(process, events)

    def end(self) -> Holding:
        """What holds on the events of the last :meth:`begin`."""
        if not self._shares:
            return _holding(self._rules, self._events)
        return {
            (event, share[rule])
            for process, share in zip(self._processes, self._shares, strict=True)
            for event, rule in _received(process)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def _holding(rules: Sequence[tuple[Expr, Logic]], events: Sequence[FlatEvent]) -> Holding:
    return {
        (number, place)
        for number, event in enumerate(events)
        for place, (expr, logic) in enumerate(rules)
        if evaluate_flat(expr, event, logic)
    }


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _send(process: subprocess.Popen[bytes], item: Any) -> None:
    assert process.stdin is not None
    pickle.dump(item, process.stdin)
    process.stdin.flush()


def _received(process: subprocess.Popen[bytes]) -> Holding:
    assert process.stdout is not None
    found: Holding = pickle.load(process.stdout)
    return found


def _serve(asked: IO[bytes], answered: IO[bytes]) -> None:
    """What a process does until nobody asks any more."""
    rules = pickle.load(asked)
    while True:
        try:
            events = pickle.load(asked)
        except EOFError:
            return
        pickle.dump(_holding(rules, events), answered)
        answered.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
