"""Add the rows of a table of rules to a matcher, on an executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tamis.errors import RuleError, RuleSyntaxError, SchemaError, refusal_of
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import OPTIONAL_FIELDS, read_texts, rule_of_fields
from tamis.matcher.write.bad_rules import BadRule, refuse

__all__ = [
    "DELETED",
    "ID",
    "LOGIC",
    "PRIORITY",
    "RULE",
    "SHARD",
    "TAGS",
    "VALID_FROM",
    "VALID_UNTIL",
    "RefusedRuleError",
    "add_rows",
]

ID: Final = "id"
RULE: Final = "rule"
LOGIC: Final = "logic"
TAGS: Final = "tags"
PRIORITY: Final = "priority"
VALID_FROM: Final = "valid_from"
VALID_UNTIL: Final = "valid_until"
DELETED: Final = "deleted"
SHARD: Final = "shard"
"""The names of the columns on executors, whatever the user's table calls them."""


class RefusedRuleError(Exception):
    """The first rule that was refused, where refused rules are not skipped."""

    def __init__(self, bad: BadRule) -> None:
        super().__init__(bad.message)
        self.bad = bad


def add_rows(
    matcher: Matcher, rules: pa.Table, logic: str, *, skip: bool, replace: bool = False
) -> list[BadRule]:
    """Add the rules of a table, and return those that were refused.

    A rule that begins with ``{`` is in the JSON form. A table with such rules, or with more than
    texts and logics, is read row by row; any other goes to the matcher as columns.

    Parameters
    ----------
    matcher
        Gets the rules.
    rules
        Has the columns id and rule, and any of `OPTIONAL_FIELDS`. No id is null.
    logic
        The logic of rules that do not name their own.
    skip
        Whether to skip rules that are refused.
    replace
        Whether to replace rules that have the same ids.

    Raises
    ------
    RefusedRuleError
        A rule is refused, and `skip` is false.
    """
    bad: list[BadRule] = []
    try:
        items = (
            rules if _is_plain(rules) else list(_read_rules(rules, logic, bad if skip else None))
        )
        report = matcher.add_many(items, on_error="skip" if skip else "raise", replace=replace)
    except (RuleError, SchemaError) as error:
        raise RefusedRuleError(BadRule.of(getattr(error, "rule_id", None), error)) from error
    return bad + report.bad


def _is_plain(rules: pa.Table) -> bool:
    """Whether the matcher can take these rows as columns."""
    if any(name in rules.column_names for name in OPTIONAL_FIELDS if name != LOGIC):
        return False
    if rules[RULE].null_count:
        return False
    return not pc.any(pc.match_substring_regex(rules[RULE], r"^\s*\{")).as_py()


def _read_rules(rules: pa.Table, logic: str, bad: list[BadRule] | None) -> Iterator[Any]:
    """Read rules row by row; refused ones go to `bad`, or raise if that is None."""
    names = [name for name in (ID, RULE, *OPTIONAL_FIELDS) if name in rules.column_names]
    for batch in rules.select(names).to_batches():
        columns = [batch.column(name).to_pylist() for name in names]
        for values in zip(*columns, strict=True):
            fields = dict(zip(names, values, strict=True))
            try:
                source = _read_source(fields[RULE])
                yield rule_of_fields({**read_texts(fields), RULE: source}, logic)
            except Exception as error:
                refuse(fields[ID], refusal_of(error, fields[RULE]), bad)


def _read_source(text: str | None) -> Any:
    """A rule's text, or the object of its JSON form."""
    if text is None:
        raise RuleError("the rule is null")
    if not text.lstrip().startswith("{"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise RuleSyntaxError(f"malformed JSON: {error}", text=text) from None
