"""Show the progress of Spark jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

__all__ = ["Show", "watch_tasks"]

Show: TypeAlias = Callable[[int, int], None]
"""Shows how many tasks of the running stages are done, and how many there are."""

_INTERVAL = 0.25
"""Seconds between two updates."""


@contextmanager
def watch_tasks(spark: SparkSession, show: Show) -> Iterator[None]:
    """Call `show` repeatedly for the jobs that run inside the block.

    Spark Connect gives its clients no progress, so nothing is shown there.
    """
    if is_remote():
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    ended = Event()

    def watch() -> None:
        while not ended.wait(_INTERVAL):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            running = [stage for stage in stages if stage is not None]
            if running:
                show(
                    sum(stage.numCompletedTasks for stage in running),
                    sum(stage.numTasks for stage in running),
                )

    thread = Thread(target=watch, name="tamis-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
