"""Threads for work that takes long: writes that wait for the disk, batches, care.

A fixed number of threads runs; a fixed number of requests may wait for them. One more is refused at
once with 503, so that a burst makes some requests fail instead of all of them slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from tamis.server.metrics import Metrics
from tamis.server.problems import ProblemError

__all__ = ["Workers"]

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Runs functions in threads.

    Parameters
    ----------
    threads
        How many run at once.
    most
        How many may run or wait.
    seconds
        How long a caller waits. The function itself runs to its end.
    metrics
        Knows how many wait.
    """

    def __init__(self, threads: int, most: int, seconds: float, metrics: Metrics) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tamis-server")
        self._most = most
        self._seconds = seconds
        self._metrics = metrics
        self._count = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread, and return its result.

        Raises
        ------
        ProblemError
            Too much is waiting (503), or it takes too long (504).
        """
        if self._count >= self._most:
            raise ProblemError(
                503,
                "too-much-work",
                f"{self._most:,} requests are waiting; try again in a moment",
                {"Retry-After": "1"},
                limit=self._most,
            )
        self._count += 1
        self._metrics.waiting.set(self._count)
        future = asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: function(*args, **kwargs)
        )
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._seconds)
        except TimeoutError:
            future.add_done_callback(_ignore_result)
            raise ProblemError(
                504,
                "request-too-long",
                f"the request took longer than {self._seconds:g} seconds; "
                "a write may still have taken effect",
                limit=self._seconds,
            ) from None

    def _done(self, _: object) -> None:
        self._count -= 1
        self._metrics.waiting.set(self._count)

    def close(self) -> None:
        """Wait for what runs, and start nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _ignore_result(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
