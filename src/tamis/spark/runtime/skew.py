"""Find tasks that run much longer than the others of their stage, while they run."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Straggler", "find_stragglers"]

_TASKS: Final = 500
"""How many tasks of a stage are looked at."""

_FINISHED: Final = 3
"""How many tasks have to be done before the others can be called late."""


class Straggler(NamedTuple):
    """A task that runs longer than others of its stage."""

    stage: int
    name: str
    """The name of the stage."""
    task: int
    """The number of its partition."""
    host: str
    seconds: float
    """How long it has run."""
    median: float
    """How long half of the finished tasks took at most."""
    finished: int

    def __str__(self) -> str:
        return (
            f"{self.name}: task {self.task} on {self.host} has run for {self.seconds:,.0f} s, "
            f"{self.seconds / max(self.median, 0.001):,.0f} times the median of the "
            f"{self.finished:,} that are done; its partition may have more rows than others: "
            "repartition the events, or look at their keys"
        )


def find_stragglers(
    spark: SparkSession, *, factor: float = 4.0, seconds: float = 10.0
) -> list[Straggler]:
    """The running tasks that take much longer than the finished ones of their stage.

    Spark Connect does not show tasks to its clients, so the list is empty there.

    Parameters
    ----------
    spark
        The session.
    factor
        How many times the median of the finished tasks a task has to take to be listed.
    seconds
        How long it has to have run at least.
    """
    if is_remote():
        return []
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()
    found = []
    for stage in context.statusTracker().getActiveStageIds():
        info = context.statusTracker().getStageInfo(stage)
        if info is not None and info.numCompletedTasks >= _FINISHED:
            found += _find_in_stage(store, info, factor, seconds)
    return found


def _find_in_stage(store: Any, info: Any, factor: float, least: float) -> list[Straggler]:
    tasks = store.taskList(info.stageId, info.currentAttemptId, _TASKS)
    finished: list[float] = []
    running: list[tuple[Any, float]] = []
    for task in (tasks.apply(place) for place in range(tasks.size())):
        if task.status() == "RUNNING":
            running.append((task, time.time() - task.launchTime().getTime() / 1000))
        elif task.status() == "SUCCESS" and task.duration().isDefined():
            finished.append(task.duration().get() / 1000)
    if len(finished) < _FINISHED:
        return []
    usual = median(finished)
    return [
        Straggler(info.stageId, info.name, task.index(), task.host(), seconds, usual, len(finished))
        for task, seconds in running
        if seconds >= least and seconds > factor * usual
    ]
