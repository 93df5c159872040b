"""Derived attributes: the values of a term on an event.

The name of a derived attribute is the text of its term, which is parsed once. An attribute has the
same value throughout a term, so ``x * x`` on ``x = [2, 3]`` is 4 and 9; several attributes with
several values are combined in all ways. Combinations that a function cannot take give no value, and
a derived attribute without values is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.errors import RuleError
from tamis.expr.event import FlatEvent, derived_values, list_sizes, value_key
from tamis.expr.functions.families import (
    FAMILIES,
    NO_CONDITION,
    Conditions,
    Family,
    Row,
    condition_literals,
    condition_text,
)
from tamis.expr.functions.scalar import FUNCTIONS, Type, check_value, key_of
from tamis.expr.functions.terms import (
    SIZE,
    Attribute,
    Call,
    Constant,
    Term,
    name_of,
    spell_term,
    type_of,
)
from tamis.expr.model import Op, Predicate, Value
from tamis.expr.names import DERIVED, display_name
from tamis.expr.text.term_reader import TermReader
from tamis.expr.text.tokens import END

__all__ = [
    "Derivation",
    "bases_of",
    "check_derived",
    "derivation",
    "describe_attribute",
    "index_conditions",
    "make_comparable",
    "read_derived_name",
    "term_named",
    "values_of",
]

_KEYS: Final = (Type.VERSION, Type.SEMVER, Type.ADDRESS)
"""Types whose values are keys: they sort as expected, but are not readable."""

_MOST_ROWS: Final = 10_000
"""The most combinations of values; with more the attribute is absent."""

_REMEMBERED: Final = 16_384
"""How many results are remembered for each derived attribute."""


class Input(NamedTuple):
    """An input of a term."""

    attribute: str
    counts: bool
    """Whether the input is the number of values, not the values."""


_Compute: TypeAlias = Callable[[Row], Value | None]


class Derivation:
    """Computes one derived attribute.

    Attributes
    ----------
    inputs
        What it needs from the event.
    family
        The family of conditions that the attribute belongs to, if any.
    of_one
        The function of a single value; None if there are more inputs, or a whole list.
    """

    __slots__ = ("_computes", "_values_of", "family", "inputs", "of_one")

    def __init__(self, term: Call) -> None:
        self.family: Family | None = FAMILIES.get(term.function)
        terms: tuple[Term, ...] = (term,) if self.family is None else term.terms
        self.inputs = tuple(dict.fromkeys(i for inner in terms for i in _inputs(inner)))
        places = {item: place for place, item in enumerate(self.inputs)}
        self._computes = [_compile(inner, places) for inner in terms]
        self._values_of: str | None = None
        """The attribute whose values are all that a family looks at."""
        if self.family is not None and len(terms) == 1 and isinstance(terms[0], Attribute):
            self._values_of = terms[0].name
        self.of_one: Callable[[Value], Value | None] | None = None
        if self.family is None and len(self.inputs) == 1 and not self.inputs[0].counts:
            compute = self._computes[0]
            self.of_one = lru_cache(_REMEMBERED, typed=True)(lambda value: compute((value,)))

    def values(self, event: FlatEvent) -> list[Value]:
        """The distinct values on an event; empty if the attribute is absent. Not for families."""
        if self.of_one is not None:
            given = event.get(self.inputs[0].attribute, ())
            if len(given) == 1:
                value = self.of_one(given[0])
                return [] if value is None else [value]
            return _distinct(map(self.of_one, given))
        compute = self._computes[0]
        rows = self._rows(event)
        if len(rows) == 1:
            value = compute(rows[0])
            return [] if value is None else [value]
        return _distinct(map(compute, rows))

    def find_holding(self, event: FlatEvent, conditions: Conditions) -> list[Value]:
        """The family's conditions that hold on an event; empty if the attribute is absent."""
        places = self.find_places(event, conditions)
        if places is None:
            return []
        return [conditions.texts[place] for place in places.tolist()] or [NO_CONDITION]

    def find_places(self, event: FlatEvent, conditions: Conditions) -> NDArray[np.int64] | None:
        """The places of the conditions that hold on an event; None if the attribute is absent."""
        assert self.family is not None
        name = self._values_of
        if name is not None:
            values = event.get(name)
            return conditions.find(list(zip(values)), name in list_sizes(event)) if values else None
        rows: list[Row] = []
        for given in self._rows(event):
            row = tuple([compute(given) for compute in self._computes])
            if None not in row and self.family.fits(row):  # type: ignore[arg-type]  # no None
                rows.append(row)  # type: ignore[arg-type]  # no None
        if not rows:
            return None
        sizes = list_sizes(event)
        return conditions.find(rows, any(item.attribute in sizes for item in self.inputs))

    def _rows(self, event: FlatEvent) -> Sequence[Row]:
        """All combinations of the input values; empty if there are too many."""
        given: list[Sequence[Value]] = []
        for name, counts in self.inputs:
            if counts:
                size = list_sizes(event).get(name)
                given.append(() if size is None else (size,))
            else:
                given.append(event.get(name, ()))
        if all(len(values) == 1 for values in given):
            return [tuple([values[0] for values in given])]
        return list(product(*given)) if prod(map(len, given)) <= _MOST_ROWS else ()


