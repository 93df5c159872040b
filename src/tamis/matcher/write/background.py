"""A background thread that maintains a writer's segments and files.

It exists only while there is work, and a little longer: a collection that does not change has no
thread. It refers to its owner by a weak reference, so an owner that is no longer used is freed, and
its thread ends.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import Final, Protocol

from tamis.forks import hold_during_forks
from tamis.matcher.write.responsive import collect_in_steps, switch_often

__all__ = ["Worker"]

_DELAY: Final = 0.005
"""Seconds between a wake-up and the work, in which more work may arrive."""

_QUIET: Final = 0.05
"""Seconds without a wake-up after which times count as quiet."""

_LINGER: Final = 1.0
"""Seconds without work after which the thread ends."""

_EXIT: Final = 10.0
"""Seconds that the interpreter's exit waits for work that has begun."""


class _Owner(Protocol):
    def maintain(self, quiet: bool) -> bool:
        """Do one piece of work. Returns whether there was any."""

    def note_failure(self, error: Exception) -> None:
        """Take note of an error that `maintain` raised."""


class _Shared:
    """What the thread shares with its owner."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.changed = threading.Condition()
        self.working = threading.Lock()
        """Held while the owner works. A fork waits for it: the owner may hold any lock then."""
        hold_during_forks(self.working, rank=0)
        self.is_woken = False
        self.is_stopped = False
        self.thread: threading.Thread | None = None


class Worker:
    """Calls `maintain` of its owner in a thread, after each wake-up until all is done."""

    def __init__(self, owner: _Owner) -> None:
        self._owner = weakref.ref(owner)
        self._shared = _Shared()
        self._finalizer = weakref.finalize(owner, _stop, self._shared)
        # At exit, an owner that still exists may finish its work; see `_stop_all`.
        self._finalizer.atexit = False

    def is_woken(self) -> bool:
        """Whether the thread has not begun the work for an earlier wake-up, and will find all."""
        shared = self._shared
        return shared.is_woken and shared.thread is not None and shared.thread.is_alive()

    def wake(self) -> None:
        """Announce that there may be work."""
        shared = self._shared
        with shared.changed:
            shared.is_woken = True
            if shared.is_stopped:
                return
            # After a fork the child has no thread.
            if shared.thread is None or not shared.thread.is_alive():
                shared.thread = threading.Thread(
                    target=_run, args=(self._owner, shared), name="tamis-maintenance", daemon=True
                )
                _all_shared.add(shared)
                shared.thread.start()
            else:
                shared.changed.notify()

    def stop(self) -> None:
        """End the thread, and wait until it has ended. A later wake-up starts another one."""
        thread = self._shared.thread
        _stop(self._shared)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._shared.is_stopped = False

    def after_fork(self) -> None:
        """In a forked child: there is no thread, and its locks may be held for ever."""
        is_stopped = self._shared.is_stopped
        self._shared.reset()
        self._shared.is_stopped = is_stopped


def _stop(shared: _Shared) -> None:
    with shared.changed:
        shared.is_stopped = True
        shared.changed.notify()


def _run(owner: weakref.ref[_Owner], shared: _Shared) -> None:
    # Rules are changing. Readers must not wait for a writer that adds one after the other.
    with switch_often(), collect_in_steps():
        _work_until_idle(owner, shared)


def _work_until_idle(owner: weakref.ref[_Owner], shared: _Shared) -> None:
    while True:
        with shared.changed:
            shared.changed.wait_for(lambda: shared.is_woken or shared.is_stopped, _LINGER)
            if shared.is_stopped or not shared.is_woken:
                # Under the lock, so that the next wake-up starts another thread.
                shared.thread = None
                return
            shared.is_woken = False
            shared.changed.wait_for(lambda: shared.is_stopped, _DELAY)
        _work(owner, shared, quiet=False)
        with shared.changed:
            busy = shared.changed.wait_for(lambda: shared.is_woken or shared.is_stopped, _QUIET)
        if not busy:
            _work(owner, shared, quiet=True)


def _work(owner: weakref.ref[_Owner], shared: _Shared, quiet: bool) -> None:
    """Let the owner work until nothing is left to do; in quiet times, until they end."""
    while not (shared.is_stopped or (quiet and shared.is_woken)):
        found = owner()
        if found is None:
            return
        try:
            with shared.working:
                if not found.maintain(quiet):
                    return
        except Exception as error:  # the owner raises it in the next call of its user
            found.note_failure(error)
            return
        del found


_all_shared: weakref.WeakSet[_Shared] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """End all threads before the interpreter exits; each finishes the work that it has begun."""
    for shared in list(_all_shared):
        thread = shared.thread
        _stop(shared)
        if thread is not None:
            thread.join(_EXIT)
