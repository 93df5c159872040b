"""What every importer gives, and how it goes through what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tamis.errors import DuplicateRuleError, RuleError
from tamis.expr.weights import RuleWeights
from tamis.importers.entries import Entry
from tamis.matcher.rule import Rule, RuleId

__all__ = ["Imported", "Refused", "import_entries"]


class Refused(NamedTuple):
    """A rule that was not taken."""

    id: RuleId | None
    """None where the source does not tell it."""
    place: str
    """Where it stands: a file, and the line in it if there is one."""
    reason: str

    def __str__(self) -> str:
        name = "" if self.id is None else f"rule {self.id!r}: "
        # What a library has to say may take several lines.
        return f"{self.place}: {name}{' '.join(self.reason.split())}"


class Imported(NamedTuple):
    """What came of a source."""

    rules: list[Rule]
    """In the order of the source; ``Matcher.add_many`` takes them."""
    refused: list[Refused]
    """Every rule of the source that is not among `rules`."""


def import_entries(
    entries: Iterable[Entry],
    identify: Callable[[Entry], tuple[RuleId, Any]],
    take: Callable[[RuleId, Any], Rule],
) -> Imported:
    """Take every rule that is not refused by a `RuleError`.

    What is taken is checked as a collection would check it when it is added, so that adding all of
    it later refuses none.

    Parameters
    ----------
    entries
        What the source holds.
    identify
        Tells an entry's id and what is to be taken.
    take
        Makes a rule of that.
    """
    result = Imported([], [])
    seen: dict[RuleId, str] = {}
    for entry in entries:
        id = entry.id
        try:
            id, content = identify(entry)
            if id in seen:
                raise DuplicateRuleError(f"the id is taken by {seen[id]}")
            rule = take(id, content)
            if rule.weights:
                RuleWeights.of(rule.weights, rule.expr)
        except RuleError as error:
            id = error.rule_id if id is None else id
            result.refused.append(Refused(id, entry.place, error.message))
        except RecursionError:
            result.refused.append(Refused(id, entry.place, "the rule is nested too deep"))
        else:
            seen[id] = entry.place
            result.rules.append(rule)
    return result
