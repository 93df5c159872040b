"""The process that compiles kernels for another one: ``python -m tamis.encode.compiler.worker``.

It takes requests from standard input, and writes one byte for each: 1 once the kernel is on disk,
0 if it could not be compiled or has no folder any more. When the other process has ended, it
completes what was requested, so that the next process finds the kernels.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import queue
import signal
import struct
import sys
import threading
from pathlib import Path
from typing import IO, Any

from tamis.encode.compiler.background import compile_in_place
from tamis.encode.compiler.cache import lock_kernel

__all__: list[str] = []

_IDLE_SECONDS = 60.0


def _main() -> None:
    # Ctrl-C ends the process that the user sees, not this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    folder = Path(os.environ["TAMIS_KERNEL_CACHE"])
    with compile_in_place(), contextlib.suppress(queue.Empty):
        while (request := requests.get(timeout=_IDLE_SECONDS)) is not None:
            # Nobody would find a kernel in a folder that was removed.
            _reply(folder.is_dir() and _compile(request))
    # The thread still reads; nothing is left to do that would be worth waiting for it.
    os._exit(0)


def _read_requests(stream: IO[bytes], requests: queue.SimpleQueue[bytes | None]) -> None:
    """Take requests at once, so that the other process never waits to write one."""
    while len(size := stream.read(4)) == 4:
        requests.put(stream.read(*struct.unpack("<I", size)))
    requests.put(None)


def _compile(request: bytes) -> bool:
    """Compile one kernel; says whether that succeeded."""
    try:
        module, name, signature = pickle.loads(request)
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        with lock_kernel(found.py_func):
            found.compile(signature)
    except Exception:
        return False
    return True


def _reply(compiled: bool) -> None:
    with contextlib.suppress(OSError):  # The other process has ended.
        sys.stdout.buffer.write(b"1" if compiled else b"0")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main()
