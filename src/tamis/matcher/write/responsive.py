"""Keeps readers responsive during long Python work.

Four things make readers wait while a writer or a merge works in Python:

- The interpreter switches threads only every 5 ms. A reader that returns from a kernel would wait
  that long, once for each segment it searches. `switch_often` lowers the interval to 50 µs, as long
  as the background thread of a writer exists: while rules change, and a second longer.
- Millions of new objects trigger full garbage collections, during which nothing else runs: 80 ms in
  a process of moderate size. `keep_responsive` turns them off, too; reference counting goes on.
- Where rules are added one by one, a collection of young objects takes 2 to 5 ms, and every 5,000
  rules there is a full one. `collect_in_steps` makes the former shorter and the latter rare, for as
  long as `switch_often` is in effect. After work on many objects the next ones would take up to
  3 ms all the same; `age_objects` spares them.
- Nothing else runs while one call frees a large container: 45 ms for what encoding a hundred
  thousand rules leaves. `clear_in_steps` empties containers a little at a time, and
  `take_in_steps` splits other work that one call would do. `giving_way` lets searches go first.

The interval and the collector are settings of the whole process. They are changed while the work
lasts, and restored when the last piece of such work ends.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from tamis.forks import call_in_child
from tamis.matcher.give_way import give_way

__all__ = [
    "Container",
    "age_objects",
    "clear_in_steps",
    "collect_in_steps",
    "giving_way",
    "keep_responsive",
    "switch_often",
    "take_in_steps",
]

_T = TypeVar("_T")

Container: TypeAlias = list[Any] | dict[Any, Any] | set[Any]

_SWITCH_INTERVAL: Final = 5e-5
"""Seconds; a switch itself takes a few microseconds."""

_ROUNDING: Final = 2e-6
"""The system rounds the switch interval by no more seconds than this."""

_YOUNG, _OLD = 2, 500
"""After how many collections of the youngest objects the young ones are collected, too, and after
how many of those all others."""

_FREED_PER_STEP: Final = 128
"""How many items are freed at a time: for 50 µs, if they are rules."""

_TAKEN_PER_STEP: Final = 512
"""How many rules one call turns into columns or bytes: other threads wait while it runs."""


_LEAST_TO_AGE: Final = 1024
"""Work on fewer rules leaves few objects."""

_ITEMS_AT_ONCE: Final = 32
"""After how many items `giving_way` does so: some 50 µs."""


class _Setting:
    """A setting of the process that is changed as long as somebody uses it.

    An interrupt may come at any line. So users are a set: to leave twice, or without having
    entered, does no harm.
    """

    def __init__(
        self, read: Callable[[], _T], change: Callable[[], None], restore: Callable[[_T], None]
    ) -> None:
        self._read = read
        self._change = change
        self._restore = restore
        self._lock = threading.Lock()
        self._users: set[object] = set()
        self._before: list[Any] = []
        """What to restore; empty if nothing was changed."""

    @contextmanager
    def changed(self) -> Iterator[None]:
        user = object()
        try:
            self._enter(user)
            yield
        finally:
            try:
                self._leave(user)
            except BaseException:
                self._leave(user)
                raise

    def _enter(self, user: object) -> None:
        with self._lock:
            self._users.add(user)
            if len(self._users) == 1:
                self._before = [self._read()]
                self._change()

    def _leave(self, user: object) -> None:
        with self._lock:
            self._users.discard(user)
            if self._before and not self._users:
                self._restore(self._before[0])
                self._before = []

    def after_fork(self) -> None:
        """In a forked child: the threads that wanted it changed are not there."""
        self._lock = threading.Lock()
        self._users.clear()
        self._leave(None)


def _shorten_interval() -> None:
    if sys.getswitchinterval() > _SWITCH_INTERVAL:
        sys.setswitchinterval(_SWITCH_INTERVAL)


def _restore_interval(before: float) -> None:
    # An interval that the application has set in the meantime stays.
    is_ours = abs(sys.getswitchinterval() - _SWITCH_INTERVAL) < _ROUNDING
    if is_ours and before > _SWITCH_INTERVAL:
        sys.setswitchinterval(before)


def _restore_collector(was_enabled: bool) -> None:
    if was_enabled:
        gc.enable()


def _lower_thresholds() -> None:
    youngest, young, old = gc.get_threshold()
    gc.set_threshold(youngest, min(young, _YOUNG), max(old, _OLD))


def _restore_thresholds(before: tuple[int, int, int]) -> None:
    # Thresholds that the application has set in the meantime stay.
    if gc.get_threshold() == (before[0], min(before[1], _YOUNG), max(before[2], _OLD)):
        gc.set_threshold(*before)


_interval = _Setting(sys.getswitchinterval, _shorten_interval, _restore_interval)
_thresholds = _Setting(gc.get_threshold, _lower_thresholds, _restore_thresholds)
_collector = _Setting(gc.isenabled, gc.disable, _restore_collector)
call_in_child(_interval.after_fork)
call_in_child(_thresholds.after_fork)
call_in_child(_collector.after_fork)


def switch_often() -> AbstractContextManager[None]:
    """Let other threads run often. May be nested, and used by several threads at once."""
    return _interval.changed()


def collect_in_steps() -> AbstractContextManager[None]:
    """Collect young garbage a little at a time, and old garbage rarely."""
    return _thresholds.changed()


@contextmanager
def keep_responsive() -> Iterator[None]:
    """Let other threads run often, and collect no garbage, while many objects are made."""
    with _interval.changed(), _collector.changed():
        yield


def age_objects(count: int) -> None:
    """Have only full collections look at the objects that exist now, if work on so many rules ends.

    This takes no time. Garbage in cycles is among them and is freed later, so it has to be rare.
    """
    # What an application has frozen stays so.
    if count >= _LEAST_TO_AGE and gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


def take_in_steps(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Split items into lists so short that a call may handle one of them as a whole."""
    rest = iter(items)
    while step := list(islice(rest, _TAKEN_PER_STEP)):
        yield step


def giving_way(items: Iterable[_T]) -> Iterator[_T]:
    """The items; after every few of them, the caller gives way to searches."""
    rest = iter(items)
    while step := list(islice(rest, _ITEMS_AT_ONCE)):
        yield from step
        give_way()


def clear_in_steps(containers: Iterable[Container]) -> None:
    """Empty containers that are of no more use, and give way to searches after each step."""
    for items in containers:
        while items:
            if isinstance(items, list):
                del items[-_FREED_PER_STEP:]
            else:
                take = items.popitem if isinstance(items, dict) else items.pop
                for _ in range(min(len(items), _FREED_PER_STEP)):
                    take()
            give_way()
