"""The text that every match of a pattern contains.

A value without that text cannot match, and finding texts takes one pass for all patterns together.
The text is a necessary condition only; where an expression is hard to read, there is none.
"""

from __future__ import annotations

import re
from typing import Final

from tamis.expr.model import Op, Predicate
from tamis.expr.patterns import like_parts

__all__ = ["required_text", "required_text_of_regex"]

_SHORTEST: Final = 2
"""A single character is in most values, and finding it tells little."""

_REPEAT: Final = re.compile(r"[*?]|\{[0-9]+(?:,[0-9]*)?\}|\+")
_GROUP: Final = re.compile(r"\(\?(?:P?<\w+>|(?P<flags>[a-zA-Z-]*)(?P<end>[:)]))")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_NOT_TEXT: Final = frozenset("dDwWsSbBAzCntrfva")
"""The letters after a backslash that stand for one character of many, or for a place."""


def required_text(predicate: Predicate) -> str | None:
    """The longest text that each string that satisfies `predicate` contains.

    For an ILIKE it is in folded strings. None if there is no such text, or it is very short.
    """
    if predicate.op is Op.RLIKE:
        return required_text_of_regex(str(predicate.values[0]))
    runs = [""]
    for part in like_parts(predicate):
        if part:
            runs[-1] += part
        else:
            runs.append("")
    return _choose(runs)


def required_text_of_regex(regex: str) -> str | None:
    """The longest text that each match of a valid RE2 expression contains, as far as it is seen."""
    try:
        return _choose(_Reader(regex).read_branches())
    except _HardToRead:
        return None


def _choose(runs: list[str]) -> str | None:
    longest = max(runs, key=len, default="")
    return longest if len(longest) >= _SHORTEST else None


class _HardToRead(Exception):
    """The expression has syntax whose texts are not read here."""


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, regex: str) -> None:
        self.regex = regex
        self.at = 0

    def read_branches(self) -> list[str]:
        """The texts of an expression up to its end or a closing parenthesis."""
        runs = self.read_sequence()
        while self.next() == "|":
            self.at += 1
            self.read_sequence()
            runs = []  # one branch is enough, so no text of a branch is required
        return runs

    def next(self) -> str:
        return self.regex[self.at : self.at + 1]

    def read_sequence(self) -> list[str]:
        runs = [""]
        while (char := self.next()) not in ("", "|", ")"):
            if char == "(":
                runs += [*self.read_group(), ""]
                continue
            text = self.read_one(char)
            repeat = self.skip_repeat()
            if text is None or (repeat and repeat != "+"):
                runs.append("")
            elif repeat:
                runs += [runs.pop() + text, ""]
            else:
                runs[-1] += text
        return runs

    def read_one(self, char: str) -> str | None:
        """The next character if it stands for itself; None for a class or a place."""
        if char == "[":
            found = _CLASS.match(self.regex, self.at)
            if found is None:
                raise _HardToRead
            self.at = found.end()
            return None
        if char != "\\":
            self.at += 1
            return None if char in ".^$" else char
        escaped = self.regex[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped in _NOT_TEXT:
            return None
        if not escaped or escaped.isalnum() or escaped == "_":
            raise _HardToRead
        return escaped

    def read_group(self) -> list[str]:
        """The texts of a group, none if it may be left out."""
        opened = _GROUP.match(self.regex, self.at)
        if opened is None and self.regex.startswith("(?", self.at):
            raise _HardToRead
        if opened is not None and "i" in (opened["flags"] or ""):
            raise _HardToRead
        self.at = self.at + 1 if opened is None else opened.end()
        if opened is not None and opened["end"] == ")":
            # After mere flags, a repetition is one of what stands before them.
            if self.skip_repeat():
                raise _HardToRead
            return []
        runs = self.read_branches()
        self.at += 1
        repeat = self.skip_repeat()
        return runs if repeat in ("", "+") else []

    def skip_repeat(self) -> str:
        """Skip repetitions; an empty text if there is none, ``+`` if all are at least one."""
        signs = []
        while (found := _REPEAT.match(self.regex, self.at)) is not None:
            signs.append(found[0])
            self.at = found.end()
        if not signs:
            return ""
        # In a+? the question mark only says which match is preferred.
        lazy = len(signs) > 1 and signs[-1] == "?"
        return "+" if all(sign == "+" for sign in (signs[:-1] if lazy else signs)) else "*"
