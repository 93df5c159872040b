"""Conditions of MongoDB and GrowthBook: ``{"age": {"$gt": 3}}``.

The two agree on most of the language. In both a negation holds for a missing field, so the rules
use the weak logic. GrowthBook treats a missing field as 0 when comparing it with a number, and as
version 0 when comparing it with a version.

Here, an attribute of one value is a list of one, also for ``$elemMatch`` and ``$all``. ``$eq`` and
``$gt`` hold for a list if they hold for one of its values; GrowthBook compares the whole list, and
so never matches. GrowthBook reads the number that a text spells where it compares with a number,
and so do the imported rules, by ``number(x)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from tamis.errors import RuleError
from tamis.expr.evaluate import evaluate
from tamis.expr.functions.semver import semver_key
from tamis.expr.functions.terms import Attribute, Constant, call, name_of
from tamis.expr.model import FALSE, TRUE, Expr, Op, Predicate, all_of, any_of
from tamis.importers.entries import RuleSource, identify_by, read_entries
from tamis.importers.event_paths import json_at, json_text, length_at, path_to, type_at
from tamis.importers.javascript import as_number, compare, number_text
from tamis.importers.predicates import (
    COMPARISONS,
    absent,
    any_number,
    equals_any,
    is_number,
    is_scalar,
    like,
    matches_regex,
    negate,
    or_absent,
    present,
    require_one_value,
    within_bounds,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, make_rule

__all__ = ["Dialect", "parse_condition", "read"]


class Dialect(StrEnum):
    """The system that the conditions come from."""

    GROWTHBOOK = "growthbook"
    MONGODB = "mongodb"


_ORDER: Final = {"$lt": Op.LT, "$lte": Op.LE, "$gt": Op.GT, "$gte": Op.GE}
_VERSIONS: Final = {"$veq": Op.EQ, "$vlt": Op.LT, "$vlte": Op.LE, "$vgt": Op.GT, "$vgte": Op.GE}
_NO_VERSION: Final = "0"
"""The version of a missing field."""


def read(
    source: RuleSource,
    *,
    dialect: Dialect = Dialect.GROWTHBOOK,
    groups: Mapping[str, Sequence[Any]] | None = None,
    typed: bool = False,
) -> Imported:
    """Import the conditions of `source`.

    Parameters
    ----------
    source
        A file, or documents: a mapping of ids to conditions, or objects with an ``id`` and a
        ``condition``. For GrowthBook also the file that its SDKs load: an object with
        ``features``, whose rules get the ids ``feature:0``, …, and ``savedGroups``.
    dialect
        The system that the conditions come from.
    groups
        GrowthBook's saved groups, for ``$inGroup``.
    typed
        Events never hold a number as text. Then a comparison with a number tests the attribute
        itself, which is faster than the number that it spells.
    """
    known_groups = dict(groups or {})

    def unpack(documents: Any) -> Any:
        is_payload = isinstance(documents, Mapping) and isinstance(documents.get("features"), dict)
        if not is_payload or dialect is not Dialect.GROWTHBOOK:
            return documents
        known_groups.update(documents.get("savedGroups") or {})
        return _list_conditions(documents["features"])

    def build(id: RuleId, document: Any) -> Rule:
        expr = parse_condition(document, dialect=dialect, groups=known_groups, typed=typed)
        return make_rule(id, expr, "weak")

    identify = identify_by("condition", "query", "filter")
    return import_entries(read_entries(source, unpack), identify, build)


def _list_conditions(features: Mapping[str, Any]) -> dict[RuleId, Any]:
    """The conditions in GrowthBook's SDK payload, by feature and number."""
    return {
        f"{name}:{number}": rule["condition"]
        for name, feature in features.items()
        for number, rule in enumerate(feature.get("rules", ()))
        if "condition" in rule
    }


def parse_condition(
    document: Any,
    *,
    dialect: Dialect = Dialect.GROWTHBOOK,
    groups: Mapping[str, Sequence[Any]] | None = None,
    typed: bool = False,
) -> Expr:
    """Turn one condition into a rule for the weak logic.

    Raises
    ------
    RuleError
        No rule has the same meaning; the message says why.
    """
    return _Reader(Dialect(dialect), groups or {}, typed).read_condition(document)


