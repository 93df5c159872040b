"""Lacking memory: each allocation of an operation fails once, one after another.

Functions of NumPy and Arrow that allocate raise a MemoryError where Tamis calls them, and so do
functions that write, when they are called: a frame needs memory, too. The operation raises it
and takes effect as a whole or not at all; then everything that was there answers as before, the
operation can be repeated, and the directory opens again.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import tamis
from attack.campaign import Budget, Report
from attack.workload import Change, State, apply_change, draw_changes, read_state, small_files

__all__ = ["run"]

_ALLOCATING: Final = (
    (np, "empty zeros ones full arange array empty_like zeros_like full_like ascontiguousarray"),
    (np, "concatenate stack repeat append diff cumsum flatnonzero argsort lexsort unique where"),
    (np, "fromiter bincount union1d setdiff1d searchsorted packbits unpackbits"),
    (pa, "array table chunked_array concat_arrays concat_tables allocate_buffer py_buffer"),
)
"""Functions that allocate, as Tamis calls them."""

_WRITING: Final = tuple(
    f"tamis.{name}"
    for name in "matcher.write matcher.storage matcher.tail matcher.snapshot joins.document".split()
)
"""How the names of modules begin whose functions fail when they are called."""

_CHANGES: Final = 8
_ENGINES: Final = ("tiles", "scan", "shared")
_SECONDS: Final = 120
"""An operation that takes longer waits for a lock that is never released."""

EVENTS: Final = [{"x": n, "name": "nn" * n} for n in range(6)] + [{"x": [1, 3, 40]}, {}]


class FailingAllocations:
    """Makes one allocation fail, in whatever thread.

    Parameters
    ----------
    place
        Which one fails, from 0.
    """

    def __init__(self, place: int) -> None:
        self._left = place
        self._lock = threading.Lock()
        self.failed: str | None = None
        """Where it failed."""

    @contextmanager
    def inject(self) -> Iterator[None]:
        """Count, and fail, within this context."""
        with ExitStack() as stack:
            for module, names in _ALLOCATING:
                for name in names.split():
                    failing = self._wrap(getattr(module, name), name)
                    stack.enter_context(patch.object(module, name, failing))
            for owner, name in _functions():
                function = vars(owner)[name]
                failing = self._wrap(getattr(function, "__func__", function), name)
                kind = type(function) if hasattr(function, "__func__") else None
                stack.enter_context(patch.object(owner, name, kind(failing) if kind else failing))
            yield

    def _wrap(self, right: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(right)
        def allocate(*arguments: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            if caller.f_globals.get("__name__", "").startswith("tamis."):
                with self._lock:
                    self._left -= 1
                    fails = self._left == -1
                if fails:
                    code = caller.f_code
                    self.failed = f"{name} in {code.co_qualname} ({Path(code.co_filename).name})"
                    raise MemoryError(f"no room for {name}")
            return right(*arguments, **named)

        return allocate


@cache
def _functions() -> tuple[tuple[Any, str], ...]:
    """The functions and methods that write: where they stand, and under which name.

    Without those that Python calls by itself, except to make an object.
    """
    found: list[tuple[Any, str]] = []
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("tamis.")]
    for module in modules:
        for name, value in list(vars(module).items()):
            if not str(getattr(value, "__module__", None)).startswith(_WRITING):
                continue
            if isinstance(value, FunctionType):
                found.append((module, name))
            elif isinstance(value, type) and value.__module__ == module.__name__:
                found += [
                    (value, inner)
                    for inner, method in vars(value).items()
                    if isinstance(method, FunctionType | staticmethod | classmethod)
                    and (inner == "__init__" or not inner.startswith("__"))
                ]
    return tuple(found)


def run(budget: Budget) -> Report:
    """Fail every allocation of an operation, one operation after another."""
    report = Report("memory")
    share = min(1.0, budget.size)
    for number, random in budget.start_rounds("memory"):
        changes = list(draw_changes(random, max(3, int(_CHANGES * share))))
        engine = _ENGINES[number % len(_ENGINES)]
        with TemporaryDirectory(prefix="attack-") as folder, small_files():
            wrong = _Work(Path(folder), engine, random, share, report).do(changes)
        if wrong is not None:
            report.failures.append(f"round {number}, {engine}: {wrong}")
        if report.is_done:
            break
    return report


class _Work:
    """Changes and questions on one directory."""

    def __init__(
        self, folder: Path, engine: str, random: Random, share: float, report: Report
    ) -> None:
        self._folder, self._random, self._share, self._report = folder, random, share, report
        self._index = folder / "index"
        self._matcher = tamis.open(self._index, engine=engine, sync=False)
        # Kernels are compiled and modules are imported before anything fails.
        with tamis.Matcher(engine) as other:
            other.add_many([(n, f"x = {n} AND name <> 'n'") for n in range(40)])
            for ask in _QUESTIONS.values():
                ask(other)
        self._state = State()

    def do(self, changes: list[tuple[Change, State]]) -> str | None:
        """Make the changes, with questions and merges between them; what is wrong, or None."""
        for number, (change, after) in enumerate(changes):
            wrong = self._change(change, after, number) or self._ask()
            if wrong is None and number % 4 == 3:
                wrong = self._try("optimize", lambda: self._matcher.optimize(EVENTS), self._state)
            if wrong is not None:
                return wrong
        self._matcher.close()
        return self._compare_copy([self._state])

    def _change(self, change: Change, after: State, number: int) -> str | None:
        return self._try(change[0], lambda: apply_change(self._matcher, change, number), after)

    def _ask(self) -> str | None:
        expected = {
            n: [id for id, text in self._state.rules if tamis.evaluate(text, event)]
            for n, event in enumerate(EVENTS)
        }
        name = self._random.choice(list(_QUESTIONS))
        ask = _QUESTIONS[name]
        wrong: list[str] = []

        def check() -> None:
            answer = ask(self._matcher)
            if {n: sorted(ids) for n, ids in answer.items()} != {
                n: sorted(ids) for n, ids in expected.items() if n in answer
            }:
                wrong.append(f"{name}: {answer}, not {expected}")

        return self._try(name, check, self._state) or (wrong[0] if wrong else None)

    def _try(self, name: str, run: Callable[[], Any], after: State) -> str | None:
        """Run an operation until no allocation fails in it, each time failing a later one."""
        place = 0
        while True:
            failing = FailingAllocations(place)
            with failing.inject():
                error = _run_in_time(run)
            if error is None and failing.failed is None:
                break
            self._report.tried[f"failed in {name}"] += 1
            at = f"{name}, with no room for {failing.failed}"
            if error is not None and not isinstance(error, MemoryError | tamis.TamisError):
                return f"{at}: {type(error).__name__}: {error}"
            wrong = self._look(after, must_be_new=error is None)
            if wrong is not None:
                return f"{at}: {wrong}"
            if self._state == after and name in ("add", "remove", "replace_all", "publish"):
                return None
            # All of them in a full round; a smoke leaves out most.
            place += 1 if self._share == 1.0 else self._random.randint(1, int(2 / self._share))
        wrong = self._look(after, must_be_new=True)
        return None if wrong is None else f"{name}: {wrong}"

    def _look(self, after: State, must_be_new: bool) -> str | None:
        """Compare the matcher and a copy of its directory with what may be there."""
        found: list[State] = []
        error = _run_in_time(lambda: found.append(read_state(self._matcher)))
        if error is not None:
            return f"then the matcher is no longer right: {type(error).__name__}: {error}"
        if found[0] not in ((after,) if must_be_new else (self._state, after)):
            return "then neither the state before nor the one after is there"
        self._state = found[0]
        choice = self._random.random()
        if choice < 0.05:
            return self._reopen()
        if choice < 0.2:
            return self._make_other_change()
        # A record that was appended before the failure stays until the next change drops it.
        return self._compare_copy([found[0], after]) if choice < 0.3 else None

    def _reopen(self) -> str | None:
        self._matcher.close()
        self._matcher = tamis.open(self._index, sync=False)
        same = read_state(self._matcher) == self._state
        return None if same else "then close and open change what is there"

    def _make_other_change(self) -> str | None:
        self._matcher.add("other", "x = 0")
        wrong = self._compare_copy([read_state(self._matcher)])
        self._matcher.remove("other")
        return f"after another change, {wrong}" if wrong else None

    def _compare_copy(self, possible: list[State]) -> str | None:
        """Open a copy of the directory, as after a kill, and compare."""
        copy = self._folder / "copy"
        shutil.copytree(self._index, copy)
        try:
            with tamis.open(copy, read_only=True, verify=True) as matcher:
                found = read_state(matcher)
        except tamis.TamisError as error:
            return f"the directory does not open: {error}"
        finally:
            shutil.rmtree(copy)
        return None if found in possible else "the directory holds something else"


def _run_in_time(run: Callable[[], Any]) -> BaseException | None:
    """What an operation raises; it must end, so a lock that is still held is found."""
    raised: list[BaseException] = []

    def target() -> None:
        try:
            run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    if thread.is_alive():
        return TimeoutError(f"it has not ended in {_SECONDS} s, so a lock is held")
    return raised[0] if raised else None


# --- Questions ---


def _group(found: pa.Table) -> dict[int, list[Any]]:
    answer: dict[int, list[Any]] = {n: [] for n in range(len(EVENTS))}
    for n, id in zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True):
        answer[n].append(id)
    return answer


def _table() -> pa.Table:
    return pa.table({"x": pa.array([e.get("x") for e in EVENTS[:6]], pa.int64())})


_QUESTIONS: Final[Mapping[str, Callable[[tamis.Matcher], dict[int, list[Any]]]]] = {
    "match": lambda m: {n: m.match(event) for n, event in enumerate(EVENTS)},
    "match_array": lambda m: {n: m.match_array(e).tolist() for n, e in enumerate(EVENTS)},
    "match_many": lambda m: _group(m.match_many(EVENTS)),
    "top_many": lambda m: _group(m.top_many(EVENTS, 1_000)),
    "top": lambda m: {n: [id for id, _ in m.top(e, 1_000)] for n, e in enumerate(EVENTS)},
}
"""Ways to ask for the rules of each event."""
