"""What a forked child finds: no lock is held by a thread that it does not have.

A fork copies the memory of a process, but only the thread that forks. A lock that another thread
holds at that moment is never released in the child, and what the lock protects may be half
changed. So locks that are held for a short time are taken before a fork and released after it, in
the parent and in the child: the child finds them free and everything as it should be. Locks that
are held for long are replaced in the child by their owners.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from itertools import chain
from typing import Any, Final, Generic, Self, TypeVar, overload

__all__ = ["call_in_child", "computed_once", "hold_during_forks", "parent_had_threads"]

_T = TypeVar("_T")

_PATIENCE: Final = 30.0
"""Seconds that a fork waits for a lock. Then it goes on: background work may take longer, and the
forking thread may hold a lock itself if a signal handler forks. Owners repair what they can."""

_registering = threading.Lock()
_locks: tuple[weakref.WeakSet[Any], ...] = tuple(weakref.WeakSet() for _ in range(4))
"""By rank."""
_held: list[Any] = []
_had_threads = False


class computed_once(Generic[_T]):  # used as a decorator, like property
    """A property that is computed when it is first read, and kept.

    `functools.cached_property` before Python 3.12 holds a lock for all objects of a class while it
    computes: a child that is forked meanwhile waits for ever. Here no lock is held. Threads that
    compute at the same time all get the value of the one that is done first.
    """

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> _T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | _T:
        if instance is None:
            return self
        value: _T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


def hold_during_forks(lock: Any, rank: int) -> None:
    """Take a lock during each fork, for as long as it exists.

    Locks of a lower rank are taken first: a thread that holds a lock waits only for locks of higher
    ranks. The ranks are: 0 for background work, 1 for documents and live trees, 2 for Numba, 3 for
    LLVM.
    """
    with _registering:
        _locks[rank].add(lock)


def call_in_child(function: Callable[[], object]) -> None:
    """Call a function in each forked child, when no lock is held any more."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def parent_had_threads() -> bool:
    """In a forked child: whether the parent had other threads than the one that forked."""
    return _had_threads


def _take_locks() -> None:
    global _had_threads
    _had_threads = threading.active_count() > 1
    if _registering.acquire(timeout=_PATIENCE):
        _held.append(_registering)
        _held.extend(lock for lock in chain(*map(list, _locks)) if lock.acquire(timeout=_PATIENCE))


def _release_locks() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_locks, after_in_parent=_release_locks, after_in_child=_release_locks
    )
