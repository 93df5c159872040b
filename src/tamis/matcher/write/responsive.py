"""Long work beside which other threads are not to wait.

Nobody else runs while one call frees a container with all that is in it: 45 ms for what a hundred
thousand rules leave behind. So large ones are emptied a little at a time (`empty`).

Two settings of the interpreter make readers wait while a writer or a merge is at work in Python:

- a thread gives way only every 5 ms, so a reader that comes back from a kernel would wait that
  long, for each segment it looks at. Inside `short_turns` it is 50 µs;
- objects that are made by the million set off full passes of the garbage collector, during which
  nothing else runs: 80 ms in a process of moderate size. Inside `short_turns` there are
  none; reference counts free as always.

Both are settings of the whole process, so they are changed for as long as the work takes, and put
back when the last of those who asked for it is done.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["empty", "short_turns"]

_SHORT = 5e-5
"""Seconds; a switch itself takes a few microseconds."""


class _Settings:
    """What is changed while somebody asks for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._asking = 0
        self._interval: float | None = None
        self._collects = False

    def ask(self) -> None:
        with self.lock:
            self._asking += 1
            if self._asking > 1:
                return
            interval = sys.getswitchinterval()
            self._interval = interval if interval > _SHORT else None
            if self._interval is not None:
                sys.setswitchinterval(_SHORT)
            self._collects = gc.isenabled()
            gc.disable()

    def let_go(self) -> None:
        with self.lock:
            self._asking -= 1
            if self._asking:
                return
            # Whoever changed it in the meantime wanted it so. The system rounds the interval.
            if self._interval is not None and abs(sys.getswitchinterval() - _SHORT) < 2e-6:
                sys.setswitchinterval(self._interval)
            if self._collects:
                gc.enable()


_settings = _Settings()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let other threads in; may be nested, and used by several threads at once."""
    _settings.ask()
    try:
        yield
    finally:
        _settings.let_go()


_AT_ONCE = 1024
"""How many items are freed by one call: some 0.1 ms."""


def empty(containers: Iterable[list[Any] | dict[Any, Any] | set[Any]]) -> None:
    """Empty containers that nobody uses any more, letting other threads in meanwhile."""
    for items in containers:
        while items:
            if isinstance(items, list):
                del items[-_AT_ONCE:]
            elif isinstance(items, dict):
                items.popitem()
            else:
                items.pop()
