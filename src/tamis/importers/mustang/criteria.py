"""Reads Mustang's criteria as rules.

A predicate on a path that finds nothing fails, and an excluded one holds: the rules use the weak
logic. A predicate without a weight, or with the weight 0, has the weight 1. A criteria without
parts is a tautology and matches every event.

Mustang searches its index and scans the criteria themselves, and the two disagree on lists: the
index requires one value of a list to match, as rules here do; the scan requires all of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
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
from tamis.expr.names import display_name
from tamis.expr.times import EPOCH
from tamis.importers.entries import Entry, RuleSource, read_entries
from tamis.importers.event_paths import length_at
from tamis.importers.mustang.operations import Kind, Subject, build_size, build_subjects
from tamis.importers.mustang.paths import attribute_of, normal_path
from tamis.importers.predicates import (
    absent,
    any_number,
    between,
    equals_any,
    is_number,
    negate,
    present,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, check_id, make_rule

__all__ = ["read"]

_LEAST: Final = 5e-324
"""Java's Double.MIN_VALUE, the default lower bound of a range."""
_MOST: Final = sys.float_info.max
"""Java's Double.MAX_VALUE, the default upper bound."""

_BITS: Final = 32
"""The number of digits of Mustang's binary numbers."""


def read(source: RuleSource, *, zone: str = "UTC", typed: bool = False) -> Imported:
    """Import the criteria of `source`.

    Parameters
    ----------
    source
        A file, or criteria: one, a list, or a mapping whose values are criteria.
    zone
        The time zone of the machine that Mustang runs on; it decides the hour or the day of a time.
    typed
        Events have a list of values, neither empty nor with nulls, wherever a path has ``[*]`` or a
        predicate ``SIZE``. Then the rules need nothing but the attributes that events have; see
        :func:`tamis.importers.paths_of`.
    """
    try:
        ZoneInfo(zone)
    except (LookupError, OSError, ValueError):
        raise RuleError(
            f"unknown time zone {zone!r}; write a name such as 'Asia/Kolkata'"
        ) from None

    def build(id: RuleId, document: Any) -> Rule:
        reader = _Reader(zone, typed)
        expr = reader.read_criteria(document)
        weights = {key: weight for key, weight in reader.weights.items() if weight != 1}
        return make_rule(id, expr, "weak", weights)

    return import_entries(read_entries(source, _unpack), _identify, build)


def _unpack(documents: Any) -> Any:
    """A single criteria becomes a list of one."""
    return [documents] if isinstance(documents, Mapping) and "form" in documents else documents


def _identify(entry: Entry) -> tuple[RuleId, Any]:
    if not isinstance(entry.content, Mapping):
        raise RuleError("a criteria is an object")
    id = entry.content.get("id", entry.id)
    if id is None:
        raise RuleError("there is no 'id'")
    return check_id(id), entry.content


