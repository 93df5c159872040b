"""What one sees of a cluster: errors, counters, names and tasks that are late."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis import EventError, StorageError, TamisError
from tamis import spark as ts
from tamis.errors import RuleSyntaxError
from tamis.spark.runtime.skew import find_stragglers
from tamis.spark.runtime.work import Metrics, Work, _Sum, describe_jobs, read_note
from tests.spark.indexes import publish_rules
from tests.waiting import wait_until


@pytest.fixture
def index(tmp_path: Path) -> Path:
    publish_rules(tmp_path / "index", [(n, f"price < {10 * n}") for n in range(1, 9)])
    return tmp_path / "index"


def raise_in_work(error: TamisError) -> str:
    """The traceback that Spark would send."""
    import traceback

    def fail(batches: Any) -> Iterator[Any]:
        yield from batches
        raise error

    try:
        list(Work(fail, "fails")([]))
    except TamisError:
        return traceback.format_exc()
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "error",
    [
        EventError("event id=3: no"),
        StorageError("it is\ngone", path="s3://bucket/index"),
        RuleSyntaxError("expected a value", text="x =", position=3, rule_id=7),
        tamis.LockedError("busy", path="/index", pid=3),
        tamis.UnknownRuleError("there is no rule 3"),
    ],
)
def test_errors_travel(error: TamisError) -> None:
    text = raise_in_work(error)
    found = read_note(f"An error occurred while calling o1.collect.\n{text}\tat java.lang.Thread")
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert read_note(text.replace("tamis-error", "other")) is None


@pytest.mark.parametrize("action", ["collect", "write"])
def test_an_executor_raises_one_error_that_names_the_event(
    spark: Any, index: Path, tmp_path: Path, action: str
) -> None:
    texts = [(1, '{"price": 5}'), (2, '{"price": 18446744073709551616}'), (3, "{")]
    events = spark.createDataFrame(texts, "id int, text string").coalesce(1)
    found = ts.match(events, index, keys="id", events="text")
    actions = {"collect": found.collect, "write": lambda: found.write.parquet(f"{tmp_path}/out")}
    with pytest.raises(EventError) as caught:
        actions[action]()
    message = str(caught.value)
    assert message.startswith("event id=")
    assert "on_error='skip'" in message
    assert "\n" not in message
    assert caught.value.__dict__["spark_error"] is not None
    # Errors of others stay as they are.
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException):
        spark.sql("SELECT nothing")


def test_sql_and_streams_raise_the_same(spark: Any, index: Path, tmp_path: Path) -> None:
    texts = [(1, '{"price": 5}'), (3, "{")]
    events = spark.createDataFrame(texts, "id int, text string").coalesce(1)
    events.createOrReplaceTempView("bad_events")
    ts.register(spark, index, "bad_match", keys="id int", events="text")
    with pytest.raises(EventError, match="event id=3"):
        spark.sql("SELECT * FROM bad_match(TABLE(bad_events))").collect()
    events.write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "events"))
    query = ts.match_stream(
        stream,
        index,
        output=tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        trigger="availableNow",
        events="text",
    )
    with pytest.raises(EventError, match="event id=3"):
        query.awaitTermination()


def test_the_work_of_executors_is_counted_and_named(spark: Any, index: Path) -> None:
    events = spark.range(100).selectExpr("id", "id AS price")
    before = ts.metrics(spark)
    found = ts.match(events, index, keys="id")
    assert "tamis_match_in_8_rules_of_version_1(" in found._jdf.queryExecution().toString()
    matches = found.count()
    done = ts.metrics(spark) - before
    assert (done.events, done.matches) == (100, matches)
    assert done.batches >= 1
    assert done.slowest > 0
    assert done.seconds > 0
    # Those of the whole session, in which other rules may have more matches.
    assert done.busiest == ts.metrics(spark).busiest != ()


class Total:
    """An accumulator without Spark."""

    def __init__(self) -> None:
        self.value = Metrics()

    def add(self, done: Metrics) -> None:
        self.value = _Sum().addInPlace(self.value, done)


def test_the_busiest_rules_of_few_matches_are_counted() -> None:
    total = Total()
    batch = pa.record_batch([[8, 7, 8, 6, 8, 7]], ["rule"])
    for _ in range(2):
        assert len(list(Work(iter, "twice", total)([batch]))) == 1
    assert total.value.busiest == ((8, 6), (7, 4), (6, 2))


def test_the_busiest_rules_of_many_matches_are_estimates() -> None:
    total, size = Total(), 100_000
    rules = pa.array(["often" if n % 4 else f"r{n}" for n in range(size)])
    batch = pa.record_batch([rules], ["rule"])
    for _ in range(2):
        assert len(list(Work(iter, "twice", total)([batch]))) == 1
    (rule, count), *others = total.value.busiest
    assert rule == "often"
    assert count == pytest.approx(2 * size * 3 / 4, rel=0.05)
    assert len(others) < 20
    assert total.value.matches == 2 * size


def test_jobs_and_stages_are_named(spark: Any, tmp_path: Path) -> None:
    table = spark.createDataFrame([("a", "x = 1")], "id string, rule string")
    ts.build(table, tmp_path / "index")
    store = spark.sparkContext._jsc.sc().statusStore()
    listed = store.jobsList(None)
    jobs = [listed.apply(place) for place in range(listed.size())]
    described = {
        job.description().get(): job.name() for job in jobs if job.description().isDefined()
    }
    doing = "tamis build: parse 1 rules in 1 tasks"
    assert "tamis build: count the rules" in described
    assert described[doing] == doing
    with describe_jobs(spark, "tamis test"):
        pass
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_a_late_task_is_found_while_it_runs(spark: Any, tmp_path: Path) -> None:
    released = tmp_path / "released"

    def work(batches: Any) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        while context.partitionId() == 5 and not released.exists():
            time.sleep(0.1)
        yield from batches

    table = spark.range(0, 6, 1, 6).mapInArrow(work, "id long")
    job = threading.Thread(target=table.collect)
    job.start()
    found: list[Any] = []

    def is_found() -> bool:
        # On a busy machine another task may be late, too, for a while.
        found[:] = find_stragglers(spark, factor=2, seconds=1)
        return [late.task for late in found] == [5]

    try:
        wait_until(is_found)
    finally:
        released.touch()
        job.join()
    assert "task 5 on " in str(found[0])
    assert find_stragglers(spark) == []
