"""Mustang's criteria as rules.

A predicate on a path that finds nothing does not hold, and one that is excluded then does: the
rules are for the weak logic. A predicate without a weight, or with the weight 0, weighs 1. A
criteria without any part is a tautology, and matches every event.

Mustang answers a search from its index and a scan from the criteria, and the two do not agree on
lists: its index finds a value of a list, as rules here do, and its scan wants all of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from tamis.errors import RuleError
from tamis.expr.functions.conditions import CONDITIONS
from tamis.expr.functions.terms import Attribute, call, name_of
from tamis.expr.model import (
    FALSE,
    TRUE,
    Expr,
    Op,
    Predicate,
    all_of,
    any_of,
    predicates,
)
from tamis.expr.names import name_shown
from tamis.importers.entries import Entry, RuleSource, read_entries
from tamis.importers.mustang.operations import Kind, Subject, subjects
from tamis.importers.mustang.paths import attribute_of
from tamis.importers.predicates import absent, between, equals_any, is_number, negation, present
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, check_id, make_rule

__all__ = ["read"]

_LEAST: Final = 5e-324
"""Java's Double.MIN_VALUE, where a range begins unless it says otherwise."""
_MOST: Final = sys.float_info.max
"""Java's Double.MAX_VALUE, where it ends."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BITS: Final = 32
"""How many digits Mustang's binary numbers have."""


def read(source: RuleSource, *, zone: str = "UTC") -> Imported:
    """The criteria of `source` as rules.

    Parameters
    ----------
    source
        A file, or criteria: one, a list, or a mapping whose values are criteria.
    zone
        The time zone of the machine that Mustang runs on, in which it takes times apart.
    """
    try:
        ZoneInfo(zone)
    except (LookupError, OSError, ValueError):
        raise RuleError(f"unknown time zone {zone!r}; write one like 'Asia/Kolkata'") from None

    def take(id: RuleId, document: Any) -> Rule:
        reader = _Reader(zone)
        expr = reader.criteria(document)
        weights = {key: weight for key, weight in reader.weights.items() if weight != 1}
        return make_rule(id, expr, "weak", weights)

    return import_entries(read_entries(source, _unpacked), _identified, take)


def _unpacked(documents: Any) -> Any:
    """One criteria alone is a list of one."""
    return [documents] if isinstance(documents, Mapping) and "form" in documents else documents


def _identified(entry: Entry) -> tuple[RuleId, Any]:
    if not isinstance(entry.content, Mapping):
        raise RuleError("a criteria is an object")
    id = entry.content.get("id", entry.id)
    if id is None:
        raise RuleError("there is no 'id'")
    return check_id(id), entry.content


