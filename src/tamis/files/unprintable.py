"""Texts for a terminal: what could control it, or change the order of what it shows, is escaped.

Ids, rules and events are data of strangers. A control character of theirs (also one above 127, and
DEL) can move the cursor or change settings of the terminal, and marks of direction can show a
text as another one. Everything that Unicode calls unprintable is escaped.
"""

from __future__ import annotations

import json
import logging

__all__ = ["PrintableFormatter", "escape_json", "escape_unprintable"]


def escape_unprintable(text: str) -> str:
    """`text` with unprintable characters escaped, line breaks too, so that it fills one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escape_json(lines: bytes) -> bytes:
    """The same lines of JSON, with unprintable characters in strings as their codes."""
    if lines.isascii() and b"\x7f" not in lines:
        return lines
    return "\n".join(map(_escape_line, lines.decode().split("\n"))).encode()


def _escape_line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


class PrintableFormatter(logging.Formatter):
    """Formats messages of the log, whose lines show what is unprintable escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, and the traceback if there is one."""
        return "\n".join(map(escape_unprintable, super().format(record).split("\n")))
