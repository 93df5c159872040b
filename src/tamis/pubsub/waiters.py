"""Those who wait for messages of a subscription: each is called once when there may be some."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tamis.forks import hold_during_forks

__all__ = ["Waiters"]


class Waiters:
    """Calls functions when something happens to a subscription. Any thread may use it.

    Each subscription has its own, so an event wakes only those that it concerns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        hold_during_forks(self._lock, rank=3)
        self._waiting: dict[str, set[Callable[[], None]]] = {}

    @contextmanager
    def waiting(self, names: Iterable[str], wake: Callable[[], None]) -> Iterator[None]:
        """Have `wake` called, from any thread, when something happens to one of `names`."""
        chosen = list(names)
        with self._lock:
            for name in chosen:
                self._waiting.setdefault(name, set()).add(wake)
        try:
            yield
        finally:
            with self._lock:
                for name in chosen:
                    waiting = self._waiting.get(name)
                    if waiting is not None:
                        waiting.discard(wake)
                        if not waiting:
                            del self._waiting[name]

    def wake(self, names: Iterable[str]) -> None:
        """Call those who wait for something to happen to `names`."""
        if not self._waiting:
            return
        with self._lock:
            found = {wake for name in names for wake in self._waiting.get(name, ())}
        for wake in found:
            wake()

    def wake_all(self) -> None:
        """Call all who wait."""
        with self._lock:
            names = list(self._waiting)
        self.wake(names)
