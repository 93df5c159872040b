"""Show the progress of Spark jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tamis.spark.runtime.skew import find_stragglers

__all__ = ["Show", "watch_tasks"]

Show: TypeAlias = Callable[[int, int], None]
"""Shows how many tasks of the running stages are done, and how many there are."""

_INTERVAL = 0.25
"""Seconds between two updates."""

_SKEW_INTERVAL = 5.0
"""Seconds between two looks at the times of tasks."""


@contextmanager
def watch_tasks(
    spark: SparkSession, show: Show, warn: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Call `show` repeatedly for the jobs that run inside the block.

    `warn` is called once for each task that runs much longer than the others of its stage.

    Spark Connect gives its clients no progress, so nothing is shown there.
    """
    if is_remote():
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    ended = Event()

    warned: set[tuple[int, int]] = set()

    def watch() -> None:
        looked = time.monotonic()
        while not ended.wait(_INTERVAL):
            if warn is not None and time.monotonic() - looked > _SKEW_INTERVAL:
                looked = time.monotonic()
                for late in find_stragglers(spark):
                    if (late.stage, late.task) not in warned:
                        warned.add((late.stage, late.task))
                        warn(str(late))
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
