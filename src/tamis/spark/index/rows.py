"""Rows of a table of rules → what :meth:`tamis.Matcher.add_many` takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tamis.errors import RuleError, RuleSyntaxError, SchemaError
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import make_rule, read_weights
from tamis.matcher.write.builder import BadRule

__all__ = ["ID", "LOGIC", "PAYLOAD", "RULE", "TAGS", "WEIGHTS", "Refused", "add_rules"]

ID, RULE, LOGIC, WEIGHTS, PAYLOAD, TAGS = "id", "rule", "logic", "weights", "payload", "tags"
"""What the columns are called on the executors, whatever they are called in the user's table."""

_MORE = (WEIGHTS, PAYLOAD, TAGS)


class Refused(Exception):
    """The first rule that was refused, where one is one too many."""

    def __init__(self, bad: BadRule) -> None:
        super().__init__(bad.message)
        self.bad = bad


def add_rules(
    matcher: Matcher, rules: pa.Table, logic: str, *, skip: bool, replace: bool = False
) -> list[BadRule]:
    """Add the rules of a table, and return those that were refused.

    Texts without anything besides go to the matcher as columns. A rule that begins with ``{`` is
    the JSON form; a table with one of these, or with weights, payloads or tags, goes row by row.

    Parameters
    ----------
    matcher
        Takes the rules.
    rules
        Has the columns id and rule, and any of logic, weights, payload and tags. No id is null.
    logic
        The logic of rules that do not name their own.
    skip
        Whether refused rules are skipped.
    replace
        Whether rules of the same ids are replaced.

    Raises
    ------
    Refused
        A rule is refused, and none is to be skipped.
    """
    bad: list[BadRule] = []
    try:
        items = rules if _is_plain(rules) else list(_items(rules, logic, bad if skip else None))
        report = matcher.add_many(items, on_error="skip" if skip else "raise", replace=replace)
    except (RuleError, SchemaError) as error:
        raise Refused(BadRule.of(getattr(error, "rule_id", None), error)) from error
    return bad + report.bad


def _is_plain(rules: pa.Table) -> bool:
    """Whether the bulk road takes these rows."""
    if any(name in rules.column_names for name in _MORE) or rules[RULE].null_count:
        return False
    return not pc.any(_is_json(rules[RULE])).as_py()


def _is_json(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.match_substring_regex(texts, r"^\s*\{")


def _items(rules: pa.Table, logic: str, bad: list[BadRule] | None) -> Iterator[Any]:
    names = [name for name in (RULE, LOGIC, *_MORE) if name in rules.column_names]
    for batch in rules.to_batches():
        ids = batch.column(ID).to_pylist()
        columns = [batch.column(name).to_pylist() for name in names]
        for id, *values in zip(ids, *columns, strict=True):
            fields = dict(zip(names, values, strict=True))
            try:
                yield make_rule(
                    id,
                    _source(fields[RULE]),
                    fields.get(LOGIC) or logic,
                    read_weights(_json(fields, WEIGHTS)),
                    _json(fields, PAYLOAD),
                    fields.get(TAGS) or (),
                )
            except RuleError as error:
                error.rule_id = id
                if bad is None:
                    raise
                bad.append(BadRule.of(id, error))


def _source(text: str | None) -> Any:
    if text is None:
        raise RuleError("the rule is null")
    if not text.lstrip().startswith("{"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise RuleSyntaxError(f"malformed JSON: {error}", text=text) from None


def _json(fields: dict[str, Any], name: str) -> Any:
    text = fields.get(name)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise RuleError(f"the column of {name} holds no JSON: {error}") from None
