"""Compile the kernels of engines ahead of time.

Matching a small set of rules of every kind in every way calls all kernels of an engine. Here a call
waits until its kernel is compiled; see `tamis.encode.compiler.background`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
from numba.core import event

from tamis.encode.compiler.background import compile_in_place
from tamis.encode.json import warm_up as json_kernels
from tamis.encode.plain import warm_up as plain_kernels
from tamis.engines.registry import load_engine
from tamis.matcher.matcher import Matcher
from tamis.matcher.open import open_matcher
from tamis.matcher.rule import Rule
from tamis.matcher.selection import tagged
from tamis.matcher.tail import warm_up

__all__ = ["WarmupProgress", "warmup"]

_RULES = {
    "all": "TRUE",
    "equal": "size = 1 AND name = 'a'",
    "list": "size IN (1, 2, 3) AND name IN ('a', 'b')",
    "range": "price > 10 AND price <= 30.5 AND name BETWEEN 'a' AND 'c'",
    "negated": "name <> 'z' AND size NOT IN (7, 8)",
    "absent": "other IS NULL AND name IS NOT NULL",
    "text": "name LIKE 'a%' OR name ILIKE '%B' OR name RLIKE '^[ab]'",
    "kinds": "flag = TRUE AND seen >= DATE '2020-01-01' AND (stock > 3 OR page > 1)",
    "nested": " AND ".join(f"(size = {i} OR price > {i} OR name = 'n{i}')" for i in range(12)),
}
"""The last rule has too many conjunctions for a DNF, so it is encoded as a program."""

_WEIGHTED = "name = 'a' OR price > 5"

_EVENT: dict[str, Any] = {"size": [1, 2], "name": "a", "price": 12.5, "flag": True}

_EXPRESSION = "size IN (1, 2) AND name = 'a' AND price BETWEEN 10 AND 20"


class WarmupProgress(NamedTuple):
    """How far `warmup` is."""

    step: str
    """What it compiles kernels for."""
    number: int
    """The number of that step; the first is 1."""
    steps: int
    """How many steps there are. Those whose kernels are on disk take no time."""
    kernel: str | None
    """The kernel that was just compiled; None at the beginning of a step."""
    compiled: int
    """How many kernels were compiled so far."""


class _Step(NamedTuple):
    engine: str
    """The engine that the time counts for; the first one for what all of them share."""
    title: str
    run: Callable[[], Any]


def warmup(
    engines: Iterable[str] = ("auto",), report: Callable[[WarmupProgress], None] | None = None
) -> dict[str, float]:
    """Compile and cache the kernels of engines.

    Parameters
    ----------
    engines
        The names of the engines; see :func:`tamis.engines`.
    report
        Called at the beginning of each step, and after each kernel that was compiled. A kernel that
        is on disk already is not compiled.

    Returns
    -------
    dict of str to float
        The seconds that each engine took. Those of the first one include all shared kernels.
    """
    names = list(dict.fromkeys(load_engine(engine).name for engine in engines))
    seconds = dict.fromkeys(names, 0.0)
    steps = _list_steps(names) if names else []
    listener = _Listener(report, len(steps))
    with compile_in_place(), event.install_listener("numba:compile", listener):
        for step in steps:
            listener.begin(step.title)
            started = time.perf_counter()
            step.run()
            seconds[step.engine] += time.perf_counter() - started
    return seconds


class _Listener(event.Listener):  # type: ignore[misc]  # Numba's classes are untyped
    """Reports the steps, and the kernels that Numba compiles."""

    def __init__(self, report: Callable[[WarmupProgress], None] | None, steps: int) -> None:
        self._report = report
        self._progress = WarmupProgress("", 0, steps, None, 0)

    def begin(self, step: str) -> None:
        """Report the next step."""
        number = self._progress.number + 1
        self._tell(self._progress._replace(step=step, number=number, kernel=None))

    def on_start(self, event: Any) -> None:
        """Do nothing: a kernel that begins to be compiled first compiles those that it calls."""

    def on_end(self, event: Any) -> None:
        """Report a kernel."""
        name = event.data["dispatcher"].py_func.__name__.lstrip("_")
        compiled = self._progress.compiled + 1
        self._tell(self._progress._replace(kernel=name, compiled=compiled))

    def _tell(self, progress: WarmupProgress) -> None:
        self._progress = progress
        if self._report is not None:
            self._report(progress)


def _list_steps(engines: list[str]) -> list[_Step]:
    """All calls that need kernels: those that engines share, then those of each engine."""
    steps = [
        _Step(engines[0], "finding new rules", warm_up),
        _Step(engines[0], "reading rules", plain_kernels.is_compiled),
        _Step(engines[0], "reading JSON", json_kernels.is_compiled),
    ]
    for engine in engines:
        for variant in (engine, *(other.name for other in load_engine(engine).variants)):
            calls = _EngineCalls(variant)
            steps += [
                _Step(engine, f"{variant}: building", calls.build),
                _Step(engine, f"{variant}: matching", calls.match),
                _Step(engine, f"{variant}: merging", calls.merge),
                _Step(engine, f"{variant}: storing", calls.store),
                _Step(engine, f"{variant}: counting", calls.count),
            ]
    return steps


class _EngineCalls:
    """Calls the kernels of one engine, step by step."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._matcher: Matcher | None = None

    @property
    def _built(self) -> Matcher:
        assert self._matcher is not None, "the first step builds it"
        return self._matcher

    def build(self) -> None:
        self._matcher = _build_matcher(self._engine)

    def match(self) -> None:
        _match_in_every_way(self._built)

    def merge(self) -> None:
        """Merging builds a segment's arrays in another way than adding, so match again."""
        self._built.add_many([(number, _RULES["text"]) for number in range(20)])
        self._built.remove("list-3")
        self._built.optimize()
        _match_in_every_way(self._built)

    def store(self) -> None:
        _read_from_disk(self._built)
        self._built.close()

    def count(self) -> None:
        _count_plain_rules(self._engine)


