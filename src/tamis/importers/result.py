"""The result of every importer, and the loop that builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tamis.errors import DuplicateRuleError, refusal_of
from tamis.expr.weights import RuleWeights
from tamis.importers.entries import Entry, Identify
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.write.bad_rules import BadRule

__all__ = ["Imported", "Refused", "import_entries"]


class Refused(NamedTuple):
    """A rule that could not be imported."""

    id: RuleId | None
    """None if the source does not say."""
    place: str
    """Where the rule is: a file, and the line in it if there is one."""
    reason: str

    def __str__(self) -> str:
        name = "" if self.id is None else f"rule {self.id!r}: "
        # A library's message may have several lines.
        return f"{self.place}: {name}{' '.join(self.reason.split())}"


class Imported(NamedTuple):
    """The result of reading a source."""

    rules: list[Rule]
    """The rules in the order of the source; ``Matcher.add_many`` takes them."""
    refused: list[Refused]
    """Every other rule of the source."""
    notes: tuple[str, ...] = ()
    """What the system ignores in an imported rule, and the importer left out."""


def import_entries(
    entries: Iterable[Entry],
    identify: Identify,
    build: Callable[[RuleId, Any], Rule],
) -> Imported:
    """Build a rule from every entry; refuse those that raise `RuleError`.

    Rules are checked as a collection checks them, so that adding them later cannot fail.

    Parameters
    ----------
    entries
        The entries of the source.
    identify
        Finds the id and the content of an entry.
    build
        Builds a rule from an id and a content.
    """
    result = Imported([], [])
    places: dict[RuleId, str] = {}
    for entry in entries:
        id = entry.id
        try:
            id, content = identify(entry)
            if id in places:
                raise DuplicateRuleError(f"the id is taken by {places[id]}")
            rule = build(id, content)
            if rule.weights:
                RuleWeights.of(rule.weights, rule.expr)
        except RecursionError:
            result.refused.append(Refused(id, entry.place, "the rule is nested too deep"))
        except Exception as error:
            refusal = BadRule.of(id, refusal_of(error, entry.content))
            id = getattr(error, "rule_id", None) if id is None else id
            result.refused.append(Refused(id, entry.place, refusal.message))
        else:
            places[id] = entry.place
            result.rules.append(rule)
    return result
