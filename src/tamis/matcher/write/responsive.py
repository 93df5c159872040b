"""Keeps readers responsive during long Python work.

Three things make readers wait while a writer or a merge works in Python:

- The interpreter switches threads only every 5 ms. A reader that returns from a kernel would wait
  that long, once for each segment it searches. `keep_responsive` lowers the interval to 50 µs.
- Millions of new objects trigger full garbage collections, during which nothing else runs: 80 ms in
  a process of moderate size. `keep_responsive` turns them off; reference counting goes on.
- Nothing else runs while one call frees a large container: 45 ms for what encoding a hundred
  thousand rules leaves. `clear_in_steps` empties containers a little at a time, and
  `take_in_steps` splits other work that one call would do.

The interval and the collector are settings of the whole process. They are changed while the work
lasts, and restored when the last piece of such work ends.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

from tamis.forks import call_in_child

__all__ = ["clear_in_steps", "keep_responsive", "take_in_steps"]

_T = TypeVar("_T")

_SWITCH_INTERVAL: Final = 5e-5
"""Seconds; a switch itself takes a few microseconds."""

_ROUNDING: Final = 2e-6
"""The system rounds the switch interval by no more seconds than this."""

_FREED_PER_STEP: Final = 1024
"""How many items one call frees: some 0.1 ms."""

_TAKEN_PER_STEP: Final = 512
"""How many rules one call turns into columns or bytes: other threads wait while it runs."""


class _ProcessSettings:
    """The settings of the process, and how many users want them changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._interval: float | None = None
        """What to restore; None if the interval was short enough before."""
        self._had_collector = False

    def change(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            interval = sys.getswitchinterval()
            self._interval = interval if interval > _SWITCH_INTERVAL else None
            if self._interval is not None:
                sys.setswitchinterval(_SWITCH_INTERVAL)
            self._had_collector = gc.isenabled()
            gc.disable()

    def restore(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            # An interval that the application has set in the meantime stays.
            is_ours = abs(sys.getswitchinterval() - _SWITCH_INTERVAL) < _ROUNDING
            if self._interval is not None and is_ours:
                sys.setswitchinterval(self._interval)
            if self._had_collector:
                gc.enable()

    def after_fork(self) -> None:
        """In a forked child: the threads that wanted the settings changed are not there."""
        self._lock = threading.Lock()
        if self._users:
            self._users = 1
            self.restore()


_settings = _ProcessSettings()
call_in_child(_settings.after_fork)


@contextmanager
def keep_responsive() -> Iterator[None]:
    """Let other threads run often. May be nested, and used by several threads at once."""
    _settings.change()
    try:
        yield
    finally:
        _settings.restore()


def take_in_steps(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Split items into lists so short that a call may handle one of them as a whole."""
    rest = iter(items)
    while step := list(islice(rest, _TAKEN_PER_STEP)):
        yield step


def clear_in_steps(containers: Iterable[list[Any] | dict[Any, Any] | set[Any]]) -> None:
    """Empty containers that are of no more use, and let other threads run meanwhile."""
    for items in containers:
        while items:
            if isinstance(items, list):
                del items[-_FREED_PER_STEP:]
            elif isinstance(items, dict):
                items.popitem()
            else:
                items.pop()