class _Reader:
    def __init__(self, dialect: Dialect, groups: Mapping[str, Sequence[Any]], typed: bool) -> None:
        self.growthbook = dialect is Dialect.GROWTHBOOK
        self.converts = self.growthbook and not typed
        """Whether a text may spell the number that it is compared with."""
        self.groups = groups
        self.in_element = False
        """Whether the condition is on an element of a list, which cannot be missing."""

    def read_condition(self, document: Any, prefix: str = "") -> Expr:
        if not isinstance(document, Mapping):
            raise RuleError(f"a condition is an object, not {document!r}")
        return all_of(*[self.read_member(str(k), v, prefix) for k, v in document.items()])

    def read_member(self, name: str, value: Any, prefix: str) -> Expr:
        match name:
            case "$and":
                return all_of(*self.read_list(name, value, prefix))
            case "$or":
                return self.read_or(name, value, prefix)
            case "$nor":
                return negate(self.read_or(name, value, prefix))
            case "$not" if self.growthbook:
                return negate(self.read_condition(value, prefix))
        if name.startswith("$") and not self.growthbook:
            raise RuleError(f"the operator {name} is not supported")
        return self.read_field(prefix + name, value)

    def read_list(self, name: str, value: Any, prefix: str) -> list[Expr]:
        if not isinstance(value, list) or not (value or self.growthbook):
            raise RuleError(f"{name} takes a list of conditions, not {value!r}")
        return [self.read_condition(part, prefix) for part in value]

    def read_or(self, name: str, value: Any, prefix: str) -> Expr:
        # In GrowthBook, an empty $or holds.
        return any_of(*(self.read_list(name, value, prefix) or [TRUE]))

    def read_field(self, attribute: str, value: Any) -> Expr:
        """The condition on one field: a value to equal, or operators."""
        if not _has_operators(value):
            return self.read_value(attribute, value)
        operators = dict(value)
        regex_options = operators.pop("$options", None)
        if regex_options is not None:
            operators["$regex"] = _add_options(operators.get("$regex"), regex_options)
        return all_of(*[self.read_operator(attribute, o, v) for o, v in operators.items()])

    def read_value(self, attribute: str, value: Any) -> Expr:
        """A value to equal. GrowthBook converts to its type here, though not for ``$eq``."""
        if self.growthbook and isinstance(value, list | dict):
            return Predicate(json_at(path_to(attribute)), Op.EQ, (json_text(value),))
        if self.converts and isinstance(value, str) and number_text(as_number(value)) == value:
            return equals_any(attribute, (value, _as_whole(as_number(value))))
        if self.growthbook and is_number(value):
            return or_absent(
                Predicate(self.name_number(attribute), Op.EQ, (value,)),
                attribute,
                value == 0 and not self.in_element,
            )
        return self.read_equality(attribute, value)

    def name_number(self, attribute: str) -> str:
        """The attribute with the number of `attribute`, or the number that it spells."""
        if not self.converts:
            return attribute
        return name_of(call("number", (Attribute(attribute),)))

    def read_equality(self, attribute: str, value: Any) -> Expr:
        if value is None:
            return absent(attribute)
        if is_scalar(value):
            return Predicate(attribute, Op.EQ, (value,))
        raise RuleError(
            f"{attribute!r} is compared with a whole {_container(value)}: an attribute holds the "
            "values of a list or an object, but not their order, number and nesting"
        )

    def read_operator(self, attribute: str, operator: str, value: Any) -> Expr:
        if operator in _ORDER:
            return self.read_comparison(attribute, _ORDER[operator], value)
        if self.growthbook and operator in _VERSIONS:
            return self.read_version(attribute, _VERSIONS[operator], value)
        if operator in _OPERATORS:
            return _OPERATORS[operator](self, attribute, value)
        if self.growthbook and operator in _GROWTHBOOK_OPERATORS:
            return _GROWTHBOOK_OPERATORS[operator](self, attribute, value)
        if not self.growthbook and operator == "$mod":
            return _read_remainder(attribute, value)
        raise RuleError(f"the operator {operator} is not supported")

    def read_comparison(self, attribute: str, op: Op, value: Any) -> Expr:
        if not is_scalar(value) or isinstance(value, bool):
            raise RuleError(f"{attribute!r} is compared with {value!r}, not a number or a text")
        matches_absent = self.growthbook and not self.in_element and compare(op, None, value)
        if is_number(value):
            tested: Expr = Predicate(self.name_number(attribute), op, (value,))
        else:
            tested = Predicate(attribute, op, (value,))
            if self.converts and not math.isnan(number := as_number(value)):
                tested = any_of(tested, Predicate(attribute, op, (_as_whole(number),)))
        return or_absent(tested, attribute, matches_absent)

    def read_version(self, attribute: str, op: Op, value: Any) -> Expr:
        if not isinstance(value, str):
            raise RuleError(f"a version is a text, not {value!r}")
        name = name_of(call("semver", (Attribute(attribute),)))
        matches_absent = not self.in_element and COMPARISONS[op](
            semver_key(_NO_VERSION), semver_key(value)
        )
        return or_absent(Predicate(name, op, (value,)), name, matches_absent)

    def read_in(self, attribute: str, value: Any, *, negated: bool, fold: bool = False) -> Expr:
        if isinstance(value, list):
            expr = _one_of(attribute, value, fold=fold)
            return negate(expr) if negated else expr
        if self.growthbook:
            return FALSE
        raise RuleError(f"$in and $nin take a list, not {value!r}")

    def read_all(self, attribute: str, value: Any, fold: bool = False) -> Expr:
        if not isinstance(value, list) or not value:
            raise RuleError(f"$all takes a list of values, not {value!r}")
        if fold:
            return all_of(*[_one_of(attribute, [item], fold=True) for item in value])
        return all_of(*[self.read_field(attribute, item) for item in value])

    def read_element(self, attribute: str, value: Any) -> Expr:
        outer, self.in_element = self.in_element, True
        try:
            if not _has_operators(value):
                return require_one_value(self.read_condition(value, attribute + "."))
            if len(value) == 2 and (found := self.read_range(attribute, value)) is not None:
                return found
            return require_one_value(self.read_field(attribute, value))
        finally:
            self.in_element = outer

    def read_group(self, attribute: str, value: Any) -> Expr:
        if not isinstance(value, str) or not isinstance(self.groups.get(value), list):
            raise RuleError(f"the saved group {value!r} is not given")
        return _one_of(attribute, self.groups[value])

    def read_regex(self, attribute: str, value: Any, flags: str = "") -> Expr:
        if not isinstance(value, str):
            raise RuleError(f"$regex takes a text, not {value!r}")
        return matches_regex(attribute, value, flags)

    def read_size(self, attribute: str, value: Any) -> Expr:
        """The number of values in a list: a number, or for GrowthBook operators on it."""
        if not (self.growthbook and _has_operators(value)) and not is_number(value):
            raise RuleError(f"$size takes a number, not {value!r}")
        converts, self.converts = self.converts, False
        try:
            length = length_at(path_to(attribute))
            name = name_of(call("size", (Attribute(attribute),)))
            if is_number(value):
                return Predicate(name if value else length, Op.EQ, (value,))
            of_length = self.read_field(length, value)
            # An empty list is a missing attribute, and only its length tells them apart.
            if evaluate(of_length, {length: 0}, "weak"):
                return all_of(present(length), of_length)
            # Only a list has a size.
            return all_of(present(name), self.read_field(name, value))
        finally:
            self.converts = converts

    def read_type(self, attribute: str, value: Any) -> Expr:
        if value in ("bool", "boolean"):
            return equals_any(attribute, (False, True))
        if value == "number":
            return any_number(attribute)
        if value == "string":
            return Predicate(attribute, Op.GE, ("",))
        if value == "null" and self.growthbook:
            return absent(attribute)
        if value in ("array", "object") and self.growthbook:
            return Predicate(type_at(path_to(attribute)), Op.EQ, (value,))
        raise RuleError(f"the test of {attribute!r} for the type {value!r} is not supported")

    def read_range(self, attribute: str, operators: Mapping[str, Any]) -> Expr | None:
        """``{"$gt": 1, "$lte": 5}`` on one element of a list; None if it is something else."""
        if operators.keys() - _ORDER.keys() or not all(map(is_number, operators.values())):
            return None
        bounds = [(_ORDER[name], bound) for name, bound in operators.items()]
        return within_bounds(self.name_number(attribute), bounds)


