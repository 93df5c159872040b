"""Conditions as MongoDB and GrowthBook write them: ``{"age": {"$gt": 3}}``.

The two agree on most of it, and on what a missing field makes of a negation: it holds, so the
rules are for the weak logic. GrowthBook takes a missing field for 0 where it is compared with a
number, and for the version 0 where it is compared with a version.

An attribute of one value is a list of one here, so ``$elemMatch`` and ``$all`` take it for a list.
GrowthBook compares a whole list with ``$eq`` and ``$gt``, which never holds, where here one of its
values is enough. GrowthBook also turns texts into numbers and numbers into texts before it compares
them. Here a value keeps its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from tamis.errors import RuleError
from tamis.expr.functions.semver import semver_key
from tamis.expr.functions.terms import Attribute, Constant, call, name_of
from tamis.expr.model import FALSE, TRUE, Expr, Op, Predicate, all_of, any_of
from tamis.importers.entries import RuleSource, identify_by, read_entries
from tamis.importers.javascript import ordered
from tamis.importers.predicates import (
    COMPARISONS,
    absent,
    between,
    equals_any,
    is_number,
    is_scalar,
    like,
    negation,
    on_one_value,
    present,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, make_rule

__all__ = ["Dialect", "condition", "read"]


class Dialect(StrEnum):
    """Whose conditions they are."""

    GROWTHBOOK = "growthbook"
    MONGODB = "mongodb"


_COMPARED: Final = {"$lt": Op.LT, "$lte": Op.LE, "$gt": Op.GT, "$gte": Op.GE}
_VERSIONS: Final = {"$veq": Op.EQ, "$vlt": Op.LT, "$vlte": Op.LE, "$vgt": Op.GT, "$vgte": Op.GE}
_NO_VERSION: Final = "0"
"""The version that a missing field has."""
_LOWS: Final = {"$gt", "$gte"}


def read(
    source: RuleSource,
    *,
    dialect: Dialect = Dialect.GROWTHBOOK,
    groups: Mapping[str, Sequence[Any]] | None = None,
) -> Imported:
    """The conditions of `source` as rules.

    Parameters
    ----------
    source
        A file, or documents: a mapping of ids to conditions, or objects with an ``id`` and a
        ``condition``. Of GrowthBook also what its SDKs load: an object with ``features``, whose
        rules are named ``feature:0``, and ``savedGroups``.
    dialect
        Whose conditions they are.
    groups
        GrowthBook's saved groups, for ``$inGroup``.
    """
    known = dict(groups or {})

    def unpack(documents: Any) -> Any:
        is_payload = isinstance(documents, Mapping) and isinstance(documents.get("features"), dict)
        if not is_payload or dialect is not Dialect.GROWTHBOOK:
            return documents
        known.update(documents.get("savedGroups") or {})
        return _conditions_of(documents["features"])

    def take(id: RuleId, document: Any) -> Rule:
        return make_rule(id, condition(document, dialect=dialect, groups=known), "weak")

    return import_entries(
        read_entries(source, unpack), identify_by("condition", "query", "filter"), take
    )


def _conditions_of(features: Mapping[str, Any]) -> dict[RuleId, Any]:
    """The conditions of a file for GrowthBook's SDKs, by feature and number."""
    return {
        f"{name}:{number}": rule["condition"]
        for name, feature in features.items()
        for number, rule in enumerate(feature.get("rules", ()))
        if "condition" in rule
    }


def condition(
    document: Any,
    *,
    dialect: Dialect = Dialect.GROWTHBOOK,
    groups: Mapping[str, Sequence[Any]] | None = None,
) -> Expr:
    """One condition as a rule for the weak logic.

    Raises
    ------
    RuleError
        It cannot be said, and the message tells why.
    """
    return _Reader(Dialect(dialect), groups or {}).condition(document)