class _Reader:
    """Reads one criteria, and collects what its predicates weigh."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.weights: dict[Any, float] = {}

    def criteria(self, document: Any) -> Expr:
        if not isinstance(document, Mapping):
            raise RuleError(f"a criteria is an object, not {document!r}")
        form = document.get("form")
        match form:
            case "DNF":
                parts = _listed(document, "conjunctions")
                return any_of(*[all_of(*self.composed(p)) for p in parts]) if parts else TRUE
            case "CNF":
                parts = _listed(document, "disjunctions")
                return all_of(*[any_of(*self.composed(p)) for p in parts])
            case "UNF":
                return self.unrestricted(document)
        raise RuleError(f"the form of a criteria is DNF, CNF or UNF, not {form!r}")

    def composed(self, composition: Any) -> list[Expr]:
        if not isinstance(composition, Mapping):
            raise RuleError(f"a composition is an object, not {composition!r}")
        return [self.predicate(part) for part in _listed(composition, "predicates")]

    def unrestricted(self, document: Mapping[str, Any]) -> Expr:
        below = [self.criteria(part) for part in _listed(document, "criterias")]
        parts = below + self.composed(document)
        match document.get("type"):
            case "AND":
                return all_of(*parts)
            case "OR":
                return any_of(*parts) if parts else TRUE
        raise RuleError(f"the type of a criteria is AND or OR, not {document.get('type')!r}")

    def predicate(self, document: Any) -> Expr:
        if not isinstance(document, Mapping) or not isinstance(document.get("lhs"), str):
            raise RuleError(f"a predicate is an object with a 'lhs', not {document!r}")
        detail = document.get("detail")
        if detail is None:
            detail = {"caveat": "EQUALITY", "values": document.get("values")}
        if not isinstance(detail, Mapping) or str(detail.get("caveat")) not in _DETAILS:
            raise RuleError(f"the detail {detail!r} has no caveat that can be said")
        attribute = attribute_of(document["lhs"])
        operations = document.get("preOperations")
        if operations is None:
            operations = [document["preOperation"]] if document.get("preOperation") else []
        if not isinstance(operations, list):
            raise RuleError(f"preOperations are a list, not {operations!r}")
        of = subjects(attribute, operations, self.zone)
        held = _DETAILS[str(detail["caveat"])](_Asked(attribute, of, detail))
        match document.get("type"):
            case "INCLUDED":
                self.weigh(held, document.get("weight") or 1)
                return held
            case "EXCLUDED":
                return negation(held)
        raise RuleError(
            f"the type of a predicate is INCLUDED or EXCLUDED, not {document.get('type')!r}"
        )

    def weigh(self, held: Expr, weight: Any) -> None:
        """Note what a predicate weighs: each of its values, or all of it."""
        if not is_number(weight):
            raise RuleError(f"the weight {weight!r} is no number")
        for predicate in predicates(held):
            keys: Iterable[Any] = [predicate]
            if predicate.op in (Op.EQ, Op.IN):
                keys = [(name_shown(predicate.attribute), value) for value in predicate.values]
            for key in () if predicate.negated else keys:
                if self.weights.setdefault(key, weight) != weight:
                    raise RuleError(
                        f"{_shown(key)} weighs {self.weights[key]} and {weight}; "
                        "a rule weighs a value once"
                    )


def _listed(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = document.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise RuleError(f"{name} is a list, not {found!r}")
    return found


def _shown(key: Any) -> str:
    return f"the value {key[1]!r} of {key[0]}" if isinstance(key, tuple) else "a predicate"


# --- Details ----------------------------------------------------------------------------


class _Asked(NamedTuple):
    """What a predicate asks."""

    attribute: str
    subjects: Sequence[Subject]
    """What its operations make of the attribute."""
    detail: Mapping[str, Any]

    def of_kind(self, kind: Kind) -> list[Subject]:
        return [subject for subject in self.subjects if subject.kind is kind]


def _values(detail: Mapping[str, Any]) -> list[Any]:
    values = detail.get("values")
    if not isinstance(values, list) or not values:
        raise RuleError(f"values are a list with something in it, not {values!r}")
    for value in values:
        if not isinstance(value, str | int | float):
            raise RuleError(f"{value!r} is no value that a predicate can equal")
    return values


def _equality(asked: _Asked) -> Expr:
    values = _values(asked.detail)
    # Kinds that no operation touched share an attribute, and so a predicate.
    plain: dict[str, list[Any]] = {}
    parts: list[Expr] = []
    for subject in asked.subjects:
        fitting = [value for value in values if _FITS[subject.kind](value)]
        match subject.kind:
            case Kind.QUOTIENT:
                whole = [int(value) for value in fitting if float(value).is_integer()]
                parts += [_quotient(subject, value, value) for value in whole]
            case Kind.MOMENT:
                whole = [int(value) for value in fitting if value % 1000 == 0]
                parts += [_moments(subject, value // 1000, value // 1000) for value in whole]
            case Kind.BITS:
                plain.setdefault(subject.name, []).extend(map(_digits, fitting))
            case _:
                plain.setdefault(subject.name, []).extend(fitting)
    parts += [equals_any(name, found) for name, found in plain.items() if found]
    return any_of(*parts)


_FITS: Final[dict[Kind, Callable[[Any], bool]]] = {
    Kind.TEXT: lambda value: isinstance(value, str),
    Kind.NUMBER: is_number,
    Kind.BOOLEAN: lambda value: isinstance(value, bool),
    Kind.BITS: lambda value: (
        isinstance(value, str) and len(value) == _BITS and not set(value) - {"0", "1"}
    ),
    Kind.MOMENT: is_number,
    Kind.QUOTIENT: is_number,
}


def _digits(bits: str) -> str:
    """A number of 32 binary digits, the first of which is its sign, as ``bin`` spells it."""
    if bits.startswith("1"):
        return "1" * _BITS + bits
    return bits.lstrip("0") or "0"


def _range(asked: _Asked) -> Expr:
    detail = asked.detail
    low = _bound(detail, "lowerBound", _LEAST)
    high = _bound(detail, "upperBound", _MOST)
    closed_low = bool(detail.get("includeLowerBound"))
    closed_high = bool(detail.get("includeUpperBound"))
    parts: list[Expr] = []
    for subject in asked.subjects:
        match subject.kind:
            case Kind.NUMBER:
                parts.append(_numbers(subject.name, low, closed_low, high, closed_high))
            case Kind.QUOTIENT | Kind.MOMENT:
                unit = 1 if subject.kind is Kind.QUOTIENT else 1000
                first = None if low is None else _first(low / unit, closed_low)
                last = None if high is None else -_first(-high / unit, closed_high)
                span = _quotient if subject.kind is Kind.QUOTIENT else _moments
                parts.append(span(subject, first, last))
    return any_of(*parts) if parts else FALSE


def _bound(detail: Mapping[str, Any], name: str, default: float) -> float | None:
    """One end of a range; None for one that leaves out no number."""
    value = detail.get(name)
    value = default if value is None else value
    if not is_number(value) or math.isnan(value):
        raise RuleError(f"{name} is a number, not {value!r}")
    return None if abs(value) >= _MOST else value


def _numbers(
    name: str, low: float | None, closed_low: bool, high: float | None, closed_high: bool
) -> Expr:
    if low is None and high is None:
        return any_of(Predicate(name, Op.LE, (0,)), Predicate(name, Op.GT, (0,)))
    return between(
        name,
        None if low is None else (Op.GE if closed_low else Op.GT, low),
        None if high is None else (Op.LE if closed_high else Op.LT, high),
    )


def _first(bound: float, closed: bool) -> int:
    """The least whole number from `bound` on, or above it."""
    least = math.ceil(bound)
    return least + 1 if least == bound and not closed else least


def _quotient(subject: Subject, first: int | None, last: int | None) -> Expr:
    """A number that, divided and cut off behind the point, is from `first` to `last`."""
    if subject.divisor < 0:
        first, last = (None if n is None else -n for n in (last, first))
    size = abs(subject.divisor)
    low = high = None
    if first is not None:
        low = (Op.GE, first * size) if first > 0 else (Op.GT, (first - 1) * size)
    if last is not None:
        high = (Op.LT, (last + 1) * size) if last >= 0 else (Op.LE, last * size)
    if low is None and high is None:
        return _numbers(subject.name, None, False, None, False)
    return between(subject.name, low, high)


def _moments(subject: Subject, first: int | None, last: int | None) -> Expr:
    """A time from the beginning of one second to the end of another, counted from 1970."""
    try:
        low = None if first is None else _EPOCH + timedelta(seconds=first)
        high = None if last is None else _EPOCH + timedelta(seconds=last + 1, microseconds=-1)
    except OverflowError:
        raise RuleError("a time lies outside the years 1 to 9999") from None
    if low is not None and high is not None:
        return Predicate(subject.name, Op.BETWEEN, (low, high))
    if low is not None:
        return Predicate(subject.name, Op.GE, (low,))
    return present(subject.name) if high is None else Predicate(subject.name, Op.LE, (high,))


def _regex(asked: _Asked) -> Expr:
    regex = asked.detail.get("regex")
    if not isinstance(regex, str):
        raise RuleError(f"a regex is a text, not {regex!r}")
    build = CONDITIONS["regexp_full"].build
    return any_of(*[build((of.term,), (regex,)) for of in asked.of_kind(Kind.TEXT)])


_VERSIONS: Final = {
    ("ABOVE", False): Op.GE,
    ("ABOVE", True): Op.GT,
    ("BELOW", False): Op.LE,
    ("BELOW", True): Op.LT,
    ("EQUAL", False): Op.EQ,
    ("EQUAL", True): Op.EQ,
}


def _version(asked: _Asked) -> Expr:
    base = asked.detail.get("baseVersion")
    check = (str(asked.detail.get("check")), bool(asked.detail.get("excludeBase")))
    if not isinstance(base, str) or check not in _VERSIONS:
        raise RuleError(f"a version is compared with ABOVE, BELOW or EQUAL, not {check[0]!r}")
    names = [name_of(call("version", (of.term,))) for of in asked.of_kind(Kind.TEXT)]
    return any_of(*[Predicate(name, _VERSIONS[check], (base,)) for name in names])


def _of_set(function: str) -> Callable[[_Asked], Expr]:
    def condition(asked: _Asked) -> Expr:
        whole = Attribute(asked.attribute)
        if any(subject.term != whole for subject in asked.subjects):
            raise RuleError(f"a preoperation before {asked.detail['caveat']} cannot be said")
        return CONDITIONS[function].build((whole,), tuple(_values(asked.detail)))

    return condition


_DETAILS: Final[dict[str, Callable[[_Asked], Expr]]] = {
    "EQUALITY": _equality,
    "RANGE": _range,
    "REGEX": _regex,
    "VERSIONING": _version,
    "SUBSET": _of_set("subset"),
    "SUPERSET": _of_set("superset"),
    "EQUALSET": _of_set("equalset"),
    "INTERSECTION": _of_set("intersects"),
    "EXISTENCE": lambda asked: present(asked.attribute),
    "NON_EXISTENCE": lambda asked: absent(asked.attribute),
}
