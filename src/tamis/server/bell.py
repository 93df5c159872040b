"""Wakes streams when something happens, from any thread."""

from __future__ import annotations

import asyncio

__all__ = ["Bell"]


class Bell:
    """Any number of coroutines wait for the next ring; rings that come together wake them once."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._future: asyncio.Future[None] | None = None
        self._is_scheduled = False
        self.rings = 0
        """How often it has rung. A stream compares it to see whether it has missed a ring."""

    def ring(self) -> None:
        """Wake all who wait. Any thread may call it."""
        self.rings += 1
        loop = self._loop
        if loop is not None and not self._is_scheduled and not loop.is_closed():
            self._is_scheduled = True
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_scheduled = False
        future, self._future = self._future, None
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self, seen: int, seconds: float) -> bool:
        """Wait until it has rung more than `seen` times; False if that takes too long."""
        loop = self._loop = asyncio.get_running_loop()
        if self.rings != seen:
            return True
        if self._future is None:
            self._future = loop.create_future()
        # All share one future: `asyncio.wait` does not cancel it when the time is up.
        done, _ = await asyncio.wait([self._future], timeout=seconds)
        return bool(done)