class _Reader:
    def __init__(self, dialect: Dialect, groups: Mapping[str, Sequence[Any]]) -> None:
        self.growthbook = dialect is Dialect.GROWTHBOOK
        self.groups = groups
        self.of_element = False
        """Whether the condition is on an element of a list, of which none is missing."""

    def condition(self, document: Any, prefix: str = "") -> Expr:
        if not isinstance(document, Mapping):
            raise RuleError(f"a condition is an object, not {document!r}")
        return all_of(*[self.member(str(k), v, prefix) for k, v in document.items()])

    def member(self, name: str, value: Any, prefix: str) -> Expr:
        match name:
            case "$and":
                return all_of(*self.each(name, value, prefix))
            case "$or":
                return self.any_of(name, value, prefix)
            case "$nor":
                return negation(self.any_of(name, value, prefix))
            case "$not" if self.growthbook:
                return negation(self.condition(value, prefix))
        if name.startswith("$") and not self.growthbook:
            raise RuleError(f"the operator {name} cannot be said")
        return self.field(prefix + name, value)

    def each(self, name: str, value: Any, prefix: str) -> list[Expr]:
        if not isinstance(value, list) or not (value or self.growthbook):
            raise RuleError(f"{name} takes a list of conditions, not {value!r}")
        return [self.condition(part, prefix) for part in value]

    def any_of(self, name: str, value: Any, prefix: str) -> Expr:
        # To GrowthBook an $or of nothing holds.
        return any_of(*(self.each(name, value, prefix) or [TRUE]))

    def field(self, attribute: str, value: Any) -> Expr:
        """What is asked of one field: a value to equal, or operators."""
        if not _is_operators(value):
            return self.equal(attribute, value)
        operators = dict(value)
        regex_options = operators.pop("$options", None)
        if regex_options is not None:
            operators["$regex"] = _with_options(operators.get("$regex"), regex_options)
        return all_of(*[self.operator(attribute, o, v) for o, v in operators.items()])

    def equal(self, attribute: str, value: Any) -> Expr:
        if value is None:
            return absent(attribute)
        if is_scalar(value):
            return Predicate(attribute, Op.EQ, (value,))
        raise RuleError(
            f"{attribute!r} is compared with a whole {_kind(value)}: an attribute holds the values "
            "of a list or an object, and not their order, number and nesting"
        )

    def operator(self, attribute: str, operator: str, value: Any) -> Expr:
        if operator in _COMPARED:
            return self.compared(attribute, _COMPARED[operator], value)
        if self.growthbook and operator in _VERSIONS:
            return self.version(attribute, _VERSIONS[operator], value)
        if operator in _OPERATORS:
            return _OPERATORS[operator](self, attribute, value)
        if self.growthbook and operator in _GROWTHBOOK_OPERATORS:
            return _GROWTHBOOK_OPERATORS[operator](self, attribute, value)
        if not self.growthbook and operator == "$mod":
            return _remainder(attribute, value)
        raise RuleError(f"the operator {operator} cannot be said")

    def compared(self, attribute: str, op: Op, value: Any) -> Expr:
        if not is_scalar(value) or isinstance(value, bool):
            raise RuleError(f"{attribute!r} is compared with {value!r}, and not with a number")
        held = Predicate(attribute, op, (value,))
        return self.or_absent(held, ordered(op, None, value))

    def version(self, attribute: str, op: Op, value: Any) -> Expr:
        if not isinstance(value, str):
            raise RuleError(f"a version is a text, not {value!r}")
        name = name_of(call("semver", (Attribute(attribute),)))
        held = Predicate(name, op, (value,))
        if self.of_element or not COMPARISONS[op](semver_key(_NO_VERSION), semver_key(value)):
            return held
        return any_of(held, absent(name))

    def or_absent(self, held: Predicate, when_absent: bool) -> Expr:
        """`held`, or in GrowthBook a missing field, where that holds too."""
        if self.growthbook and when_absent and not self.of_element:
            return any_of(held, absent(held.attribute))
        return held

    def among(self, attribute: str, value: Any, *, wanted: bool, fold: bool = False) -> Expr:
        """Whether the field is one of a list, or with `wanted` false that it is not."""
        if isinstance(value, list):
            held = _one_of(attribute, value, fold=fold)
            return held if wanted else negation(held)
        if self.growthbook:
            return FALSE
        raise RuleError(f"$in and $nin take a list, not {value!r}")

    def every(self, attribute: str, value: Any, fold: bool = False) -> Expr:
        if not isinstance(value, list) or not value:
            raise RuleError(f"$all takes a list of values, not {value!r}")
        if fold:
            return all_of(*[_one_of(attribute, [item], fold=True) for item in value])
        return all_of(*[self.field(attribute, item) for item in value])

    def element(self, attribute: str, value: Any) -> Expr:
        outside, self.of_element = self.of_element, True
        try:
            if not _is_operators(value):
                return on_one_value(self.condition(value, attribute + "."))
            if len(value) == 2 and (found := _range(attribute, value)) is not None:
                return found
            return on_one_value(self.field(attribute, value))
        finally:
            self.of_element = outside

    def in_group(self, attribute: str, value: Any) -> Expr:
        if not isinstance(value, str) or not isinstance(self.groups.get(value), list):
            raise RuleError(f"the saved group {value!r} is not given")
        return _one_of(attribute, self.groups[value])

    def regex(self, attribute: str, value: Any, flags: str = "") -> Expr:
        if not isinstance(value, str):
            raise RuleError(f"$regex takes a text, not {value!r}")
        return Predicate(attribute, Op.RLIKE, (f"(?{flags}){value}" if flags else value,))

    def size(self, attribute: str, value: Any) -> Expr:
        """How many values a list has: a number, or what GrowthBook asks of one."""
        name = name_of(call("size", (Attribute(attribute),)))
        if self.growthbook and _is_operators(value):
            # Nothing but a list has a size.
            return all_of(present(name), self.field(name, value))
        if not is_number(value):
            raise RuleError(f"$size takes a number, not {value!r}")
        return Predicate(name, Op.EQ, (value,))

    def kind(self, attribute: str, value: Any) -> Expr:
        if value in ("bool", "boolean"):
            return equals_any(attribute, (False, True))
        if value == "number":
            zero = Predicate(attribute, Op.LE, (0,))
            return any_of(zero, Predicate(attribute, Op.GT, (0,)))
        if value == "string":
            return Predicate(attribute, Op.GE, ("",))
        if value == "null" and self.growthbook:
            return absent(attribute)
        raise RuleError(f"whether {attribute!r} is of the type {value!r} cannot be said")


