"""What executors run, with a name, counters and errors that people can read.

`Work` wraps a function for ``mapInArrow``: Spark shows its name in the plan of the query; what it
counts adds up on the driver; and an error of Tamis that it raises travels with a note from which
the driver makes the same error again, instead of a page of Java (`install_errors`).
"""

from __future__ import annotations

import heapq
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from pyspark.accumulators import AccumulatorParam
from pyspark.sql.utils import is_remote
from pyspark.traceback_utils import SCCallSiteSync

from tamis import errors
from tamis.errors import TamisError
from tamis.matcher.published.cache import open_cache
from tamis.matcher.rule import RuleId

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = [
    "Metrics",
    "Run",
    "Work",
    "count_work",
    "describe_jobs",
    "install_errors",
    "metrics",
    "note_errors",
]

Run: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""What ``mapInArrow`` calls on an executor."""

_NOTE: Final = "tamis-error: "
_NOTED = re.compile(rf"^\s*{_NOTE}(\{{.*\}})\s*$", re.MULTILINE)
_BUSIEST: Final = 20
"""How many of the busiest rules are counted."""
_SAMPLE: Final = 4_096
"""How many matches of a batch are counted by rule at most."""
_ATTRIBUTES: Final = ("path", "line", "rule_id", "position", "text")
"""The attributes of errors that travel, as far as an error has them."""


class Metrics(NamedTuple):
    """What the executors of a session have done so far, for finished tasks.

    A task that Spark runs again is counted again.
    """

    events: int = 0
    """Rows that went to matchers; with several groups of shards, once for each group."""
    matches: int = 0
    """Rows that came back."""
    batches: int = 0
    seconds: float = 0.0
    """The time of all workers together."""
    slowest: float = 0.0
    """The time of the slowest batch of events, in seconds."""
    cache_hits: int = 0
    """Shards of a bucket that were on the disk of their node."""
    cache_misses: int = 0
    """Shards that were downloaded."""
    cache_bytes: int = 0
    """How many bytes were downloaded."""
    busiest: tuple[tuple[RuleId, int], ...] = ()
    """Rules with the most matches, and about how many: estimates from a sample of each batch, of
    the busiest rules of each task. Only of answers that have a rule in each row and pass
    through Spark: those that workers write themselves are not among them."""

    def __sub__(self, earlier: Metrics) -> Metrics:
        """What was done since; `slowest` and `busiest` are those of the whole session."""
        changes = {
            name: getattr(self, name) - getattr(earlier, name)
            for name in self._fields
            if name not in ("slowest", "busiest")
        }
        return Metrics(**changes, slowest=self.slowest, busiest=self.busiest)


def _choose_busiest(counts: Mapping[RuleId, int]) -> tuple[tuple[RuleId, int], ...]:
    """The rules with the highest counts, highest first."""
    found = heapq.nlargest(_BUSIEST, counts.items(), key=itemgetter(1))
    return tuple((rule, count) for rule, count in found if count > 0)


_accumulators: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The accumulator of each Spark context."""

_creating = threading.Lock()


def metrics(spark: SparkSession) -> Metrics:
    """What the executors of this session have done so far.

    Spark Connect has no accumulators, so there everything is 0; see the SQL tab of Spark's UI.

    Parameters
    ----------
    spark
        The session.

    Examples
    --------
    >>> ts.match(events, "index").count()   # doctest: +SKIP
    >>> ts.metrics(spark).matches           # doctest: +SKIP
    """
    accumulator = count_work(spark)
    return Metrics() if accumulator is None else accumulator.value


def count_work(spark: SparkSession) -> Any:
    """The accumulator of a session, for `Work`; None for Spark Connect, which has none."""
    install_errors()
    if is_remote():
        return None
    context = spark.sparkContext
    with _creating:
        if context not in _accumulators:
            _accumulators[context] = context.accumulator(Metrics(), _Sum())
        return _accumulators[context]


class _Sum(AccumulatorParam[Metrics]):
    """Adds up what tasks have done."""

    def zero(self, value: Metrics) -> Metrics:  # noqa: ARG002  PySpark passes it
        return Metrics()

    def addInPlace(self, value1: Metrics, value2: Metrics) -> Metrics:
        slowest = max(value1.slowest, value2.slowest)
        pairs: Iterable[tuple[Any, Any]] = zip(value1, value2, strict=True)
        added = [one + other for one, other in pairs]
        counts = Counter(dict(value1.busiest))
        counts.update(dict(value2.busiest))
        return Metrics(*added)._replace(slowest=slowest, busiest=_choose_busiest(counts))


