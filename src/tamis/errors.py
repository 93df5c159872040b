"""All errors that Tamis raises on purpose.

::

    TamisError
    ├── RuleError               a rule is refused; knows its id and the position
    │   ├── RuleSyntaxError       its text or JSON does not parse; shows the place
    │   ├── RuleTooLargeError     it has too many nodes, or is nested too deep
    │   ├── PatternError          a LIKE pattern or regular expression in it is invalid
    │   └── DuplicateRuleError    its id is taken
    ├── UnknownRuleError        no rule has that id (also a KeyError)
    ├── UnknownDocumentError    no document has that id (also a KeyError)
    ├── UnknownSubscriptionError  no subscription has that name (also a KeyError)
    ├── SubscriptionError       a subscription, an audience or an acknowledgement is refused
    ├── GoneError               a cursor lies before the events that are kept; knows the earliest
    ├── EventError              an event is not a mapping, or has a value Tamis cannot read
    │   └── TimeLimitError        its search took longer than the limit
    ├── SchemaError             a schema is malformed, or a rule or an event contradicts it
    ├── InputFileError          a file is missing, empty or malformed; knows the line
    ├── StorageError            a directory of stored rules cannot be opened, read or written
    │   ├── CorruptFileError      one of its files is damaged; knows which
    │   └── LockedError           another process writes to it; knows its pid
    ├── BackgroundError         background work failed; no rule is lost
    ├── UnknownEngineError      no engine has that name
    └── MissingExtraError       an optional dependency is not installed (also an ImportError)

A message names the culprit and, where there is one, the fix. It is one line long, except that
:class:`RuleSyntaxError` also shows the text with a caret under the position.
"""

from __future__ import annotations

import errno
import reprlib
import signal
import warnings
from collections.abc import Mapping
from traceback import walk_tb
from types import MappingProxyType

__all__ = [
    "BackgroundError",
    "CorruptFileError",
    "DuplicateRuleError",
    "EventError",
    "GoneError",
    "InputFileError",
    "LockedError",
    "MissingExtraError",
    "PatternError",
    "RuleError",
    "RuleSyntaxError",
    "RuleTooLargeError",
    "SchemaError",
    "StorageError",
    "SubscriptionError",
    "TamisError",
    "TimeLimitError",
    "UnknownDocumentError",
    "UnknownEngineError",
    "UnknownRuleError",
    "UnknownSubscriptionError",
    "combine_errors",
    "refusal_of",
    "report_defect",
]

_QUOTED = 200
"""How many characters of a rule are quoted that a defect refuses."""

_EXCERPT = 60
"""How many characters of a rule's text are shown on each side of the caret."""


class TamisError(Exception):
    """Base class of all errors that Tamis raises."""


class RuleError(TamisError):
    """A rule is refused.

    Attributes
    ----------
    message
        The message without the rule's id.
    rule_id
        The id of the rule, or None while it is not known.
    position
        The offset of the culprit in the rule's text, if it has one.
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
        The text that does not parse.
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
    """Another rule has the same id, in the matcher or earlier in the same batch."""


class UnknownRuleError(TamisError, KeyError):
    """No rule has that id."""

    def __str__(self) -> str:
        # KeyError would show the message's repr.
        return str(self.args[0])


class UnknownDocumentError(TamisError, KeyError):
    """No document has that id."""

    def __str__(self) -> str:
        # KeyError would show the message's repr.
        return str(self.args[0])


class SubscriptionError(TamisError):
    """A subscription, a webhook, an audience or an acknowledgement is refused."""


class UnknownSubscriptionError(TamisError, KeyError):
    """No subscription has that name."""

    def __str__(self) -> str:
        # KeyError would show the message's repr.
        return str(self.args[0])


class GoneError(TamisError):
    """A cursor lies before the events that are kept.

    Attributes
    ----------
    earliest
        The sequence number of the first event that is kept.
    """

    def __init__(self, message: str, *, earliest: int) -> None:
        super().__init__(message)
        self.earliest = earliest


class EventError(TamisError):
    """An event is not a mapping, or has a value that Tamis cannot read.

    Attributes
    ----------
    refused
        Of many events, those that were found to be refused: the reason for each by its number.
    """

    refused: Mapping[int, TamisError] = MappingProxyType({})


class TimeLimitError(EventError):
    """A search took longer than the limit ``milliseconds``. Nothing was found or changed."""


class SchemaError(TamisError):
    """A schema is malformed, or a rule or an event contradicts it.

    Attributes
    ----------
    refused
        As in :class:`EventError`.
    """

    refused: Mapping[int, TamisError] = MappingProxyType({})


class InputFileError(TamisError):
    """A file is missing, empty or malformed.

    Attributes
    ----------
    path
        The file, as the caller named it.
    line
        The 1-based line number of the culprit, if it has one.
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

    @property
    def is_full(self) -> bool:
        """Whether there is no space left on the disk, or in the user's share of it."""
        cause = self.__cause__
        return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