class _Reader:
    """Reads one criteria, and collects the weights of its predicates."""

    def __init__(self, zone: str, typed: bool) -> None:
        self.zone = zone
        self.typed = typed
        self.weights: dict[Any, float] = {}

    def read_criteria(self, document: Any) -> Expr:
        if not isinstance(document, Mapping):
            raise RuleError(f"a criteria is an object, not {document!r}")
        form = document.get("form")
        match form:
            case "DNF":
                parts = _get_list(document, "conjunctions")
                conjunctions = [all_of(*self.read_composition(part)) for part in parts]
                return any_of(*conjunctions) if conjunctions else TRUE
            case "CNF":
                parts = _get_list(document, "disjunctions")
                return all_of(*[any_of(*self.read_composition(part)) for part in parts])
            case "UNF":
                return self.read_unrestricted(document)
        raise RuleError(f"the form of a criteria is DNF, CNF or UNF, not {form!r}")

    def read_composition(self, composition: Any) -> list[Expr]:
        if not isinstance(composition, Mapping):
            raise RuleError(f"a composition is an object, not {composition!r}")
        return [self.read_predicate(part) for part in _get_list(composition, "predicates")]

    def read_unrestricted(self, document: Mapping[str, Any]) -> Expr:
        nested = [self.read_criteria(part) for part in _get_list(document, "criterias")]
        parts = nested + self.read_composition(document)
        match document.get("type"):
            case "AND":
                return all_of(*parts)
            case "OR":
                return any_of(*parts) if parts else TRUE
        raise RuleError(f"the type of a criteria is AND or OR, not {document.get('type')!r}")

    def read_predicate(self, document: Any) -> Expr:
        if not isinstance(document, Mapping) or not isinstance(document.get("lhs"), str):
            raise RuleError(f"a predicate is an object with a 'lhs', not {document!r}")
        detail = document.get("detail")
        if detail is None:
            detail = {"caveat": "EQUALITY", "values": document.get("values")}
        if not isinstance(detail, Mapping) or str(detail.get("caveat")) not in _DETAILS:
            raise RuleError(f"the detail {detail!r} has no supported caveat")
        operations = document.get("preOperations")
        if operations is None:
            operations = [document["preOperation"]] if document.get("preOperation") else []
        if not isinstance(operations, list):
            raise RuleError(f"preOperations are a list, not {operations!r}")
        expr = self.read_test(document["lhs"], operations, detail)
        match document.get("type"):
            case "INCLUDED":
                self.note_weight(expr, document.get("weight") or 1)
                return expr
            case "EXCLUDED":
                return negate(expr)
        raise RuleError(
            f"the type of a predicate is INCLUDED or EXCLUDED, not {document.get('type')!r}"
        )

    def read_test(self, path: str, operations: Sequence[Any], detail: Mapping[str, Any]) -> Expr:
        """The test of the values at a path; after SIZE of a list, of its size alone."""
        attribute = attribute_of(path, typed=self.typed)
        read_detail = _DETAILS[str(detail["caveat"])]
        length = length_at(normal_path(path))
        by_size = call("size", (Attribute(attribute),)) if self.typed else Attribute(length)
        size = build_size(by_size, operations, self.zone)
        if size is not None and self.typed:
            return read_detail(_Test(size.name, [size], detail))
        subjects = build_subjects(attribute, operations, self.zone)
        expr = read_detail(_Test(attribute, subjects, detail))
        if size is None:
            return expr
        return any_of(read_detail(_Test(length, [size], detail)), all_of(absent(length), expr))

    def note_weight(self, expr: Expr, weight: Any) -> None:
        """Note the weight of a predicate for each of its values, or for the predicate itself."""
        if not is_number(weight):
            raise RuleError(f"the weight {weight!r} is not a number")
        for predicate in predicates(expr):
            keys: Iterable[Any] = [predicate]
            if predicate.op in (Op.EQ, Op.IN):
                keys = [(display_name(predicate.attribute), value) for value in predicate.values]
            for key in () if predicate.negated else keys:
                if self.weights.setdefault(key, weight) != weight:
                    raise RuleError(
                        f"{_describe_key(key)} has the weights {self.weights[key]} and {weight}; "
                        "a rule has one weight for a value"
                    )


