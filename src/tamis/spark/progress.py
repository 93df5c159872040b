"""How far Spark is, for people who watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

__all__ = ["Show", "watched"]

Show: TypeAlias = Callable[[int, int], None]
"""Shows how many tasks are done, and how many there are in the stages that run."""

_EVERY = 0.25
"""How many seconds lie between two looks."""


@contextmanager
def watched(spark: SparkSession, show: Show) -> Iterator[None]:
    """Show again and again how far the jobs are that run meanwhile.

    A client of Spark Connect is not told, and shows nothing.
    """
    if is_remote():
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    ended = Event()

    def look() -> None:
        while not ended.wait(_EVERY):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            running = [stage for stage in stages if stage is not None]
            if running:
                show(
                    sum(stage.numCompletedTasks for stage in running),
                    sum(stage.numTasks for stage in running),
                )

    thread = Thread(target=look, name="tamis-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