def _distinct(values: Iterable[Value | None]) -> list[Value]:
    return list({value_key(value): value for value in values if value is not None}.values())


def _inputs(term: Term) -> Iterable[Input]:
    if isinstance(term, Attribute):
        yield Input(term.name, False)
    elif isinstance(term, Call):
        if term.function == SIZE:
            (counted,) = term.terms
            assert isinstance(counted, Attribute)
            yield Input(counted.name, True)
        else:
            for inner in term.terms:
                yield from _inputs(inner)


def _compile(term: Term, places: Mapping[Input, int]) -> _Compute:
    """The term as a function of a row of inputs."""
    if isinstance(term, Constant):
        value = term.value
        return lambda row: value
    if isinstance(term, Attribute) or term.function == SIZE:
        (item,) = _inputs(term)
        place = places[item]
        return lambda row: row[place]
    function = FUNCTIONS[term.function]
    checked = [check(v) for check, v in zip(function.literals, term.literals, strict=False)]
    scalar = function.bind(*checked)
    parts: list[_Compute] = []
    for inner in term.terms:  # a comprehension would take one more frame for each level
        parts.append(_compile(inner, places))  # noqa: PERF401
    if len(parts) == 1:
        part = parts[0]

        def of_one(row: Row) -> Value | None:
            value = part(row)
            return None if value is None else scalar(value)

        return of_one
    left, right = parts

    def of_two(row: Row) -> Value | None:
        a, b = left(row), right(row)
        return None if a is None or b is None else scalar(a, b)

    return of_two


# --- By name ----------------------------------------------------------------------------


@lru_cache(maxsize=65_536)
def term_named(name: str) -> Call:
    """The term in the name of a derived attribute.

    Raises
    ------
    RuleError
        The name is not exactly what :func:`name_of` gives for a term.
    """
    reader = TermReader(f"({name.removeprefix(DERIVED)})")
    term = reader.read_term()
    if reader.kinds[reader.at] != END or not isinstance(term, Call) or name_of(term) != name:
        raise RuleError(f"{name!r} does not name a derived attribute; parse a rule's text instead")
    return term


def read_derived_name(text: str) -> str:
    """The name of the derived attribute of a term's text.

    Raises
    ------
    RuleSyntaxError
        The text is not a term, or just an attribute or a literal.
    """
    reader = TermReader(f"({text})")
    term = reader.read_term()
    if reader.kinds[reader.at] != END:
        raise reader.expected_error("the end")
    if not isinstance(term, Call):
        raise reader.error("expected a function of an attribute, such as length(name)", 1)
    return name_of(term)


