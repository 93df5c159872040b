"""A scheduler that owns locks, timers and file calls, so that a seed replays an interleaving.

Threads are real, but only one of them runs at a time, and it passes the turn on only at a switch
point: at a lock, a condition, an event, a clock, a file call, and if wanted at every line of some
modules. Who is next is drawn from a seed. The clock is virtual: it moves when somebody sleeps, or
when all wait. If nobody can go on, the scheduler has found a deadlock.

The modules of Tamis get it in the place of `threading`, `time` and `os`. Locks that they created
before stay real; no switch point may lie where one is held.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any, Final, Self
from unittest.mock import patch
from zlib import crc32

__all__ = ["START", "Deadlock", "Scheduler"]

START: Final = 1.7e9
"""The virtual time at the beginning, in seconds since 1970."""
_READ: Final = 1e-6
"""What reading the clock takes."""
_PATIENCE: Final = 120.0
"""Real seconds that a thread may run without a switch point. A real lock stops all of them."""

_MOST_POINTS: Final = 5_000_000
"""Switch points of a schedule, after which something goes round in circles."""

_FILE_CALLS: Final = (
    *("open", "read", "pread", "write", "pwrite", "fsync", "fdatasync", "close", "ftruncate"),
    *("replace", "rename", "unlink", "fstat", "stat", "listdir", "mkdir", "rmdir"),
)


class Deadlock(Exception):  # It is what was found, not a failure of the scheduler.
    """No thread can go on."""


class _Task:
    """A thread, as the scheduler sees it."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.turn = allocate_lock()
        self.turn.acquire()
        self.ready: Callable[[], bool] | None = None
        """What it waits for; None if it can go on."""
        self.deadline: float | None = None
        self.waits_for = ""
        self.error: Exception | None = None
        self.is_done = False


