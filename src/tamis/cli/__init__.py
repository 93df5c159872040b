"""The command ``tamis``.

Results go to standard output, everything else to standard error. Bad input prints one line there
and exits with code 1; wrong usage exits with code 2. A progress bar appears on a terminal only.
"""

from __future__ import annotations

import logging
import os
import sys

from tamis.cli.app import app
from tamis.files.unprintable import PrintableFormatter
from tamis.interrupts import raise_at_interrupt

__all__ = ["app", "main"]


def main() -> None:
    """Run the command."""
    raise_at_interrupt()
    _replace_closed_streams()
    # Explanations and messages use characters that not every terminal can show.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PrintableFormatter())
    try:
        app(prog_name="tamis")
    except KeyboardInterrupt:
        sys.exit(130)


def _replace_closed_streams() -> None:
    """Open what the caller has closed, so that no other file gets the number of such a stream.

    Reading or writing results then fails, and messages are dropped.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
