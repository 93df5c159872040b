"""Errors as RFC 9457 problems: a type, a title, a status, a detail, and what the error knows.

A rule that does not parse comes back with its ``position`` and the ``excerpt``: the line around it
with a caret under the culprit.
"""

from __future__ import annotations

import errno
from typing import Any, Final

import msgspec

from tamis.errors import (
    CorruptFileError,
    DuplicateRuleError,
    EventError,
    GoneError,
    LockedError,
    MissingExtraError,
    PatternError,
    RuleError,
    RuleSyntaxError,
    RuleTooLargeError,
    SchemaError,
    StorageError,
    SubscriptionError,
    TamisError,
    TimeLimitError,
    UnknownDocumentError,
    UnknownRuleError,
    UnknownSubscriptionError,
)
from tamis.wire.problem import Problem

__all__ = ["ProblemError", "to_problem"]

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ProblemError(Exception):
    """A request fails, with this status and this problem.

    Parameters
    ----------
    status
        The HTTP status.
    kind
        The last part of the type, in words with hyphens.
    detail
        What a person needs to know.
    headers
        Header fields of the answer.
    more
        Further members of the problem.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.headers = headers or {}
        self.problem = Problem(
            f"urn:tamis:problem:{kind}",
            kind.replace("-", " ").capitalize(),
            status,
            detail,
            **more,
        )


_KINDS: Final[list[tuple[type[TamisError], int, str]]] = [
    (DuplicateRuleError, 409, "rule-exists"),
    (RuleSyntaxError, 422, "rule-syntax"),
    (RuleTooLargeError, 422, "rule-too-large"),
    (PatternError, 422, "rule-pattern"),
    (RuleError, 422, "rule-refused"),
    (UnknownRuleError, 404, "rule-not-found"),
    (UnknownSubscriptionError, 404, "subscription-not-found"),
    (SubscriptionError, 422, "subscription-refused"),
    (GoneError, 410, "messages-gone"),
    (UnknownDocumentError, 404, "document-not-found"),
    (TimeLimitError, 504, "search-too-long"),
    (EventError, 422, "event-refused"),
    (SchemaError, 422, "schema-violated"),
    (LockedError, 503, "collection-locked"),
    (CorruptFileError, 500, "collection-damaged"),
    (MissingExtraError, 501, "not-installed"),
]
"""The status and the kind of each error; the first that fits counts."""


def to_problem(error: BaseException) -> ProblemError:
    """The problem that an error of a handler is, for the client."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, StorageError) and not isinstance(error, LockedError | CorruptFileError):
        return _storage_problem(error)
    if isinstance(error, OSError) and error.errno in _FULL:
        return _full_disk()
    for kind, status, name in _KINDS:
        if isinstance(error, kind):
            return ProblemError(status, name, _spell(error), **_members(error))
    if isinstance(error, RecursionError):
        return ProblemError(400, "nested-too-deep", "the body is nested too deep")
    if isinstance(error, msgspec.ValidationError):
        return ProblemError(422, "invalid-request", str(error))
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return ProblemError(400, "malformed-body", f"the body is not valid: {error}")
    if isinstance(error, ValueError | OverflowError):
        return ProblemError(422, "invalid-request", str(error))
    if isinstance(error, MemoryError):
        return ProblemError(503, "out-of-memory", "there is not enough memory for this request")
    return ProblemError(500, "internal-error", "the server failed; its log has the reason")


def _spell(error: TamisError) -> str:
    if isinstance(error, StorageError):
        # Where the files are is the operator's business.
        return error.message
    return error.summary if isinstance(error, RuleSyntaxError) else str(error)


def _members(error: TamisError) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if isinstance(error, RuleError):
        members |= {"rule": error.rule_id, "position": error.position}
    if isinstance(error, RuleSyntaxError) and error.position is not None:
        members["excerpt"] = str(error).partition("\n")[2]
    if isinstance(error, GoneError):
        members["earliest"] = error.earliest
    if isinstance(error, EventError | SchemaError) and error.refused:
        members["event"] = min(error.refused)
    return members


def _storage_problem(error: StorageError) -> ProblemError:
    if error.is_full:
        return _full_disk()
    return ProblemError(500, "storage-failed", _spell(error))


def _full_disk() -> ProblemError:
    return ProblemError(
        507, "disk-full", "the disk is full; nothing of this request was stored, nothing is lost"
    )