@dataclass(frozen=True)
class Work:
    """A function for ``mapInArrow``, which Spark shows by its name."""

    function: Run
    name: str
    counted: Any = None
    """An accumulator; see `count_work`."""
    count_rows: Callable[[pa.RecordBatch], int] = attrgetter("num_rows")
    """How many answers stand for a batch that the function yields."""

    @property
    def __name__(self) -> str:
        """What Spark shows in the plan of a query."""
        return self.name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function."""
        events = [0]
        cached = dict(open_cache().counts)
        rows = parts = 0
        slowest, started = 0.0, time.perf_counter()
        rules: Counter[RuleId] = Counter()
        try:
            answers = self.function(_count_rows(batches, events))
            while True:
                began = time.perf_counter()
                answer = next(answers, None)
                slowest = max(slowest, time.perf_counter() - began)
                if answer is None:
                    break
                rows, parts = rows + self.count_rows(answer), parts + 1
                if self.counted is not None and "rule" in answer.schema.names:
                    rules.update(_estimate_counts(answer.column("rule")))
                yield answer
        except TamisError as error:
            _attach_note(error)
            raise
        finally:
            if self.counted is not None:
                now = open_cache().counts
                found = [now[name] - cached.get(name, 0) for name in ("hits", "misses", "bytes")]
                seconds = time.perf_counter() - started
                busiest = _choose_busiest(rules)
                done = (events[0], rows, parts, seconds, slowest, *found, busiest)
                self.counted.add(Metrics._make(done))


def _estimate_counts(rules: pa.Array) -> dict[RuleId, int]:
    """About how many matches rules have, from some of them, evenly spread; exact if all are few."""
    step = -(-len(rules) // _SAMPLE) or 1
    counted = rules[::step].value_counts()
    pairs = zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True)
    return {rule: step * count for rule, count in pairs}


@contextmanager
def note_errors() -> Iterator[None]:
    """Let errors of the block travel through the JVM, for functions that it calls."""
    try:
        yield
    except TamisError as error:
        _attach_note(error)
        raise


def _count_rows(batches: Iterable[pa.RecordBatch], events: list[int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        events[0] += batch.num_rows
        yield batch


def _attach_note(error: TamisError) -> None:
    """Describe an error in its traceback, which is all that Spark sends to the driver."""
    known = {name: getattr(error, name, None) for name in _ATTRIBUTES}
    note = {
        "error": type(error).__name__,
        "message": getattr(error, "message", None) or str(error),
        "attributes": {name: value for name, value in known.items() if value is not None},
    }
    error.add_note(f"{_NOTE}{msgspec.json.encode(note).decode()}")


def read_note(text: str) -> TamisError | None:
    """The error of Tamis whose note is in the text of another error."""
    found = _NOTED.search(text)
    if found is None:
        return None
    try:
        note = msgspec.json.decode(found[1])
        kind = getattr(errors, note["error"], TamisError)
        try:
            return kind(note["message"], **note["attributes"])
        except TypeError:
            return TamisError(note["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None


def install_errors() -> None:
    """Have PySpark raise the errors of Tamis that executors have raised.

    PySpark converts every error of the JVM by one function, for Spark Connect by another. Both are
    wrapped: an error that has a note of `Work` becomes the error of Tamis, and all others stay as
    they are. docs/decisions/0047-errors-of-executors.md says why.
    """
    from pyspark.errors.exceptions import captured

    _wrap(captured)
    # Connect is loaded with the first session of its kind, and brings many packages.
    core = sys.modules.get("pyspark.sql.connect.client.core")
    if core is not None:
        _wrap(core)


def _wrap(module: Any) -> None:
    convert = getattr(module, "convert_exception", None)
    if convert is None or hasattr(convert, "tamis"):
        return

    def convert_exception(*arguments: Any, **options: Any) -> Any:
        converted = convert(*arguments, **options)
        trace = getattr(converted, "_stackTrace", None) or getattr(converted, "_stacktrace", None)
        error = read_note(f"{converted}\n{trace or ''}")
        if error is None:
            return converted
        # The whole story, for those who look for a mistake in Tamis.
        error.__dict__["spark_error"] = converted
        return error

    convert_exception.tamis = True  # type: ignore[attr-defined]
    module.convert_exception = convert_exception


@contextmanager
def describe_jobs(spark: SparkSession, text: str) -> Iterator[None]:
    """Name the jobs and stages that run inside the block, for Spark's UI.

    With Spark Connect they get a tag instead.
    """
    tag = re.sub(r"[^A-Za-z0-9]+", "-", text.partition(":")[0]).strip("-")
    if is_remote():
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(text)
    # PySpark names stages after the line that starts them; inside of this it does not.
    site: Any = SCCallSiteSync(context)  # type: ignore[no-untyped-call]
    site._call_site = text
    try:
        with site:
            yield
    finally:
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]
