"""Threads, forks and signals: what concurrent callers see has to fit into one order.

Several threads add, remove, replace and match while a signal handler raises in one of them and
children are forked. Every history is checked for linearizability. A child has to answer, from one
of the states that there were, within a time that no correct child needs.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

import tamis
from attack.campaign import Budget, Report
from attack.histories import NEVER, Kind, Operation, find_contradiction

__all__ = ["run"]

_THREADS: Final = 3
_OPERATIONS: Final = 6
"""Operations of each thread in a history; longer ones take long to check."""
_IDS: Final = ("a", "b", "c")
_PATIENCE: Final = 60.0
"""Seconds after which a child counts as hanging."""


class Interruption(Exception):
    """What the signal handler raises."""


class Clients:
    """Threads that use one matcher, and the history of what they did."""

    def __init__(self, matcher: tamis.Matcher) -> None:
        self.matcher = matcher
        self.history: list[Operation] = []
        self.errors: list[str] = []
        self._moments = count()

    def work(self, random: Random) -> None:
        """Make random calls, and write each down."""
        for _ in range(_OPERATIONS):
            kind: Kind = random.choice(("add", "replace", "remove", "match", "match"))
            size = random.choice((1, 1, 2))
            ids = frozenset(random.sample(_IDS, size))
            self._call(kind, ids, random.random() < 0.5)

    def _call(self, kind: Kind, ids: frozenset[str], many: bool) -> None:
        called = next(self._moments)
        succeeded: bool | None = True
        try:
            if kind == "match":
                ids = frozenset(self._match(many))
            elif kind == "remove":
                self.matcher.remove_many(sorted(ids))
            else:
                rules = [(id, "x = 1") for id in sorted(ids)]
                self.matcher.add_many(rules, replace=kind == "replace")
        except (tamis.DuplicateRuleError, tamis.UnknownRuleError):
            succeeded = False
        except Interruption:
            succeeded = None
        except Exception as error:
            self.errors.append(f"{kind}: {type(error).__name__}: {error}")
            return
        returned = next(self._moments) if succeeded is not None else NEVER
        if kind != "match" or succeeded is not None:
            self.history.append(Operation(kind, ids, succeeded, called, returned))

    def _match(self, many: bool) -> list[Any]:
        if many:
            return list(self.matcher.match_many([{"x": 1}])["rule"].to_pylist())
        return self.matcher.match({"x": 1})


def run(budget: Budget) -> Report:
    """Run short histories in memory and in a directory, with and without signals and forks."""
    report = Report("threads")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number, random in budget.start_rounds("threads"):
            _run_round(number, random, report)
            if report.is_done:
                break
    finally:
        sys.setswitchinterval(before)
    return report


def _run_round(number: int, random: Random, report: Report) -> None:
    """A round: a history in one of the settings, which take turns."""
    with_signals, with_forks = number % 3 == 1, number % 8 == 2
    with TemporaryDirectory(prefix="attack-") as folder:
        stored = number % 2 == 0
        matcher = tamis.open(Path(folder) / "index", sync=False) if stored else tamis.Matcher()
        clients = Clients(matcher)
        # Rules that never match, so that there are segments to merge.
        if random.random() < 0.5:
            matcher.add_many([(n, f"y = {n}") for n in range(random.choice((5, 100)))])
        randoms = [Random(random.random()) for _ in range(_THREADS)]
        threads = [threading.Thread(target=clients.work, args=[r]) for r in randoms[1:]]
        for thread in threads:
            thread.start()
        wrong_children: list[str | None] = []
        with _signals(with_signals), suppress(Interruption):
            clients.work(randoms[0])
        if with_forks:
            wrong_children = [_ask_child(matcher) for _ in range(2)]
            report.tried["children forked"] += 2
        for thread in threads:
            thread.join()
        clients._call("match", frozenset(), False)
        matcher.close()
    report.tried["histories"] += 1
    report.tried["operations"] += len(clients.history)
    report.tried["interrupted operations"] += sum(o.succeeded is None for o in clients.history)
    wrong = find_contradiction(clients.history)
    listed = "\n    ".join(map(str, sorted(clients.history, key=lambda o: o.called)))
    if wrong is not None:
        report.failures.append(f"round {number}: {wrong}\n    {listed}")
    for answer in filter(None, wrong_children):
        report.failures.append(f"round {number}: a forked child gave {answer}")
    report.failures.extend(f"round {number}: {error}" for error in clients.errors)


@contextmanager
def _signals(wanted: bool) -> Iterator[None]:
    """Raise in the main thread now and then."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, frame: FrameType | None) -> None:
        # Only inside Tamis: elsewhere the exception would end the recording of the history.
        place = frame
        while place is not None:
            if place.f_code.co_name == "_call":
                if "tamis" in str(frame and frame.f_code.co_filename):
                    raise Interruption
                return
            place = place.f_back

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.003)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ask_child(matcher: tamis.Matcher) -> str | None:
    """Fork a child that matches; what is wrong with its answer, or None."""
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        # Forking while threads run is what is tried here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            # A child that hangs sends its stack.
            faulthandler.dump_traceback_later(_PATIENCE, file=writable)
            found = matcher.match({"x": 1})
            os.write(writable, " ".join(map(str, found)).encode() or b"-")
            status = 0
        except BaseException as error:
            os.write(writable, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(status)
    os.close(writable)
    has_answered = bool(select.select([readable], [], [], 2 * _PATIENCE)[0])
    answer = os.read(readable, 10_000).decode() if has_answered else "no answer"
    os.close(readable)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None if {*answer.split()} <= {*_IDS, "-"} else answer