_Read = Callable[[_Reader, str, Any], Expr]

_OPERATORS: Final[dict[str, _Read]] = {
    "$eq": _Reader.read_equality,
    "$ne": lambda reader, attribute, value: negate(reader.read_equality(attribute, value)),
    "$in": lambda reader, attribute, value: reader.read_in(attribute, value, negated=False),
    "$nin": lambda reader, attribute, value: reader.read_in(attribute, value, negated=True),
    "$not": lambda reader, attribute, value: negate(reader.read_field(attribute, value)),
    "$exists": lambda _, attribute, value: present(attribute) if value else absent(attribute),
    "$all": _Reader.read_all,
    "$elemMatch": _Reader.read_element,
    "$regex": _Reader.read_regex,
    "$size": _Reader.read_size,
    "$type": _Reader.read_type,
}

_GROWTHBOOK_OPERATORS: Final[dict[str, _Read]] = {
    "$vne": lambda reader, attribute, value: negate(reader.read_version(attribute, Op.EQ, value)),
    "$ini": lambda reader, attribute, value: reader.read_in(
        attribute, value, negated=False, fold=True
    ),
    "$nini": lambda reader, attribute, value: reader.read_in(
        attribute, value, negated=True, fold=True
    ),
    "$alli": lambda reader, attribute, value: reader.read_all(attribute, value, fold=True),
    "$inGroup": _Reader.read_group,
    "$notInGroup": lambda reader, attribute, value: negate(reader.read_group(attribute, value)),
    "$regexi": lambda reader, attribute, value: reader.read_regex(attribute, value, "i"),
    "$notRegex": lambda reader, attribute, value: negate(reader.read_regex(attribute, value)),
    "$notRegexi": lambda reader, attribute, value: negate(reader.read_regex(attribute, value, "i")),
}


