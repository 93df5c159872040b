"""The command ``tamis``.

Results go to standard output, everything else to standard error. Bad input is one line there and
exit code 1, wrong usage exit code 2. A progress bar is shown to people, never to a pipe.
"""

from __future__ import annotations

import sys

from tamis.cli import checking, keeping, looking, making, spark  # noqa: F401  add commands
from tamis.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command."""
    # Not every terminal has all the characters that explanations and messages use.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="tamis")
