"""What the command prints beside the ids of rules: parts of payloads, tags, texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from tamis.errors import UnknownRuleError
from tamis.expr.text.write import to_sql
from tamis.matcher.analysis.near_names import find_near, list_near
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId

if TYPE_CHECKING:
    from tamis.files.matching import MatchBatch

__all__ = ["Details", "add_detail_columns"]

_FIELDS: Final[dict[str, Callable[[Rule], Any]]] = {
    "text": lambda rule: rule.source if isinstance(rule.source, str) else to_sql(rule.source),
    "tags": lambda rule: sorted(rule.tags),
    "priority": lambda rule: rule.priority,
    "payload": lambda rule: rule.payload,
}
"""The fields of a rule that have names of their own; other names are parts of the payload."""


class Details:
    """Looks up what rules carry.

    Parameters
    ----------
    matcher
        The rules.
    names
        ``text``, ``tags``, ``priority``, ``payload``, or keys of payloads; ``owner.name`` leads
        into an object.

    Raises
    ------
    UnknownRuleError
        No rule has one of the names.
    """

    def __init__(self, matcher: Matcher, names: Sequence[str]) -> None:
        self._matcher = matcher
        self.names = tuple(names)
        self._known: dict[RuleId, dict[str, Any]] = {}
        self._check_names()

    def of(self, id: RuleId) -> dict[str, Any]:
        """The details of a rule, by name; those that it lacks are None."""
        found = self._known.get(id)
        if found is None:
            rule = self._matcher.rule(id)
            found = self._known[id] = {name: _look_up(rule, name) for name in self.names}
        return found

    def _check_names(self) -> None:
        missing = {name for name in self.names if name not in _FIELDS}
        seen: set[str] = set()
        for rule in self._matcher.rules() if missing else ():
            if isinstance(rule.payload, dict):
                seen.update(map(str, rule.payload))
                missing -= {name for name in missing if _look_up(rule, name) is not None}
            if not missing:
                return
        for name in missing:
            near = list_near(find_near(name, [*_FIELDS, *seen]))
            raise UnknownRuleError(f"no rule has {name!r} in its payload{near}")


def _look_up(rule: Rule, name: str) -> Any:
    if name in _FIELDS:
        return _FIELDS[name](rule)
    value = rule.payload
    if isinstance(value, dict) and name in value:
        return value[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def add_detail_columns(matches: MatchBatch) -> pa.Table:
    """The table of a batch with a column of texts for each detail; what is no text is JSON."""
    table, details = matches.table, matches.details
    if details is None:
        return table
    ids = table["rule"].to_pylist()
    for name in details.names:
        values = [_to_text(details.of(id)[name]) for id in ids]
        table = table.append_column(name, pa.array(values, pa.string()))
    return table


def _to_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
