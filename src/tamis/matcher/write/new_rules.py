"""Reads the rules of `add_many` into columns, without an object for each plain one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.deadline import check_time
from tamis.encode.arrow_arrays import to_numpy
from tamis.errors import RuleError, SchemaError, refusal_of
from tamis.expr.model import LOGICS, Logic
from tamis.matcher.frames import Rows
from tamis.matcher.ids import Ids
from tamis.matcher.inputs import to_arrow
from tamis.matcher.rule import (
    IS_MODEL,
    OPTIONAL_FIELDS,
    Row,
    Rule,
    make_rule,
    read_texts,
    rule_of_fields,
)
from tamis.matcher.rule_columns import RuleColumns, RuleColumnsBuilder
from tamis.matcher.rule_limits import RuleLimits
from tamis.matcher.string_column import Strings
from tamis.matcher.write.bad_rules import BadRule, refuse
from tamis.matcher.write.responsive import giving_way, take_in_steps

__all__ = ["FEW_RULES", "NewRules", "read_rules"]

FEW_RULES: Final = 16
"""Up to this number, rules are read as objects and go to the tail."""

_MORE_COLUMNS: Final = tuple(name for name in OPTIONAL_FIELDS if name != "logic")
"""What a table of rules may have besides id, rule and logic."""

_ROWS: Final = 65_536
"""How many rows of a table are checked at a time."""


class NewRules(NamedTuple):
    """Many rules that are to be added."""

    columns: RuleColumns
    objects: dict[int, Rule]
    """The rules, by place, that are more than a text: models, and rules with weights."""
    unstorable: dict[int, RuleError | SchemaError]
    """Why rules, by place, have no columns: their texts or weights are not valid."""

    @classmethod
    def of(cls, rules: Sequence[Rule]) -> NewRules:
        """The columns of these rules."""
        collector = _Collector("strong", None)
        for some in take_in_steps(rules):
            collector.add_rules(some)
        return collector.finish()

    def are_texts(self) -> NDArray[np.bool_]:
        """Which of the rules are texts, with or without weights."""
        marks: NDArray[np.bool_] = (self.columns.kinds & IS_MODEL) == 0
        marks[list(self.unstorable)] = False
        return marks

    def rule(self, place: int) -> Rule:
        """The rule at `place`."""
        known = self.objects.get(place)
        return self.columns.rule(place) if known is None else known

    def rules(self) -> list[Rule]:
        """All rules."""
        return [self.rule(place) for place in range(len(self.columns))]


def read_rules(
    rules: Any, logic: Logic, bad: list[BadRule] | None, limits: RuleLimits | None = None
) -> list[Rule] | NewRules:
    """Read rules in any form that `add_many` takes; a few as objects, many as columns.

    Parameters
    ----------
    rules
        See :meth:`tamis.Matcher.add_many`.
    logic
        The logic of rules that name none.
    bad
        Takes the rules that are refused; without it, the first one raises.
    limits
        How large rules may be.

    Raises
    ------
    RuleError
        `rules` is not a container of rules, or a rule is refused.
    """
    table = to_arrow(rules)
    collector = _Collector(logic, bad, limits)
    if table is None or isinstance(table, Rows):
        items = iter(_iterate(rules if table is None else table))
        first = list(islice(items, FEW_RULES + 1))
        if len(first) <= FEW_RULES:
            return collector.read_items(first)
        for some in take_in_steps(chain(first, items)):
            collector.add_items(some)
    else:
        _check_columns(table.schema.names)
        for batch in table.to_batches(_ROWS) if isinstance(table, pa.Table) else table:
            collector.add_batch(batch)
    return collector.finish()


def _iterate(rules: Any) -> Iterable[Any]:
    if isinstance(rules, str | bytes) or not isinstance(rules, Iterable):
        raise RuleError(
            "expected pairs of id and rule, a mapping, or an Arrow table with the columns "
            f"id and rule, not {type(rules).__name__}"
        )
    return rules.items() if isinstance(rules, Mapping) else rules


def _check_columns(names: list[str]) -> None:
    for needed in ("id", "rule"):
        if needed not in names:
            raise RuleError(f"the table of rules has no column {needed!r}; it has {names}")


class _Collector:
    """Collects rules as columns."""

    def __init__(
        self, logic: Logic, bad: list[BadRule] | None, limits: RuleLimits | None = None
    ) -> None:
        self._logic = logic
        self._bad = bad
        self._limits = limits
        self._columns = RuleColumnsBuilder()
        self._objects: dict[int, Rule] = {}
        self._unstorable: dict[int, RuleError | SchemaError] = {}

    def finish(self) -> NewRules:
        return NewRules(self._columns.finish(), self._objects, self._unstorable)

    def add_items(self, items: list[Any]) -> None:
        """Add items of a list: pairs, triples, mappings or rules."""
        pairs = _read_pairs(items)
        if pairs is None or not self._allow(pairs[1]):
            self.add_rules(self.read_items(items))
        else:
            ids, texts = pairs
            kinds = np.full(ids.size, LOGICS.index(self._logic), np.uint8)
            self._columns.add_texts(ids, texts, kinds)

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a table of rules."""
        plain = _read_batch(batch, self._logic)
        if plain is None or not self._allow(plain[1]):
            for some in take_in_steps(_iterate_rows(batch)):
                self.add_rules(self.read_items(some))
        else:
            self._columns.add_texts(*plain)

    def _allow(self, texts: Strings) -> bool:
        """Whether all texts are short enough for the limits."""
        longest = int(np.diff(texts.start).max(initial=0))
        return self._limits is None or self._limits.allow_texts(longest)

    def add_rules(self, rules: list[Rule]) -> None:
        """Add rules that were checked."""
        rows: list[Row] = []
        for place, rule in enumerate(giving_way(rules), len(self._columns)):
            try:
                rows.append(_make_row(rule))
                if isinstance(rule.source, str) and rule.weights is None:
                    continue
            except Exception as error:
                rows.append(Row(rule.id, 0, ""))
                self._unstorable[place] = refusal_of(error, rule.source)
            self._objects[place] = rule
        self._columns.add_rows(rows)

    def read_items(self, items: Iterable[Any]) -> list[Rule]:
        """Read items one by one."""
        read = []
        for item in items:
            check_time()
            try:
                rule = self._read_item(item)
                if self._limits is not None:
                    self._limits.check(rule)
                read.append(rule)
            except Exception as error:
                refuse(_find_id(item), refusal_of(error, _find_source(item)), self._bad)
        return read

    def _read_item(self, item: Any) -> Rule:
        if isinstance(item, Rule):
            return make_rule(
                item.id,
                item.source,
                item.logic,
                item.weights,
                item.payload,
                item.tags,
                item.validity,
                item.subscription,
            )
        if isinstance(item, tuple | list) and len(item) in (2, 3):
            id, source, *logic = item
            return make_rule(id, source, (logic[0] if logic else None) or self._logic)
        if isinstance(item, Mapping):
            return rule_of_fields(item, self._logic)
        raise RuleError(
            "expected a pair of id and rule, a triple with the logic, or a mapping with the fields "
            f"of a rule, not {item!r}"
        )


