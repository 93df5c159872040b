"""Threads for work that takes long: writes that wait for the disk, batches, analyses.

Each kind has its own threads: analyses that take minutes keep nobody from writing. A fixed number
of requests may wait, in all and of one key; one more is refused at once with 503 or 429, so that a
burst makes some requests fail instead of all of them slow. Of the threads for analyses, no key
takes all. Work that nobody waits for any more is given up.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from tamis.deadline import GivenUpError, Work, working
from tamis.server.metrics import Metrics
from tamis.server.problems import ProblemError

__all__ = ["Kind", "Workers"]

P = ParamSpec("P")
T = TypeVar("T")

Kind: TypeAlias = Literal["question", "analysis", "write"]
"""A question takes time for each of its events, an analysis as long as it takes."""

_ANALYSES: Final = 2
"""How many analyses run at once. They compute in Python, one step of one of them at a time."""


class Workers:
    """Runs functions in threads.

    Parameters
    ----------
    threads
        How many questions, and how many writes, run at once.
    most
        How many requests may run or wait.
    most_of_key
        How many of these may have the same key.
    seconds
        How long a caller waits. Then the function ends at its next step.
    metrics
        Knows how many wait.
    """

    def __init__(
        self, threads: int, most: int, most_of_key: int, seconds: float, metrics: Metrics
    ) -> None:
        sizes: dict[Kind, int] = {"question": threads, "analysis": _ANALYSES, "write": threads}
        self._pools = {
            kind: ThreadPoolExecutor(size, thread_name_prefix=f"tamis-{kind}")
            for kind, size in sizes.items()
        }
        self._most = most
        self._most_of_key = most_of_key
        self._seconds = seconds
        self._metrics = metrics
        self._count = 0
        """How many requests wait for a thread, or use one, even if nobody waits for them."""
        self._of_key: Counter[str | None] = Counter()
        """How many of these each key has."""
        self._running: set[Work] = set()
        self._turns: defaultdict[str | None, asyncio.Semaphore] = defaultdict(
            partial(asyncio.Semaphore, _ANALYSES - 1)
        )
        """Hands each key its threads for analyses."""

    async def run(
        self,
        kind: Kind,
        key: str | None,
        function: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function in a thread, and return its result.

        `key` is the key of the request, if it needs one.

        Raises
        ------
        ProblemError
            Too much is waiting (503), or too much of this key (429); it takes too long (504), or
            the server stops (503).
        """
        self._refuse_excess(key)
        self._note(key, 1)
        work, future = Work(), None
        turn = self._turns[key] if kind == "analysis" and key is not None else None
        try:
            async with asyncio.timeout(self._seconds) as limit:
                if turn is not None:
                    await turn.acquire()
                future = self._submit(work, kind, partial(function, *args, **kwargs))
                # The thread keeps its place among those that are counted until it ends.
                future.add_done_callback(lambda _: self._end(work, key, turn))
                return await asyncio.shield(future)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ProblemError(
                504,
                "request-too-long",
                f"the request took longer than {self._seconds:g} seconds; "
                "a write may still have taken effect",
                limit=self._seconds,
            ) from None
        except GivenUpError:
            raise ProblemError(503, "stopping", "the server stops; ask again later") from None
        finally:
            work.give_up()
            if future is None:
                self._note(key, -1)
            else:
                future.add_done_callback(_ignore_result)

    def _refuse_excess(self, key: str | None) -> None:
        if self._count >= self._most:
            raise ProblemError(
                503,
                "too-much-work",
                f"{self._most:,} requests are waiting; try again in a moment",
                {"Retry-After": "1"},
                limit=self._most,
            )
        if key is not None and self._of_key[key] >= self._most_of_key:
            raise ProblemError(
                429,
                "too-much-work-of-key",
                f"{self._most_of_key:,} requests of this key are waiting; try again in a moment",
                {"Retry-After": "1"},
                limit=self._most_of_key,
            )

    def _note(self, key: str | None, change: int) -> None:
        self._count += change
        self._of_key[key] += change
        if not self._of_key[key]:
            del self._of_key[key]
        self._metrics.waiting.set(self._count)

    def _submit(self, work: Work, kind: Kind, function: Callable[[], T]) -> asyncio.Future[T]:
        self._running.add(work)
        return asyncio.get_running_loop().run_in_executor(self._pools[kind], _do, work, function)

    def _end(self, work: Work, key: str | None, turn: asyncio.Semaphore | None) -> None:
        self._running.discard(work)
        self._note(key, -1)
        if turn is not None:
            turn.release()

    def close(self) -> None:
        """Give up what runs, wait for it to end, and start nothing more."""
        for work in self._running.copy():
            work.give_up()
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)


def _do(work: Work, function: Callable[[], T]) -> T:
    with working(work):
        return function()


def _ignore_result(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