class Scheduler:
    """Runs threads one at a time, in an order that a seed decides.

    Parameters
    ----------
    random
        Decides.
    stay
        How likely a thread keeps its turn at a switch point.
    lines
        Parts of the names of modules in which every line is a switch point.
    """

    def __init__(self, random: Random, stay: float = 0.5, lines: tuple[str, ...] = ()) -> None:
        self._random = random
        self._stay = stay
        self._lines = lines
        self._stay_at_line = 0.9
        self.clock = 0.0
        self.trace = 0
        """A checksum of all turns: equal for equal schedules."""
        self.switches = 0
        self._points = 0
        self._main = _Task(0, "main")
        self._tasks = [self._main]
        self._current = self._main
        self._by_thread = {threading.get_ident(): self._main}
        self.failures: list[str] = []
        """Exceptions that ended threads."""
        self._is_over = False
        """Then nothing waits any more: what is left is freed by whichever thread."""

    # --- Turns ---

    def task(self) -> _Task | None:
        """The task of the running thread; None for a thread that is not scheduled."""
        return None if self._is_over else self._by_thread.get(threading.get_ident())

    def pause(self, stay: float | None = None) -> None:
        """A switch point: another thread may go on."""
        task = self.task()
        self._points += 1
        if self._points > _MOST_POINTS:
            raise Deadlock("there is no end")
        if task is None or self._random.random() < (self._stay if stay is None else stay):
            return
        self._pass_on(task)

    def block(self, ready: Callable[[], bool], timeout: float | None, what: str) -> bool:
        """Wait until something holds, or for a time. Returns whether it holds."""
        task = self.task()
        if task is None:
            return ready()
        task.ready, task.waits_for = ready, what
        task.deadline = None if timeout is None else self.clock + max(0.0, timeout)
        self._pass_on(task)
        task.ready = task.deadline = None
        return ready()

    def _pass_on(self, task: _Task) -> None:
        following = self._choose()
        self.trace = crc32(bytes((following.number & 255,)), self.trace)
        self._current = following
        if following is not task:
            self.switches += 1
            following.turn.release()
            if not task.is_done and not task.turn.acquire(timeout=_PATIENCE):
                raise Deadlock(f"{self._current.name} holds its turn, perhaps at a real lock")
        if task.error is not None:
            error, task.error = task.error, None
            raise error

    def _choose(self) -> _Task:
        """The next task: one that can go on, or whose time may be over by now."""
        waiting = [task for task in self._tasks if not task.is_done]
        able = [task for task in waiting if task.ready is None or task.ready()]
        timed = [task for task in waiting if task.deadline is not None and task not in able]
        if timed and (not able or self._random.random() < 0.02):
            chosen = min(timed, key=lambda task: (task.deadline, task.number))
            assert chosen.deadline is not None
            self.clock = max(self.clock, chosen.deadline)
            return chosen
        if able:
            return self._random.choice(able)
        who = ", ".join(f"{task.name} waits for {task.waits_for}" for task in waiting)
        self._main.error = Deadlock(f"all wait: {who}")
        return self._main

    # --- Threads ---

    def create(self, run: Callable[[], object], name: str) -> _Task:
        """Create a thread; it gets its first turn at a later switch point."""
        task = _Task(len(self._tasks), name)
        self._tasks.append(task)

        def work() -> None:
            task.turn.acquire()
            self._by_thread[threading.get_ident()] = task
            if self._lines:
                sys.settrace(self._trace_calls)
            try:
                run()
            except Exception as error:
                self.failures.append(f"{name}: {type(error).__name__}: {error}")
            finally:
                sys.settrace(None)
                task.is_done = True
                del self._by_thread[threading.get_ident()]
                # After the end nobody waits for a turn.
                if not self._is_over:
                    self._pass_on(task)

        threading.Thread(target=work, name=name, daemon=True).start()
        return task

    def join(self, tasks: Iterable[_Task]) -> None:
        """Wait until threads have ended."""
        for task in tasks:
            self.block(lambda task=task: task.is_done, None, f"the end of {task.name}")  # type: ignore[misc]

    def _trace_calls(self, frame: FrameType, _event: str, _: Any) -> Any:
        name = frame.f_globals.get("__name__", "")
        return self._trace_line if any(part in name for part in self._lines) else None

    def _trace_line(self, _frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.pause(self._stay_at_line)
        return self._trace_line

    # --- What modules see ---

    @contextmanager
    def installed(self, prefixes: tuple[str, ...]) -> Iterator[Self]:
        """Within this context, modules whose names begin so use locks, clocks and files of ours."""
        fakes: dict[int, Any] = {
            id(threading): _Threading(self),
            id(time): _Time(self),
            id(os): _Os(self),
            id(allocate_lock): lambda: _Lock(self),
        }
        patches = [
            patch.object(module, name, fakes[id(value)])
            for module_name, module in list(sys.modules.items())
            if module_name.startswith(prefixes) and isinstance(module, ModuleType)
            for name, value in list(vars(module).items())
            if id(value) in fakes
        ]
        try:
            for each in patches:
                each.start()
            yield self
        finally:
            self._is_over = True
            for each in reversed(patches):
                each.stop()


class _Lock:
    """A lock, reentrant or not."""

    def __init__(self, scheduler: Scheduler, reentrant: bool = False) -> None:
        self._scheduler = scheduler
        self._reentrant = reentrant
        self._owner: object = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = self._scheduler.task() or threading.get_ident()
        self._scheduler.pause()
        if self._count and self._reentrant and self._owner is me:
            self._count += 1
            return True
        if self._count:
            limit = None if timeout < 0 else timeout
            if not blocking or not self._scheduler.block(self.is_free, limit, "a lock"):
                return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if not self._count and not self._scheduler._is_over:
            raise RuntimeError("release unlocked lock")
        self._count = max(0, self._count - 1)
        self._scheduler.pause()

    def is_free(self) -> bool:
        return not self._count

    def locked(self) -> bool:
        return bool(self._count)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Condition:
    """A condition with a lock of its own."""

    def __init__(self, scheduler: Scheduler, lock: _Lock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or _Lock(scheduler, reentrant=True)
        self._waiting: deque[list[bool]] = deque()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        token = [False]
        self._waiting.append(token)
        count, self._lock._count = self._lock._count, 0
        try:
            woken = self._scheduler.block(lambda: token[0], timeout, "a condition")
        finally:
            if token in self._waiting:
                self._waiting = deque(each for each in self._waiting if each is not token)
            self._lock.acquire()
            self._lock._count = count
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else self._scheduler.clock + timeout
        while not (result := predicate()):
            left = None if end is None else end - self._scheduler.clock
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        for _ in range(min(n, len(self._waiting))):
            self._waiting.popleft()[0] = True

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class _Event:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def is_set(self) -> bool:
        self._scheduler.pause()
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._scheduler.pause()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        self._scheduler.pause()
        return self._is_set or self._scheduler.block(lambda: self._is_set, timeout, "an event")


class _Semaphore:
    def __init__(self, scheduler: Scheduler, value: int = 1) -> None:
        self._scheduler = scheduler
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        self._scheduler.pause()
        if not self._value and not (
            blocking and self._scheduler.block(lambda: self._value > 0, timeout, "a semaphore")
        ):
            return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        self._value += n
        self._scheduler.pause()


class _Thread:
    """A thread that a module starts."""

    def __init__(
        self,
        scheduler: Scheduler,
        made: dict[_Task | None, _Thread],
        target: Callable[..., object],
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        name: str = "thread",
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._made = made
        self._run = lambda: target(*args, **(kwargs or {}))
        self.name = name
        self.daemon = daemon
        self._task: _Task | None = None

    def start(self) -> None:
        self._task = self._scheduler.create(self._run, self.name)
        self._made[self._task] = self
        self._scheduler.pause()

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        if task is not None:
            self._scheduler.block(lambda: task.is_done, timeout, f"the end of {self.name}")


class _Threading(SimpleNamespace):
    """What modules have in the place of `threading`."""

    def __init__(self, scheduler: Scheduler) -> None:
        made: dict[_Task | None, _Thread] = {}

        def thread(*args: Any, **kwargs: Any) -> _Thread:
            return _Thread(scheduler, made, *args, **kwargs)

        def current_thread() -> Any:
            return made.get(scheduler.task()) or threading.current_thread()

        super().__init__(
            **{
                **{name: getattr(threading, name) for name in threading.__all__},
                "Lock": lambda: _Lock(scheduler),
                "RLock": lambda: _Lock(scheduler, reentrant=True),
                "Condition": lambda lock=None: _Condition(scheduler, lock),
                "Event": lambda: _Event(scheduler),
                "Semaphore": lambda value=1: _Semaphore(scheduler, value),
                "Thread": thread,
                "current_thread": current_thread,
            }
        )


class _Time(SimpleNamespace):
    """What modules have in the place of `time`."""

    def __init__(self, scheduler: Scheduler) -> None:
        def read() -> float:
            scheduler.clock += _READ
            scheduler.pause()
            return scheduler.clock

        def sleep(seconds: float) -> None:
            scheduler.block(lambda: False, seconds, "the time")

        kept = {name: getattr(time, name) for name in dir(time) if not name.startswith("_")}
        super().__init__(
            **{
                **kept,
                "monotonic": read,
                "perf_counter": read,
                "time": lambda: START + read(),
                "time_ns": lambda: int((START + read()) * 1e9),
                "monotonic_ns": lambda: int(read() * 1e9),
                "perf_counter_ns": lambda: int(read() * 1e9),
                "sleep": sleep,
            }
        )


class _Os(SimpleNamespace):
    """What modules have in the place of `os`: before each file call another thread may go on."""

    def __init__(self, scheduler: Scheduler) -> None:
        def pausing(call: Callable[..., Any]) -> Callable[..., Any]:
            def paused(*args: Any, **kwargs: Any) -> Any:
                scheduler.pause()
                return call(*args, **kwargs)

            return paused

        kept = {name: getattr(os, name) for name in dir(os) if not name.startswith("_")}
        calls: dict[str, Any] = {n: pausing(kept[n]) for n in _FILE_CALLS if n in kept}
        # To wait for the disk changes nothing here: what runs stays on the machine.
        calls |= {"fsync": lambda _: scheduler.pause(), "fdatasync": lambda _: scheduler.pause()}
        super().__init__(**{**kept, **calls})