def _has_operators(value: Any) -> bool:
    """Whether `value` is an object of operators, not a value to equal."""
    return isinstance(value, Mapping) and bool(value) and all(k.startswith("$") for k in value)


def _one_of(attribute: str, values: Sequence[Any], *, fold: bool = False) -> Expr:
    """One of `values`; null stands for a missing field. With `fold`, texts in any case."""
    for value in values:
        if value is not None and not is_scalar(value):
            raise RuleError(f"a list of values holds a {_container(value)}: {value!r}")
    texts = [value for value in values if fold and isinstance(value, str)]
    others = [value for value in values if value is not None and value not in texts]
    parts: list[Expr] = [like(attribute, [text], fold=True) for text in texts]
    if others or not values:
        parts.append(equals_any(attribute, others))
    if None in values:
        parts.append(absent(attribute))
    return any_of(*parts)


def _read_remainder(attribute: str, value: Any) -> Expr:
    match value:
        case [int(divisor), int(rest)] if divisor and not isinstance(divisor, bool):
            name = name_of(call("%", (Attribute(attribute), Constant(divisor))))
            return Predicate(name, Op.EQ, (rest,))
    raise RuleError(f"$mod takes a divisor and a remainder, not {value!r}")


def _as_whole(number: float) -> int | float:
    return int(number) if number.is_integer() else number


def _add_options(pattern: Any, options: Any) -> Any:
    if not isinstance(pattern, str) or not isinstance(options, str) or set(options) - set("ims"):
        raise RuleError(f"$options takes a $regex and the letters i, m and s, not {options!r}")
    return f"(?{options}){pattern}" if options else pattern


def _container(value: Any) -> str:
    return "list" if isinstance(value, list) else "object"
