"""The command ``tamis``.

Results go to standard output, everything else to standard error. Bad input prints one line there
and exits with code 1; wrong usage exits with code 2. A progress bar appears on a terminal only.
"""

from __future__ import annotations

import sys

from tamis.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command."""
    # Explanations and messages use characters that not every terminal can show.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="tamis")
