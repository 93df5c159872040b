"""Every error that Tamis raises on purpose.

::

    TamisError
    ├── RuleError               a rule was refused when it was added
    │   ├── RuleSyntaxError       its text or JSON does not parse; knows the position
    │   ├── RuleTooLargeError     too many nodes, or nested too deep
    │   ├── PatternError          its LIKE pattern or regular expression is invalid
    │   └── DuplicateRuleError    its id is taken
    ├── UnknownRuleError        an id that is not in the rule set (also a KeyError)
    ├── UnknownDocumentError    an id that no remembered document has (also a KeyError)
    ├── EventError              an event is no mapping, or holds a value Tamis cannot read
    ├── SchemaError             a schema is malformed, or a rule or an event contradicts it
    ├── InputFileError          a file is missing, empty or malformed; knows the line
    ├── StorageError            a directory of stored rules cannot be opened, read or written
    │   ├── CorruptFileError      one of its files is not as it was written; knows which
    │   └── LockedError           another process writes to it; knows which
    ├── BackgroundError         tidying up behind writers failed; the rules are all there
    ├── UnknownEngineError      an engine name that is not registered
    └── MissingExtraError       an optional dependency is not installed (also an ImportError)

A message names the culprit and the fix, and reads well on one line; only
:class:`RuleSyntaxError` adds lines, to show the text with a caret under the position.
"""

from __future__ import annotations

__all__ = [
    "BackgroundError",
    "CorruptFileError",
    "DuplicateRuleError",
    "EventError",
    "InputFileError",
    "LockedError",
    "MissingExtraError",
    "PatternError",
    "RuleError",
    "RuleSyntaxError",
    "RuleTooLargeError",
    "SchemaError",
    "StorageError",
    "TamisError",
    "UnknownDocumentError",
    "UnknownEngineError",
    "UnknownRuleError",
]

_EXCERPT = 60
"""How many characters of a rule's text are shown on each side of the caret."""


class TamisError(Exception):
    """The base of all errors of Tamis."""


class RuleError(TamisError):
    """A rule was refused.

    Attributes
    ----------
    rule_id
        The id it was to be added under, once that is known.
    position
        The offset of the culprit in the rule's text, where there is one.
    """

    def __init__(
        self, message: str, *, rule_id: str | int | None = None, position: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.rule_id = rule_id
        self.position = position

    def __str__(self) -> str:
        return self.message if self.rule_id is None else f"rule {self.rule_id!r}: {self.message}"


class RuleSyntaxError(RuleError):
    """A rule's text or JSON form does not parse.

    Attributes
    ----------
    text
        The rule as it was given.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str,
        position: int | None = None,
        rule_id: str | int | None = None,
    ) -> None:
        super().__init__(message, rule_id=rule_id, position=position)
        self.text = text

    @property
    def summary(self) -> str:
        """The message on one line, without the text and the caret."""
        where = "" if self.position is None else f" (at character {self.position + 1})"
        return super().__str__() + where

    def __str__(self) -> str:
        if self.position is None:
            return self.summary
        return f"{self.summary}\n{_excerpt(self.text, self.position)}"


class RuleTooLargeError(RuleError):
    """A rule has too many nodes or is nested too deep."""


class PatternError(RuleError):
    """A LIKE pattern or a regular expression is invalid."""


class DuplicateRuleError(RuleError):
    """A rule's id is taken, in the rule set or earlier in the same batch."""


class UnknownRuleError(TamisError, KeyError):
    """An id that is not in the rule set."""

    def __str__(self) -> str:
        # KeyError would show the message's repr.
        return str(self.args[0])


class UnknownDocumentError(TamisError, KeyError):
    """An id that no remembered document has."""

    def __str__(self) -> str:
        # KeyError would show the message's repr.
        return str(self.args[0])


class EventError(TamisError):
    """An event is not a mapping, or holds a value that Tamis cannot read."""


class SchemaError(TamisError):
    """A schema is malformed, or a rule or an event contradicts it."""


class InputFileError(TamisError):
    """A file is missing, empty or malformed.

    Attributes
    ----------
    path
        The file as it was named.
    line
        The 1-based line number of the culprit, where there is one.
    """

    def __init__(self, message: str, *, path: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"


class StorageError(TamisError):
    """A directory of stored rules cannot be opened, read or written.

    Attributes
    ----------
    path
        The directory or the file.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class CorruptFileError(StorageError):
    """A file of stored rules is not as it was written. It is left as it is."""


class LockedError(StorageError):
    """Another process writes to a directory of stored rules.

    Attributes
    ----------
    pid
        That process, where it is known.
    """

    def __init__(self, message: str, *, path: str, pid: int | None = None) -> None:
        super().__init__(message, path=path)
        self.pid = pid


class BackgroundError(TamisError):
    """Tidying up behind writers failed: no rule is lost, and none is found wrongly.

    It is raised by the next call that writes, which has changed nothing then.
    """


class UnknownEngineError(TamisError):
    """An engine name that is not registered."""


class MissingExtraError(TamisError, ImportError):
    """An optional dependency is not installed; the message holds the install line."""


def _excerpt(text: str, position: int) -> str:
    """The line of `text` around `position`, and a caret under it."""
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line_end = len(text) if line_end < 0 else line_end
    start = max(line_start, position - _EXCERPT)
    end = min(line_end, position + _EXCERPT)
    head = "…" if start > line_start else ""
    tail = "…" if end < line_end else ""
    # A tab would be as wide as the terminal likes; one blank keeps the caret in place.
    shown = text[start:end].replace("\t", " ")
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + position - start)}^"