_OPERATORS: Final[dict[str, Callable[[_Reader, str, Any], Expr]]] = {
    "$eq": _Reader.equal,
    "$ne": lambda reader, attribute, value: negation(reader.equal(attribute, value)),
    "$in": lambda reader, attribute, value: reader.among(attribute, value, wanted=True),
    "$nin": lambda reader, attribute, value: reader.among(attribute, value, wanted=False),
    "$not": lambda reader, attribute, value: negation(reader.field(attribute, value)),
    "$exists": lambda _, attribute, value: present(attribute) if value else absent(attribute),
    "$all": _Reader.every,
    "$elemMatch": _Reader.element,
    "$regex": _Reader.regex,
    "$size": _Reader.size,
    "$type": _Reader.kind,
}

_GROWTHBOOK_OPERATORS: Final[dict[str, Callable[[_Reader, str, Any], Expr]]] = {
    "$vne": lambda reader, attribute, value: negation(reader.version(attribute, Op.EQ, value)),
    "$ini": lambda reader, attribute, value: reader.among(attribute, value, wanted=True, fold=True),
    "$nini": lambda reader, attribute, value: reader.among(
        attribute, value, wanted=False, fold=True
    ),
    "$alli": lambda reader, attribute, value: reader.every(attribute, value, fold=True),
    "$inGroup": _Reader.in_group,
    "$notInGroup": lambda reader, attribute, value: negation(reader.in_group(attribute, value)),
    "$regexi": lambda reader, attribute, value: reader.regex(attribute, value, "i"),
    "$notRegex": lambda reader, attribute, value: negation(reader.regex(attribute, value)),
    "$notRegexi": lambda reader, attribute, value: negation(reader.regex(attribute, value, "i")),
}


def _is_operators(value: Any) -> bool:
    """Whether an object holds operators, and is not itself a value."""
    return isinstance(value, Mapping) and bool(value) and all(k.startswith("$") for k in value)


def _one_of(attribute: str, values: Sequence[Any], *, fold: bool = False) -> Expr:
    """One of `values`; null stands for a missing field. With `fold`, in any case."""
    for value in values:
        if value is not None and not is_scalar(value):
            raise RuleError(f"a list of values holds a {_kind(value)}: {value!r}")
    texts = [value for value in values if fold and isinstance(value, str)]
    others = [value for value in values if value is not None and value not in texts]
    parts: list[Expr] = [like(attribute, [text], fold=True) for text in texts]
    if others or not values:
        parts.append(equals_any(attribute, others))
    if None in values:
        parts.append(absent(attribute))
    return any_of(*parts)


def _remainder(attribute: str, value: Any) -> Expr:
    match value:
        case [int(divisor), int(rest)] if divisor and not isinstance(divisor, bool):
            name = name_of(call("%", (Attribute(attribute), Constant(divisor))))
            return Predicate(name, Op.EQ, (rest,))
    raise RuleError(f"$mod takes a divisor and a remainder, not {value!r}")


def _range(attribute: str, operators: Mapping[str, Any]) -> Expr | None:
    """``{"$gt": 1, "$lte": 5}`` on one element of a list, if it is that."""
    lows = [name for name in operators if name in _LOWS]
    highs = [name for name in operators if name in _COMPARED.keys() - _LOWS]
    if len(lows) != 1 or len(highs) != 1 or not all(map(is_number, operators.values())):
        return None
    low, high = lows[0], highs[0]
    return between(attribute, (_COMPARED[low], operators[low]), (_COMPARED[high], operators[high]))


def _with_options(pattern: Any, options: Any) -> Any:
    if not isinstance(pattern, str) or not isinstance(options, str) or set(options) - set("ims"):
        raise RuleError(f"$options takes a $regex and the letters i, m and s, not {options!r}")
    return f"(?{options}){pattern}" if options else pattern


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "object"
