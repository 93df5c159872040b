"""The options that all ways of matching share; :func:`tamis.spark.match` documents them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, get_args

from tamis.matcher.published.byte_sizes import read_byte_size
from tamis.matcher.rule import RuleId
from tamis.matcher.selection import Tagged

__all__ = [
    "Ask",
    "At",
    "Explain",
    "Form",
    "MatchKeywords",
    "MatchOptions",
    "Names",
    "OnError",
    "Only",
    "Output",
    "Plan",
    "StreamKeywords",
    "Style",
    "check_ask",
    "list_keywords",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

Ask: TypeAlias = Literal["match", "counts", "first", "top"]
"""Which answers to compute: those of the function of that name."""

Explain: TypeAlias = Literal["explain", "why", "why_not"]
"""Which explanations to compute: those of the method of :class:`tamis.Matcher` of that name."""

Output: TypeAlias = Ask | Explain | Literal["lists", "refused"]
"""What a task computes: answers, all rules of an event in a list, or events that are refused."""

Form: TypeAlias = Literal["pairs", "lists"]
"""Whether matches are pairs of event and rule, or each event has a list of rules."""

Style: TypeAlias = Literal["text", "json"]
"""Whether an explanation is text to read, or a tree in JSON."""

OnError: TypeAlias = Literal["raise", "skip"]
"""Whether a refused event ends the query or is left out."""

Names: TypeAlias = str | Sequence[str] | None
"""One or several columns; None for the default."""

Only: TypeAlias = Tagged | Iterable[RuleId] | None
"""Which rules to consider, as in :meth:`tamis.Matcher.match`."""

At: TypeAlias = datetime | str | None
"""When rules have to be valid: a time, or a column of times."""

Plan: TypeAlias = Literal["auto", "whole", "sharded"]
"""Whether a task maps all shards or some of them."""


class StreamKeywords(TypedDict, total=False):
    """The options of :func:`match` that a stream has, too, for type checkers."""

    keys: Names
    events: Names
    plan: Plan
    memory: int | str | None
    ship: bool
    on_error: OnError
    only: Only
    at: At


class MatchKeywords(StreamKeywords, total=False):
    """The keyword arguments of :func:`match`, for type checkers."""

    version: int | None


@dataclass(frozen=True)
class MatchOptions:
    """The keyword arguments of :func:`match`, checked.

    Raises
    ------
    ValueError
        `plan` or `memory` is not valid.
    """

    keys: Names = None
    events: Names = None
    version: int | None = None
    plan: Plan = "auto"
    memory: int | str | None = None
    ship: bool = False
    on_error: OnError = "raise"
    only: Only = None
    at: At = None

    def __post_init__(self) -> None:
        if not isinstance(self.at, datetime | str | None):
            raise ValueError(f"at is a datetime, or the name of a column of times, not {self.at!r}")
        if self.on_error not in get_args(OnError):
            raise ValueError(f"on_error is 'raise' or 'skip', not {self.on_error!r}")
        if self.plan not in get_args(Plan):
            raise ValueError(f"plan is 'auto', 'whole' or 'sharded', not {self.plan!r}")
        _ = self.memory_bytes

    @property
    def memory_bytes(self) -> int | None:
        """`memory` as a number of bytes; None if it is not given."""
        if self.memory is None:
            return None
        size = read_byte_size(self.memory)
        if size is None:
            raise ValueError(
                f"memory is a number of bytes, or a text such as '8g', not {self.memory!r}"
            )
        return size


def list_keywords(of: type) -> Callable[[_Function], _Function]:
    """Have ``help`` list the options of a function that takes them as ``**options``.

    Parameters
    ----------
    of
        The keywords that it takes: `MatchKeywords` or `StreamKeywords`.
    """
    listed = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=field.type,
        )
        for field in fields(MatchOptions)
        if field.name in of.__annotations__
    ]

    def describe(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]  # help reads it
            parameters=[*own, *listed]
        )
        return function

    return describe


def check_ask(ask: Ask, n: int) -> None:
    """Check the arguments `ask` and `n` of functions that have them."""
    if ask not in get_args(Ask):
        raise ValueError(f"ask is 'match', 'counts', 'first' or 'top', not {ask!r}")
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n is a whole number, at least 0, not {n!r}")