class CorruptFileError(StorageError):
    """A file of stored rules is damaged. Tamis leaves it as it is, and answers nothing from it."""


class LockedError(StorageError):
    """Another process writes to a directory of stored rules.

    Attributes
    ----------
    pid
        The id of that process, if it is known.
    """

    def __init__(self, message: str, *, path: str, pid: int | None = None) -> None:
        super().__init__(message, path=path)
        self.pid = pid


class BackgroundError(TamisError):
    """Background work, such as merging segments, failed. No rule is lost, and answers are right.

    The next call that writes raises it, without having changed anything.
    """


class UnknownEngineError(TamisError):
    """No engine has that name; the message lists those that exist."""


class MissingExtraError(TamisError, ImportError):
    """An optional dependency is not installed; the message has the command that installs it."""


def combine_errors(errors: Mapping[int, EventError | SchemaError]) -> EventError | SchemaError:
    """One error for several events: that of the first, with its number, which knows all."""
    number = min(errors)
    combined = type(errors[number])(f"event {number}: {errors[number]}")
    combined.refused = MappingProxyType(dict(errors))
    return combined


def refusal_of(error: Exception, source: object) -> RuleError | SchemaError:
    """The error that refuses the rule `source` alone, while `error` is being handled.

    An exception that nobody expects is a defect of Tamis. It refuses one rule, and not the batch
    that it came with. An error that says nothing about the rule is raised.
    """
    if isinstance(error, RuleError | SchemaError):
        return error
    if isinstance(error, TamisError | MemoryError) or _is_of_signal(error):
        raise error
    text = repr(source[:_QUOTED]) if isinstance(source, str) else reprlib.repr(source)
    refusal = RuleError(
        f"Tamis cannot read this rule because of a defect of its own, please report it: {error!r}, "
        f"in {text}"
    )
    refusal.__cause__ = error
    return refusal


def report_defect(error: Exception) -> None:
    """Warn that a fast way failed for a reason that nobody expects; the careful way follows."""
    if isinstance(error, MemoryError) or _is_of_signal(error):
        raise error
    warnings.warn(
        f"Tamis takes a slower way because of a defect of its own, please report it: {error!r}",
        RuntimeWarning,
        stacklevel=3,
    )


def _is_of_signal(error: Exception) -> bool:
    """Whether a signal handler of the application has raised the error, wherever we were."""
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = {getattr(getattr(one, "__func__", one), "__code__", None) for one in handlers}
    frames = walk_tb(error.__traceback__)
    return any(frame.f_code in codes for frame, _ in frames)


def _excerpt(text: str, position: int) -> str:
    """Cut out the line of `text` around `position`, with a caret under it."""
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line_end = len(text) if line_end < 0 else line_end
    start = max(line_start, position - _EXCERPT)
    end = min(line_end, position + _EXCERPT)
    head = "…" if start > line_start else ""
    tail = "…" if end < line_end else ""
    # The width of a tab depends on the terminal; a space keeps the caret in place.
    shown = text[start:end].replace("\t", " ")
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + position - start)}^"