@lru_cache(maxsize=65_536)
def derivation(name: str) -> Derivation:
    """The computation of the derived attribute `name`."""
    return Derivation(term_named(name))


def bases_of(name: str) -> frozenset[str]:
    """The event's attributes that an attribute is derived from, or the attribute itself."""
    if not name.startswith(DERIVED):
        return frozenset([name])
    return frozenset(item.attribute for item in derivation(name).inputs)


@lru_cache(maxsize=4096)
def _conditions(name: str, texts: tuple[str, ...]) -> Conditions:
    return index_conditions(name, texts)


def index_conditions(name: str, texts: Iterable[str]) -> Conditions:
    """Build an index over the conditions of a family that rules mention, given by their texts."""
    family = derivation(name).family
    assert family is not None
    return family.search({text: condition_literals(text) for text in texts})


def values_of(predicate: Predicate, event: FlatEvent) -> Sequence[Value] | None:
    """The event's values of a predicate's attribute, derived if necessary; None if absent."""
    name = predicate.attribute
    values = event.get(name)
    if values is not None or not name.startswith(DERIVED):
        return values
    how = derivation(name)
    if how.family is None:
        known = derived_values(event)
        found = known.get(name)
        if found is None:
            found = known[name] = how.values(event)
        return found or None
    texts = tuple(value for value in predicate.values if isinstance(value, str))
    return how.find_holding(event, _conditions(name, texts)) or None


def describe_attribute(predicate: Predicate, event: FlatEvent) -> tuple[str, tuple[Value, ...]]:
    """The display name and the values of a predicate's attribute, for people.

    Keys and conditions are not readable, so for these it is what they are derived from.
    """
    name = predicate.attribute
    if not name.startswith(DERIVED):
        return display_name(name), tuple(event.get(name, ()))
    term = term_named(name)
    if term.function not in FAMILIES and type_of(term) not in _KEYS:
        return spell_term(term), tuple(values_of(predicate, event) or ())
    inner = [t for t in term.terms if not isinstance(t, Constant)]
    values = [values_of(Predicate(name_of(t), Op.PRESENT), event) or () for t in inner]
    return ", ".join(map(spell_term, inner)), tuple(v for some in values for v in some)


def make_comparable(predicate: Predicate) -> Predicate:
    """`predicate` with versions and addresses as keys, which compare like the values."""
    if not predicate.attribute.startswith(DERIVED):
        return predicate
    given = type_of(term_named(predicate.attribute))
    if given not in _KEYS:
        return predicate
    values = tuple([key_of(value, given) for value in predicate.values])
    return Predicate(predicate.attribute, predicate.op, values, predicate.negated)


def check_derived(predicate: Predicate) -> None:
    """Refuse a predicate on a derived attribute that can never hold, or has no text.

    Raises
    ------
    RuleError
        The name is not valid, or a literal is of a kind that the attribute never has.
    """
    term = term_named(predicate.attribute)
    what, given = spell_term(term), type_of(term)
    if term.function in FAMILIES:
        _check_condition(term, predicate)
        return
    if predicate.op.is_text:
        if given not in (Type.STRING, Type.ANY):
            raise RuleError(f"{what} is {given}; {predicate.op} looks into strings")
        return
    for value in predicate.values:
        check_value(value, given, what)


def _check_condition(term: Call, predicate: Predicate) -> None:
    family = FAMILIES[term.function]
    text = predicate.values[0] if predicate.op is Op.EQ else None
    if isinstance(text, str):
        try:
            values = condition_literals(text)
            is_whole = len(values) == family.literals if family.literals else bool(values)
            if is_whole and condition_text(family, values) == text:
                return
        except ValueError:
            pass
    raise RuleError(f"{term.function} can only be built from its text; parse a rule's text instead")
