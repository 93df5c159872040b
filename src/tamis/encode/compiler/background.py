"""What happens when a kernel is called that has no machine code yet.

The call runs the kernel as plain Python (`tamis.encode.compiler.plain`) while another process
compiles it (`tamis.encode.compiler.worker`); a later call finds it on disk. Only where a kernel
has so many items to go through that compiling takes less time does the call wait. A caller that
wants compiled kernels, such as ``tamis warmup``, compiles them in place.

The environment variable TAMIS_KERNELS changes that for a process: with ``wait`` every call waits
until its kernels are compiled, with ``plain`` nothing is ever compiled.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from tamis.encode.compiler.cache import KernelMissingError, lock_kernel, only_load, write_folder
from tamis.encode.compiler.plain import run_plainly

__all__ = ["call_when_started", "compile_in_place", "find_code"]

_LARGE = 1_000_000
"""For this number of items plain Python takes about five seconds, as long as compiling."""

_load_or_compile = CPUDispatcher._compile_for_args
"""What Numba does when a kernel is called with arguments of new types."""

_in_place = 0
"""How many callers want kernels to be compiled in place."""

_started: list[Callable[[], None]] = []


def call_when_started(action: Callable[[], None]) -> None:
    """Have `action` called once this process begins to compile kernels in the background."""
    _started.append(action)


@contextlib.contextmanager
def compile_in_place() -> Iterator[None]:
    """Within this context, calls wait until their kernels are compiled, in every thread."""
    global _in_place
    _in_place += 1
    try:
        yield
    finally:
        _in_place -= 1


def find_code(dispatcher: Any, per_event: bool, *arguments: Any) -> Callable[..., Any]:
    """What to call for a kernel whose machine code is not in this process.

    Parameters
    ----------
    dispatcher
        The kernel.
    per_event
        Whether the kernel looks at few items of its arrays, however large they are.
    arguments
        What it is called with.
    """
    mode = "wait" if _in_place else os.environ.get("TAMIS_KERNELS", "background")
    request = _requests.get(dispatcher)
    if request is None or request.done.is_set():
        try:
            with only_load():
                code: Callable[..., Any] = _load_or_compile(dispatcher, *arguments)
            _requests.pop(dispatcher, None)
            return code
        except KernelMissingError as missing:
            if mode == "wait" or (mode != "plain" and not _can_ask_another_process()):
                with lock_kernel(dispatcher.py_func):
                    return _load_or_compile(dispatcher, *arguments)  # type: ignore[no-any-return]
            if mode == "plain":
                return run_plainly(dispatcher)
            if request is not None and request.was_of_no_use(missing.signature):
                # The other process cannot compile it, or cannot write it where this one finds it:
                # the disk may be full. This process can compile it, or says why not.
                return _load_or_compile(dispatcher, *arguments)  # type: ignore[no-any-return]
            request = _requests[dispatcher] = _Request(missing.signature)
            _send(dispatcher.py_func, missing.signature, request)
    if mode == "wait" or (not per_event and _size(arguments) > _LARGE):
        request.done.wait()
        return find_code(dispatcher, per_event, *arguments)
    return run_plainly(dispatcher)


def _can_ask_another_process() -> bool:
    """Whether another process can run Tamis, and has a folder in which this one finds its kernels.

    An application with Python inside cannot start it.
    """
    is_python = Path(sys.executable or "").name.startswith(("python", "pypy"))
    return is_python and not getattr(sys, "frozen", False) and write_folder() is not None


def _size(values: tuple[Any, ...]) -> int:
    """How many items all arrays in nested tuples have."""
    return sum(
        value.size if isinstance(value, np.ndarray) else _size(value)
        for value in values
        if isinstance(value, np.ndarray | tuple)
    )


class _Request:
    """A kernel that another process is to compile."""

    def __init__(self, signature: Any) -> None:
        self.signature = signature
        self.done = threading.Event()
        self.succeeded: bool | None = None
        """None if the other process ended first, for example because it was idle."""

    def was_of_no_use(self, missing: Any) -> bool:
        """Whether the other process was done with it, and these types still lack machine code."""
        if self.succeeded is False:
            return True
        return self.succeeded is True and self.signature == missing

    def finish(self, succeeded: bool | None) -> None:
        self.succeeded = succeeded
        self.done.set()


_requests: dict[Any, _Request] = {}
"""The last request of each kernel."""

_lock = threading.Lock()
_worker: _Worker | None = None


def _send(function: Any, signature: Any, request: _Request) -> None:
    """Send a request to the other process, and start that first if need be."""
    global _worker
    packed = _pack(function, signature)
    with _lock:
        for _ in range(2):  # The process may end while idle, just as this request arrives.
            try:
                if _worker is None or not _worker.is_running:
                    _worker = _Worker()
                _worker.send(packed, request)
                return
            except OSError:
                _worker = None
    request.finish(False)


def _pack(function: Any, signature: Any) -> bytes:
    """A request as `tamis.encode.compiler.worker` reads it."""
    request: bytes = dumps((function.__module__, function.__qualname__, signature))
    return struct.pack("<I", len(request)) + request


class _Worker:
    """The other process, as seen from this one."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            # Both use the same folder, even if it is a temporary one.
            "TAMIS_KERNEL_CACHE": str(write_folder()),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tamis.encode.compiler.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # It completes its work when this process is interrupted.
        )
        self._pending: list[_Request] = []
        self.is_running = True
        threading.Thread(target=self._read_replies, name="tamis-kernels", daemon=True).start()
        for action in _started:
            action()

    def send(self, packed: bytes, request: _Request) -> None:
        assert self._process.stdin is not None
        self._pending.append(request)
        try:
            self._process.stdin.write(packed)
            self._process.stdin.flush()
        except OSError:
            self._pending.remove(request)
            raise

    def _read_replies(self) -> None:
        assert self._process.stdout is not None
        while reply := self._process.stdout.read(1):
            self._pending.pop(0).finish(reply == b"1")
        self.is_running = False
        self._process.wait()
        while self._pending:
            self._pending.pop().finish(None)


def _forget_worker() -> None:
    """A forked child must not write to the pipe of its parent."""
    global _worker, _lock
    _worker, _lock = None, threading.Lock()
    _requests.clear()


os.register_at_fork(after_in_child=_forget_worker)
