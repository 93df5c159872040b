"""Refuses rules that are larger than a user's limits."""

from __future__ import annotations

from tamis.errors import RuleTooLargeError
from tamis.expr.model import And, Expr, Not, Or
from tamis.limits import Limits
from tamis.matcher.rule import Rule

__all__ = ["RuleLimits"]


class RuleLimits:
    """Measures rules before they are added, and refuses those that are too large."""

    __slots__ = ("_bytes", "_nodes")

    def __init__(self, limits: Limits) -> None:
        self._bytes = limits.rule_bytes
        self._nodes = limits.rule_nodes

    @classmethod
    def of(cls, limits: Limits) -> RuleLimits | None:
        """The limits on rules; None if there are none."""
        if limits.rule_bytes is None and limits.rule_nodes is None:
            return None
        return cls(limits)

    def allow_texts(self, longest: int) -> bool:
        """Whether all texts up to a size pass, since none can have more nodes than bytes."""
        return all(limit is None or longest <= limit for limit in (self._bytes, self._nodes))

    def check(self, rule: Rule) -> None:
        """Refuse a rule whose text has too many bytes, or whose tree has too many nodes.

        Raises
        ------
        RuleTooLargeError
            It has; the message names the limit.
        """
        if self._bytes is not None:
            text = rule.source if isinstance(rule.source, str) else rule.text
            # A text that is far too long is not encoded first.
            size = len(text) if len(text) > self._bytes else len(text.encode(errors="replace"))
            if size > self._bytes:
                raise RuleTooLargeError(
                    f"the rule has more than {self._bytes:,} bytes, the limit rule_bytes"
                )
        if self._nodes is not None:
            # Every node takes at least a character, so that short texts need not be parsed.
            is_short = isinstance(rule.source, str) and len(rule.source) <= self._nodes
            if not is_short and _has_more_nodes(rule.expr, self._nodes):
                raise RuleTooLargeError(
                    f"the rule has more than {self._nodes:,} nodes, the limit rule_nodes"
                )


def _has_more_nodes(expr: Expr, most: int) -> bool:
    nodes, pending = 0, [expr]
    while pending and nodes <= most:
        node = pending.pop()
        nodes += 1
        if isinstance(node, And | Or):
            pending.extend(node.children)
        elif isinstance(node, Not):
            pending.append(node.child)
    return nodes > most
