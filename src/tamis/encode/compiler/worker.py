"""The process that compiles kernels for another one: ``python -m tamis.encode.compiler.worker``.

It takes requests from standard input, and writes one byte for each: 1 once the kernel is on disk,
0 if it could not be compiled. When the other process has ended, it completes what was requested,
so that the next process finds the kernels; unless their folder was removed meanwhile.
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
    is_alone = threading.Event()
    reader = threading.Thread(
        target=_read_requests, args=(sys.stdin.buffer, requests, is_alone), daemon=True
    )
    reader.start()
    folder = Path(os.environ["TAMIS_KERNEL_CACHE"])
    with compile_in_place(), contextlib.suppress(queue.Empty):
        while (request := requests.get(timeout=_IDLE_SECONDS)) is not None:
            if is_alone.is_set() and not folder.is_dir():
                break
            _reply(_compile(request))
    # The thread still reads; nothing is left to do that would be worth waiting for it.
    os._exit(0)


def _read_requests(
    stream: IO[bytes], requests: queue.SimpleQueue[bytes | None], is_alone: threading.Event
) -> None:
    """Take requests at once, so that the other process never waits to write one.

    `is_alone` is set when the other process has ended.
    """
    while len(size := stream.read(4)) == 4:
        requests.put(stream.read(*struct.unpack("<I", size)))
    is_alone.set()
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
