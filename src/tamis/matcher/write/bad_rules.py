"""Rules that are refused: reported, or raised."""

from __future__ import annotations

from typing import Any, NamedTuple

from tamis.errors import RuleError, SchemaError

__all__ = ["BadRule", "refuse"]


class BadRule(NamedTuple):
    """A rule that was refused and skipped."""

    id: Any
    position: int | None
    """The offset of the culprit in the rule's text, if it is known."""
    message: str

    @classmethod
    def of(cls, id: Any, error: RuleError | SchemaError) -> BadRule:
        """The rule `id`, refused with `error`."""
        position = error.position if isinstance(error, RuleError) else None
        return cls(id, position, error.message if isinstance(error, RuleError) else str(error))


def refuse(id: Any, error: RuleError | SchemaError, bad: list[BadRule] | None) -> None:
    """Append the rule `id` to `bad`; without such a list, raise the error."""
    if bad is not None:
        bad.append(BadRule.of(id, error))
        return
    if isinstance(error, RuleError):
        error.rule_id = id
    raise error