def _make_row(rule: Rule) -> Row:
    """The stored form of a rule; a RuleError if there is none."""
    try:
        return Row.of(rule)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise RuleError(f"the rule cannot be stored: {error}") from None


def _find_id(item: Any) -> Any:
    """The id in an item of `add_many`, as far as it has one."""
    if isinstance(item, Rule):
        return item.id
    if isinstance(item, Mapping):
        return item.get("id")
    return item[0] if isinstance(item, tuple | list) and item else None


def _find_source(item: Any) -> Any:
    """The rule in an item of `add_many`, as far as it has one."""
    if isinstance(item, Rule):
        return item.source
    if isinstance(item, Mapping):
        return item.get("rule")
    return item[1] if isinstance(item, tuple | list) and len(item) > 1 else item


def _read_pairs(items: list[Any]) -> tuple[Ids, Strings] | None:
    """The columns of pairs of an id and a text; None if an item is anything else."""
    if not set(map(type, items)) <= {tuple, list} or set(map(len, items)) != {2}:
        return None
    ids, texts = zip(*items, strict=True)
    if set(map(type, texts)) != {str} or not set(map(type, ids)) <= {int, str}:
        return None
    try:
        return Ids.of(ids), Strings.of(texts)
    except (OverflowError, UnicodeError, pa.ArrowException):
        return None  # An id or a text is refused.


def _read_batch(
    batch: pa.RecordBatch, logic: Logic
) -> tuple[Ids, Strings, NDArray[np.uint8]] | None:
    """The columns of a table with ids, texts and logics; None if it needs a closer look."""
    names = batch.schema.names
    columns = [batch.column(name) for name in ("id", "rule")]
    if any(name in names for name in _MORE_COLUMNS) or any(c.null_count for c in columns):
        return None
    id, rule = columns
    kind = id.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_integer = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    if not (is_text or is_integer) or not _is_string(rule.type):
        return None
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise RuleError(f"the table of rules is damaged: {error}") from None
    kinds = np.full(batch.num_rows, LOGICS.index(logic), np.uint8)
    if "logic" in names:
        own = batch.column("logic")
        if not _is_string(own.type):
            return None
        for number, name in enumerate(LOGICS):
            is_named = pc.fill_null(pc.equal(own, name), False)
            kinds[to_numpy(is_named)] = number
        if pc.any(pc.invert(pc.is_in(own, pa.array([*LOGICS, "", None], own.type)))).as_py():
            return None
    if is_integer:
        ids = Ids(to_numpy(id.cast(pa.int64())))
    else:
        ids = Ids(np.empty(0, np.int64), Strings.of_arrow(id.cast(pa.large_string())))
    return ids, Strings.of_arrow(rule.cast(pa.large_string())), kinds


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _iterate_rows(batch: pa.RecordBatch) -> Iterator[Any]:
    """The rows of a table: pairs or triples, or mappings if there are more columns."""
    names = batch.schema.names
    columns = ["id", "rule", *(["logic"] if "logic" in names else [])]
    more = [name for name in _MORE_COLUMNS if name in names]
    rows = zip(*(batch.column(name).to_pylist() for name in columns + more), strict=True)
    if not more:
        yield from rows
        return
    for row in rows:
        yield read_texts(dict(zip(columns + more, row, strict=True)))
