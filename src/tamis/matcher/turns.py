"""Short turns for threads, while one of them works for long.

A thread that runs Python code gives way only every 5 ms by default, so a reader that comes back
from a kernel would wait that long for each segment it looks at. While a writer or a merge
is at work, turns are shorter. The setting is one for the whole process, so it is changed for
as short as possible, and put back when the last of those who asked for it is done.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["short_turns"]

_SHORT = 5e-5
"""Seconds; a switch itself takes a few microseconds."""

_lock = threading.Lock()
_asking = 0
_before = 0.0
_set = 0.0


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads take short turns inside; may be nested, and used by several threads at once."""
    global _asking, _before, _set
    with _lock:
        _asking += 1
        if _asking == 1 and sys.getswitchinterval() > _SHORT:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(_SHORT)
            _set = sys.getswitchinterval()
    try:
        yield
    finally:
        with _lock:
            _asking -= 1
            # Whoever changed it in the meantime wanted it so.
            if _asking == 0 and _before and sys.getswitchinterval() == _set:
                sys.setswitchinterval(_before)
            if _asking == 0:
                _before = 0.0
