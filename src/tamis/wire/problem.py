"""A failure as RFC 9457 describes it."""

from __future__ import annotations

import msgspec

__all__ = ["Problem"]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request failed (RFC 9457)."""

    type: str
    """A name for the kind of problem, such as ``urn:tamis:problem:rule-syntax``."""
    title: str
    status: int
    detail: str = ""
    rule: str | int | None = None
    """The id of the rule that was refused."""
    position: int | None = None
    """The offset of the culprit in the text of the rule."""
    excerpt: str | None = None
    """The text around the position, with a caret under it on the next line."""
    event: int | None = None
    """The number of the event that was refused."""
    revision: int | None = None
    """The current revision, where another one was expected."""
    earliest: int | None = None
    """The earliest number that is still there."""
    limit: int | float | None = None
    """The limit that was exceeded."""
