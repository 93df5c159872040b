"""Evaluates many rules one by one, in several processes.

Each process runs this module as a script. It receives its rules once and then batches of events,
all of them pickled, and answers each batch with the rules that hold. :mod:`multiprocessing` is not
an option: its processes would run the caller's script again.
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

__all__ = ["EvaluatorPool", "Holding"]

Holding: TypeAlias = set[tuple[int, int]]
"""Pairs of event number and rule number: the rule holds for the event."""


class EvaluatorPool:
    """Processes that each evaluate a share of the rules.

    Parameters
    ----------
    rules
        Rules and their logics.
    processes
        How many processes to start; with 0, rules are evaluated in this process.
    """

    def __init__(self, rules: Sequence[tuple[Expr, Logic]], processes: int) -> None:
        self._rules = rules
        self._shares = [range(i, len(rules), processes) for i in range(min(processes, len(rules)))]
        self._processes = [_start_process() for _ in self._shares]
        for process, share in zip(self._processes, self._shares, strict=True):
            _send(process, [rules[number] for number in share])

    def submit(self, events: Sequence[FlatEvent]) -> None:
        """Begin to evaluate all rules for these events; :meth:`collect` gives the result."""
        self._events = events
        for process in self._processes:
            _send(process, events)

    def collect(self) -> Holding:
        """Wait for the result of the last :meth:`submit`."""
        if not self._shares:
            return _evaluate(self._rules, self._events)
        return {
            (event, share[rule])
            for process, share in zip(self._processes, self._shares, strict=True)
            for event, rule in _receive(process)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def _evaluate(rules: Sequence[tuple[Expr, Logic]], events: Sequence[FlatEvent]) -> Holding:
    return {
        (event_number, rule_number)
        for event_number, event in enumerate(events)
        for rule_number, (expr, logic) in enumerate(rules)
        if evaluate_flat(expr, event, logic)
    }


def _start_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _send(process: subprocess.Popen[bytes], item: Any) -> None:
    assert process.stdin is not None
    pickle.dump(item, process.stdin)
    process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> Holding:
    assert process.stdout is not None
    holding: Holding = pickle.load(process.stdout)
    return holding


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Read rules, then answer batches of events until the requests end."""
    rules = pickle.load(requests)
    while True:
        try:
            events = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_evaluate(rules, events), answers)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
