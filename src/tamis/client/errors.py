"""What a client raises: the errors of a matcher where there is one, else `RequestError`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from tamis.errors import (
    DuplicateRuleError,
    EventError,
    GoneError,
    PatternError,
    RuleError,
    RuleTooLargeError,
    SchemaError,
    SubscriptionError,
    TamisError,
    TimeLimitError,
    UnknownRuleError,
    UnknownSubscriptionError,
)
from tamis.wire.problem import Problem

__all__ = ["RequestError", "to_error"]


class RequestError(TamisError):
    """A request failed, or the server cannot be reached.

    Attributes
    ----------
    status
        The HTTP status; None if there was no answer.
    problem
        What the server says about it; None if it says nothing.
    """

    def __init__(
        self, message: str, *, status: int | None = None, problem: Problem | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


def _rule_error(kind: type[RuleError]) -> Callable[[Problem], TamisError]:
    def make(problem: Problem) -> TamisError:
        # The detail names the rule already, so the error does not have to.
        return kind(problem.detail, position=problem.position)

    return make


def _plain(kind: type[TamisError]) -> Callable[[Problem], TamisError]:
    return lambda problem: kind(problem.detail)


_ERRORS: Final[dict[str, Callable[[Problem], TamisError]]] = {
    "rule-exists": _rule_error(DuplicateRuleError),
    "rule-syntax": _rule_error(RuleError),
    "rule-too-large": _rule_error(RuleTooLargeError),
    "rule-pattern": _rule_error(PatternError),
    "rule-refused": _rule_error(RuleError),
    "rule-not-found": _plain(UnknownRuleError),
    "search-too-long": _plain(TimeLimitError),
    "event-refused": _plain(EventError),
    "schema-violated": _plain(SchemaError),
    "subscription-not-found": _plain(UnknownSubscriptionError),
    "subscription-refused": _plain(SubscriptionError),
    "other-collection": lambda problem: GoneError(problem.detail, earliest=problem.earliest or 0),
    "messages-gone": lambda problem: GoneError(problem.detail, earliest=problem.earliest or 0),
}


def to_error(status: int, body: bytes, headers: Any) -> TamisError:
    """The error for an answer that is not a success."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        where = headers.get("server") or "the server"
        return RequestError(f"{where} answered {status}", status=status)
    make = _ERRORS.get(problem.type.rpartition(":")[2])
    if make is not None:
        return make(problem)
    return RequestError(problem.detail or problem.title, status=status, problem=problem)