def _read_from_disk(matcher: Matcher) -> None:
    """Read stored rules, which checks them."""
    with TemporaryDirectory() as folder:
        matcher.save(f"{folder}/rules")
        open_matcher(f"{folder}/rules", read_only=True).close()


def _count_plain_rules(engine: str) -> None:
    """Count and rank matches with plain conjunctions; engines may have kernels for them.

    What plain conjunctions leave out is written when other rules are merged with them.
    """
    matcher = Matcher(engine)
    matcher.add_many([(i, f"size = {i % 7} AND price > {i}") for i in range(100)])
    matcher.count_many([{"size": i % 7, "price": i} for i in range(100)])
    for only in (None, [1, 2]):
        matcher.top({"size": 1, "price": 50}, 3, only=only)
    matcher.add_many([(f"or-{i}", f"size = {i % 7} OR price > {i}") for i in range(100)])
    matcher.optimize()
    matcher.close()


def _match_in_every_way(matcher: Matcher) -> None:
    for only in (None, ["nested-0", "list-0"], tagged("some")):
        for events in ([_EVENT, {}], _build_table()):
            matcher.match_many(events, only=only)
            matcher.count_many(events, only=only)
            matcher.top_many(events, 3, only=only)
        matcher.match(_EVENT, only=only)
        matcher.match_array(_EVENT, only=only)
        matcher.match_expression(_EXPRESSION, only=only)
        matcher.first_many([_EVENT], only=only)
        matcher.top(_EVENT, 3, only=only)
        matcher.top(_EVENT, 3, only=only, weights={("name", "a"): 0.5})


def _build_matcher(engine: str) -> Matcher:
    """A matcher with enough copies of the rules that they become a segment, not the tail."""
    matcher = Matcher(engine)
    rules = [Rule(f"{id}-{i}", text, "strong") for i in range(10) for id, text in _RULES.items()]
    weights = {("name", "a"): 2.0, "price > 5": 3.0}
    weighted = Rule("weighted", _WEIGHTED, "weak", weights, tags=frozenset(["some"]))
    matcher.add_many([*rules, weighted])
    return matcher


def _build_table() -> pa.Table:
    """Two events as columns: one column of lists, and nulls in every column."""
    return pa.table(
        {
            "size": pa.array([[1, 2], None]),
            "name": pa.array(["a", None]),
            "price": pa.array([12.5, None]),
            "stock": pa.array([4, None]),
            "page": pa.array([1, None], pa.int32()),
            "flag": pa.array([True, None]),
            "seen": pa.array([0, None], pa.timestamp("us", "UTC")),
        }
    )