def _get_list(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = document.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise RuleError(f"{name} is a list, not {found!r}")
    return found


def _describe_key(key: Any) -> str:
    return f"the value {key[1]!r} of {key[0]}" if isinstance(key, tuple) else "a predicate"


# --- Details ----------------------------------------------------------------------------


class _Test(NamedTuple):
    """The test that a predicate applies."""

    attribute: str
    subjects: Sequence[Subject]
    """The attribute after the preoperations, for each type of value."""
    detail: Mapping[str, Any]

    def of_kind(self, kind: Kind) -> list[Subject]:
        return [subject for subject in self.subjects if subject.kind is kind]


def _read_values(detail: Mapping[str, Any]) -> list[Any]:
    values = detail.get("values")
    if not isinstance(values, list) or not values:
        raise RuleError(f"values are a list with at least one value, not {values!r}")
    for value in values:
        if not isinstance(value, str | int | float):
            raise RuleError(f"{value!r} is not a value that a predicate can equal")
    return values


def _read_equality(test: _Test) -> Expr:
    values = _read_values(test.detail)
    # Types that no operation changed share an attribute, and so a predicate.
    values_by_name: dict[str, list[Any]] = {}
    parts: list[Expr] = []
    for subject in test.subjects:
        fitting = [value for value in values if _FITS[subject.kind](value)]
        match subject.kind:
            case Kind.QUOTIENT:
                whole = [int(value) for value in fitting if float(value).is_integer()]
                parts += [_quotient(subject, value, value) for value in whole]
            case Kind.MOMENT:
                whole = [int(value) for value in fitting if value % 1000 == 0]
                parts += [_moments(subject, value // 1000, value // 1000) for value in whole]
            case Kind.BITS:
                values_by_name.setdefault(subject.name, []).extend(map(_strip_digits, fitting))
            case _:
                values_by_name.setdefault(subject.name, []).extend(fitting)
    parts += [equals_any(name, found) for name, found in values_by_name.items() if found]
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


def _strip_digits(bits: str) -> str:
    """32 binary digits, the first of them the sign, in the form that ``bin`` gives."""
    if bits.startswith("1"):
        return "1" * _BITS + bits
    return bits.lstrip("0") or "0"


def _read_range(test: _Test) -> Expr:
    detail = test.detail
    low = _read_bound(detail, "lowerBound", _LEAST)
    high = _read_bound(detail, "upperBound", _MOST)
    closed_low = bool(detail.get("includeLowerBound"))
    closed_high = bool(detail.get("includeUpperBound"))
    parts: list[Expr] = []
    for subject in test.subjects:
        match subject.kind:
            case Kind.NUMBER:
                parts.append(_numbers(subject.name, low, closed_low, high, closed_high))
            case Kind.QUOTIENT | Kind.MOMENT:
                unit = 1 if subject.kind is Kind.QUOTIENT else 1000
                first = None if low is None else _first_integer(low / unit, closed_low)
                last = None if high is None else -_first_integer(-high / unit, closed_high)
                span = _quotient if subject.kind is Kind.QUOTIENT else _moments
                parts.append(span(subject, first, last))
    return any_of(*parts) if parts else FALSE


def _read_bound(detail: Mapping[str, Any], name: str, default: float) -> float | None:
    """One end of a range; None if it excludes no number."""
    value = detail.get(name)
    value = default if value is None else value
    if not is_number(value) or math.isnan(value):
        raise RuleError(f"{name} is a number, not {value!r}")
    return None if abs(value) >= _MOST else value


def _numbers(
    name: str, low: float | None, closed_low: bool, high: float | None, closed_high: bool
) -> Expr:
    if low is None and high is None:
        return any_number(name)
    return between(
        name,
        None if low is None else (Op.GE if closed_low else Op.GT, low),
        None if high is None else (Op.LE if closed_high else Op.LT, high),
    )


def _first_integer(bound: float, closed: bool) -> int:
    """The least integer that is at least `bound`, or if not `closed`, above it."""
    least = math.ceil(bound)
    return least + 1 if least == bound and not closed else least


def _quotient(subject: Subject, first: int | None, last: int | None) -> Expr:
    """A number whose quotient, truncated to an integer, is from `first` to `last`."""
    if subject.divisor < 0:
        first, last = (None if n is None else -n for n in (last, first))
    size = abs(subject.divisor)
    low = high = None
    if first is not None:
        low = (Op.GE, first * size) if first > 0 else (Op.GT, (first - 1) * size)
    if last is not None:
        high = (Op.LT, (last + 1) * size) if last >= 0 else (Op.LE, last * size)
    if low is None and high is None:
        return any_number(subject.name)
    return between(subject.name, low, high)


def _moments(subject: Subject, first: int | None, last: int | None) -> Expr:
    """A time from the start of second `first` to the end of second `last` since 1970."""
    try:
        low = None if first is None else EPOCH + timedelta(seconds=first)
        high = None if last is None else EPOCH + timedelta(seconds=last + 1, microseconds=-1)
    except OverflowError:
        raise RuleError("a time is outside the years 1 to 9999") from None
    if low is not None and high is not None:
        return Predicate(subject.name, Op.BETWEEN, (low, high))
    if low is not None:
        return Predicate(subject.name, Op.GE, (low,))
    return present(subject.name) if high is None else Predicate(subject.name, Op.LE, (high,))


def _read_regex(test: _Test) -> Expr:
    regex = test.detail.get("regex")
    if not isinstance(regex, str):
        raise RuleError(f"a regex is a text, not {regex!r}")
    build = CONDITIONS["regexp_full"].build
    return any_of(*[build((subject.term,), (regex,)) for subject in test.of_kind(Kind.TEXT)])


_VERSIONS: Final = {
    ("ABOVE", False): Op.GE,
    ("ABOVE", True): Op.GT,
    ("BELOW", False): Op.LE,
    ("BELOW", True): Op.LT,
    ("EQUAL", False): Op.EQ,
    ("EQUAL", True): Op.EQ,
}


def _read_version(test: _Test) -> Expr:
    base = test.detail.get("baseVersion")
    check = (str(test.detail.get("check")), bool(test.detail.get("excludeBase")))
    if not isinstance(base, str) or check not in _VERSIONS:
        raise RuleError(f"a version is compared with ABOVE, BELOW or EQUAL, not {check[0]!r}")
    names = [name_of(call("version", (subject.term,))) for subject in test.of_kind(Kind.TEXT)]
    return any_of(*[Predicate(name, _VERSIONS[check], (base,)) for name in names])


def _read_set(function: str) -> Callable[[_Test], Expr]:
    def read(test: _Test) -> Expr:
        term = Attribute(test.attribute)
        if any(subject.term != term for subject in test.subjects):
            raise RuleError(f"a preoperation before {test.detail['caveat']} is not supported")
        return CONDITIONS[function].build((term,), tuple(_read_values(test.detail)))

    return read


_DETAILS: Final[dict[str, Callable[[_Test], Expr]]] = {
    "EQUALITY": _read_equality,
    "RANGE": _read_range,
    "REGEX": _read_regex,
    "VERSIONING": _read_version,
    "SUBSET": _read_set("subset"),
    "SUPERSET": _read_set("superset"),
    "EQUALSET": _read_set("equalset"),
    "INTERSECTION": _read_set("intersects"),
    "EXISTENCE": lambda test: present(test.attribute),
    "NON_EXISTENCE": lambda test: absent(test.attribute),
}
