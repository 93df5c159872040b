"""Linearizability: finds an order of operations that explains what concurrent threads saw.

A history is a list of operations, each with the moments of its call and its return. It is
linearizable if every operation can be given one moment between the two, so that executed in that
order they give the answers they gave. An operation that an exception ended may have happened at any
moment after its call, or never.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

__all__ = ["Operation", "Step", "find_contradiction"]

Kind: TypeAlias = Literal["add", "replace", "remove", "match"]
Rules: TypeAlias = frozenset[str]

NEVER: Final = 1 << 62
"""The moment at which an interrupted operation returns."""


class Step(Protocol):
    """An operation of a history, whatever it works on."""

    @property
    def called(self) -> int:
        """The moment of its call."""

    @property
    def returned(self) -> int:
        """The moment of its return."""

    @property
    def succeeded(self) -> bool | None:
        """None if it was interrupted, so that it may not have happened."""

    def follow(self, state: Any) -> Any:
        """The state after this operation; None if its answer does not fit to the one before."""


@dataclass(frozen=True)
class Operation:
    """A call and its answer.

    Attributes
    ----------
    kind
        What was called.
    ids
        The rules to add or remove; for a match, those that were found.
    succeeded
        Whether it returned; False if a rule was there already, or was not there. None if it was
        interrupted.
    called, returned
        Moments: numbers that grow.
    """

    kind: Kind
    ids: Rules
    succeeded: bool | None
    called: int
    returned: int

    def follow(self, rules: Rules) -> Rules | None:
        """The rules after this operation; None if its answer does not fit to these rules."""
        if self.kind == "match":
            return rules if rules == self.ids else None
        if self.kind == "replace":
            return rules | self.ids
        fits = not (rules & self.ids) if self.kind == "add" else self.ids <= rules
        if not fits:
            return None if self.succeeded else rules
        if self.succeeded is False:
            return None
        return rules | self.ids if self.kind == "add" else rules - self.ids


def find_contradiction(history: Sequence[Step], first: Hashable = frozenset()) -> str | None:
    """Explain why no order explains a history; None if one does.

    Searches for the order step by step: an operation may come next if no other one returned before
    it was called. Two searches that have placed the same operations and have the same state are
    one.
    """
    operations = sorted(history, key=lambda operation: operation.called)
    required = sum(1 << n for n, o in enumerate(operations) if o.succeeded is not None)
    seen: set[tuple[int, Hashable]] = set()
    open_searches: list[tuple[int, Hashable]] = [(0, first)]
    longest = 0
    while open_searches:
        placed, state = open_searches.pop()
        if placed & required == required:
            return None
        if (placed, state) in seen:
            continue
        seen.add((placed, state))
        longest = max(longest, placed.bit_count())
        earliest = min(
            (o.returned for n, o in enumerate(operations) if not placed >> n & 1), default=NEVER
        )
        for number, operation in enumerate(operations):
            if operation.called > earliest:
                break
            if not placed >> number & 1:
                after = operation.follow(state)
                if after is not None:
                    open_searches.append((placed | 1 << number, after))
    return f"at most {longest} of {len(operations)} operations fit into one order"
