"""A thread that tidies up behind writers.

It is there only while there is something to do, and a little longer: a collection that nobody
writes to has none. It holds its owner by a weak reference only, so that an owner whom nobody uses
any more goes, and its thread with it.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol

__all__ = ["Worker"]

_DELAY = 0.005
"""Seconds between a wake-up and the work, in which more may come to do."""

_QUIET = 0.05
"""Seconds without a wake-up after which times count as quiet."""

_LINGER = 1.0
"""Seconds without work after which the thread ends."""

_EXIT = 10.0
"""Seconds that the interpreter's exit waits for work under way."""


class _Owner(Protocol):
    def upkeep(self, quiet: bool) -> bool:
        """Do one piece of work, if there is any; tells whether there was."""

    def note_failure(self, error: Exception) -> None:
        """Take note of what went wrong in `upkeep`."""


class _State:
    """What the thread and its owner share."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.changed = threading.Condition()
        self.working = threading.Lock()
        """Held while the owner works. Nobody forks then: see `_before_fork`."""
        self.woken = False
        self.stopped = False
        self.thread: threading.Thread | None = None


class Worker:
    """Calls `upkeep` of its owner in a thread of its own, after each wake-up until all is done."""

    def __init__(self, owner: _Owner) -> None:
        self._owner = weakref.ref(owner)
        self._state = _State()
        self._finalizer = weakref.finalize(owner, _stop, self._state)
        # At exit there is no reason to hurry an owner that still lives; see `_stop_all`.
        self._finalizer.atexit = False

    def wake(self) -> None:
        """Say that there may be something to do."""
        state = self._state
        with state.changed:
            state.woken = True
            if state.stopped:
                return
            if state.thread is None or not state.thread.is_alive():
                # A thread of its own: after a fork the child has none.
                state.thread = threading.Thread(
                    target=_run, args=(self._owner, state), name="tamis-tidy", daemon=True
                )
                _states.add(state)
                state.thread.start()
            else:
                state.changed.notify()

    def stop(self) -> None:
        """End the thread, and wait until it has."""
        thread = self._state.thread
        _stop(self._state)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._state.stopped = False

    def forget_thread(self) -> None:
        """In a forked child: the thread is not there, and its lock may be held for ever."""
        stopped = self._state.stopped
        self._state.reset()
        self._state.stopped = stopped


def _stop(state: _State) -> None:
    with state.changed:
        state.stopped = True
        state.changed.notify()


def _run(owner: weakref.ref[_Owner], state: _State) -> None:
    while True:
        with state.changed:
            state.changed.wait_for(lambda: state.woken or state.stopped, _LINGER)
            if state.stopped or not state.woken:
                # Under the lock, so that the next wake-up starts another thread.
                state.thread = None
                return
            state.woken = False
            state.changed.wait_for(lambda: state.stopped, _DELAY)
        _work(owner, state, quiet=False)
        with state.changed:
            busy = state.changed.wait_for(lambda: state.woken or state.stopped, _QUIET)
        if not busy:
            _work(owner, state, quiet=True)


def _work(owner: weakref.ref[_Owner], state: _State, quiet: bool) -> None:
    """Let the owner work until nothing is left to do; in quiet times, until they end."""
    while not (state.stopped or (quiet and state.woken)):
        found = owner()
        if found is None:
            return
        try:
            with state.working:
                if not found.upkeep(quiet):
                    return
        except Exception as error:  # whatever it is, the owner tells its user
            found.note_failure(error)
            return
        del found


_states: weakref.WeakSet[_State] = weakref.WeakSet()


_waiting: list[_State] = []
"""Whose work waits for the end of a fork."""


def _before_fork() -> None:
    """Let all threads finish what they are at.

    A lock that one of them holds, of ours, of Numba or of anybody's, would stay held in the child.
    """
    for state in list(_states):
        state.working.acquire()
        _waiting.append(state)


def _after_fork() -> None:
    while _waiting:
        _waiting.pop().working.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


@atexit.register
def _stop_all() -> None:
    """End all threads before the interpreter goes: what they are at is finished first."""
    for state in list(_states):
        thread = state.thread
        _stop(state)
        if thread is not None:
            thread.join(_EXIT)
