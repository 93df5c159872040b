"""Ctrl-C while the command ``tamis`` imports its modules ends the process without a traceback.

Python imports the package before any code of the command runs, so the package sees to it.
Programs that import Tamis keep their own handling of signals.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import PurePath

__all__ = ["end_at_interrupt", "raise_at_interrupt"]


def end_at_interrupt() -> None:
    """Let an interrupt end the process, if it is the command; an ignored one stays ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_interrupt() -> None:
    """Let an interrupt raise `KeyboardInterrupt` again, so that the command can clean up."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    """Whether the process was started as ``tamis`` or as ``python -m tamis``."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program != "-m":
        return PurePath(program).stem == "tamis"
    # Python has not replaced the name of the program yet: it still looks for the module.
    module = sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] if "-m" in sys.orig_argv else []
    return module == ["tamis"]


end_at_interrupt()
