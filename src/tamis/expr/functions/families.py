"""Families of conditions: one derived attribute for the conditions of many rules.

``subset(tags, ('x', 'y'))`` and a hundred thousand like it compare the same list with as many sets.
Evaluating each of them for each event would be as slow as having no index. So a family is *one*
derived attribute, ``subset(tags)``, whose values are the texts of the conditions that hold:
``('x', 'y')``. A rule tests whether its own condition is among them. An event has endlessly many
such values; only those that rules mention are found, through an index over them.

The attribute is absent if its terms are. If none of the conditions holds, it has one value that is
not a condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.errors import RuleError
from tamis.expr.event import Kind, kind_of, value_key
from tamis.expr.functions.scalar import Type
from tamis.expr.lexemes import STRING
from tamis.expr.model import Value
from tamis.expr.text.literals import read_literal, spell

__all__ = [
    "FAMILIES",
    "NO_CONDITION",
    "Conditions",
    "Family",
    "Row",
    "condition_literals",
    "condition_text",
]

NO_CONDITION: Final = ""
"""The value of a present attribute on which none of the conditions holds."""

Row: TypeAlias = tuple[Value, ...]


class Conditions(NamedTuple):
    """An index over conditions."""

    texts: list[str]
    """The conditions."""
    find: Callable[[Sequence[Row], bool], NDArray[np.int64]]
    """Takes the values of the terms on an event, a row for each combination, and whether they come
    from a list; returns the places in `texts` of the conditions that hold, each once."""


_Search: TypeAlias = Callable[[dict[str, tuple[Value, ...]]], Conditions]


class Family(NamedTuple):
    """A family of conditions."""

    takes: tuple[Type, ...]
    """The types of the terms."""
    literals: int
    """How many literals a condition has; 0 for a list of any length."""
    check: Callable[[tuple[Value, ...]], tuple[Value, ...]]
    """Returns the literals in their canonical form; raises a RuleError if they are not valid."""
    search: _Search
    """Builds an index over conditions, given as their literals by text."""
    fits: Callable[[Row], bool] = lambda row: True
    """Whether the family applies to a row."""


def condition_text(family: Family, values: tuple[Value, ...]) -> str:
    """The text of a condition."""
    text = ", ".join(map(spell, family.check(values)))
    return text if family.literals else f"({text})"


_LITERAL: Final = re.compile(rf"(?:TIMESTAMP )?{STRING}|[^,()'\s]+")


def condition_literals(text: str) -> tuple[Value, ...]:
    """The literals of a condition, from its text."""
    return tuple([read_literal(source) for source in _LITERAL.findall(text)])


# --- Sets -------------------------------------------------------------------------------

_STRING: Final = Kind.STRING.value
_Element: TypeAlias = tuple[int, Value]
_Counts: TypeAlias = NDArray[np.int64] | NDArray[np.uint8]


def _distinct(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The canonical form of a set: sorted, without duplicates, whole numbers as integers."""
    whole = map(_integer_if_whole, values)
    return tuple(sorted({value_key(value): value for value in whole}.values(), key=spell))


def _integer_if_whole(value: Value) -> Value:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def _element(value: Value) -> _Element:
    """As `value_key`, but with plain integers, which are faster to look up."""
    return kind_of(value).value, value


def _sets(
    holds: Callable[[_Counts, _Counts, int], NDArray[np.bool_]],
) -> _Search:
    """An index that counts, for each set, how many of an event's values are in it.

    Parameters
    ----------
    holds
        Takes these counts, the sizes of the sets and the number of values, and returns which hold.
    """

    def search(conditions: dict[str, tuple[Value, ...]]) -> Conditions:
        texts = list(conditions)
        sizes = np.array([len(values) for values in conditions.values()], np.int64)
        numbers: dict[_Element, list[int]] = {}
        for number, values in enumerate(conditions.values()):
            for value in values:
                numbers.setdefault(_element(value), []).append(number)
        holding = {element: np.array(some) for element, some in numbers.items()}
        rows_of = _dense_rows(holding, sizes)
        small_sizes = np.minimum(sizes, _MOST_COUNTED).astype(np.uint8)

        def find(rows: Sequence[Row], from_list: bool) -> NDArray[np.int64]:
            if not from_list:
                return _NO_PLACES
            elements = {
                (_STRING, value) if value.__class__ is str else _element(value) for (value,) in rows
            }
            known = [element for element in elements if element in holding]
            if not known:
                return _NO_PLACES
            if rows_of and len(elements) <= _MOST_COUNTED:
                small = rows_of[known[0]].copy()
                for element in known[1:]:
                    small += rows_of[element]
                return holds(small, small_sizes, len(elements)).nonzero()[0]
            listed = np.concatenate([holding[element] for element in known])
            counts = np.bincount(listed, minlength=len(texts))
            return np.flatnonzero(holds(counts, sizes, len(elements)))

        return Conditions(texts, find)

    return search


_MOST_COUNTED: Final = 255
"""The most elements of a set, and of an event's list, that are counted in bytes."""

_SPARSE: Final = 32
"""A byte for each element and set is stored if at least one in this number is set."""

_NO_PLACES: Final = np.empty(0, np.int64)


def _dense_rows(
    holding: dict[_Element, NDArray[np.int64]], sizes: NDArray[np.int64]
) -> dict[_Element, NDArray[np.uint8]]:
    """For each element a byte for each set, 1 if the set has it; empty if that takes much room.

    Adding up such rows counts several times as fast as counting the listed sets.
    """
    if sizes.max(initial=0) > _MOST_COUNTED or len(holding) * len(sizes) > _SPARSE * sizes.sum():
        return {}
    rows: dict[_Element, NDArray[np.uint8]] = {}
    for element, numbers in holding.items():
        row = rows[element] = np.zeros(len(sizes), np.uint8)
        row[numbers] = 1
    return rows


# --- Distances --------------------------------------------------------------------------

_EARTH_KM: Final = 6371.0088
"""The mean radius of the earth."""

_SLACK: Final = 1e-9
"""In degrees: the margin for rounding when circles are selected by latitude."""

_MARGIN: Final = 1e-6
"""In radians: the margin when circles are selected by the cosine of an angle, which is exact to
1e-15, so that an angle is exact to the square root of that."""


def _circle(values: tuple[Value, ...]) -> tuple[Value, ...]:
    latitude, longitude, km = values
    if not (kind_of(km) is Kind.NUMBER and _is_place((latitude, longitude)) and km >= 0):  # type: ignore[operator]  # a number
        raise RuleError(
            "within_km takes a latitude of -90 to 90, a longitude of -180 to 180 and kilometres, "
            f"not {', '.join(map(spell, values))}"
        )
    return values


def _is_place(row: Row) -> bool:
    latitude, longitude = row
    return (
        kind_of(latitude) is kind_of(longitude) is Kind.NUMBER
        and abs(float(latitude)) <= 90  # type: ignore[arg-type]  # a number
        and abs(float(longitude)) <= 180  # type: ignore[arg-type]  # a number
    )


def _circles(conditions: dict[str, tuple[Value, ...]]) -> Conditions:
    """Circles sorted by the latitude of their centre; those too far north or south are skipped."""
    texts = list(conditions)
    numbers = np.array([[float(v) for v in conditions[text]] for text in texts])  # type: ignore[arg-type]  # numbers
    order = np.argsort(numbers[:, 0], kind="stable")
    degrees, km = numbers[order, 0], numbers[order, 2]
    latitude, longitude = np.radians(numbers[order, :2]).T
    cosine = np.cos(latitude)
    reach = math.degrees(float(km.max()) / _EARTH_KM) + _SLACK
    # The centres as points of the unit sphere, and the cosine of each radius, with a margin.
    centre = np.stack([cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)])
    least = np.cos(np.minimum(km / _EARTH_KM + _MARGIN, math.pi)) - _MARGIN**2

    def find_one(row: Row) -> NDArray[np.int64]:
        a, b = map(float, row)  # type: ignore[arg-type]  # numbers, see `_is_place`
        first, last = degrees.searchsorted((a - reach, a + reach)).tolist()
        here, there = math.radians(a), math.radians(b)
        level = math.cos(here)
        point = np.array((level * math.cos(there), level * math.sin(there), math.sin(here)))
        near = np.flatnonzero(point @ centre[:, first:last] >= least[first:last])
        if len(near) == 0:
            return _NO_PLACES
        near += first
        half = (
            np.sin((latitude[near] - here) / 2) ** 2
            + cosine[near] * level * np.sin((longitude[near] - there) / 2) ** 2
        )
        distance = 2 * _EARTH_KM * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
        found: NDArray[np.int64] = order[near[distance <= km[near]]]
        return found

    def find(rows: Sequence[Row], _: bool) -> NDArray[np.int64]:
        if len(rows) == 1:
            return find_one(rows[0])
        return np.unique(np.concatenate([find_one(row) for row in rows]))

    return Conditions(texts, find)


FAMILIES: Final[dict[str, Family]] = {
    "subset": Family((Type.ANY,), 0, _distinct, _sets(lambda n, _, values: n == values)),
    "superset": Family((Type.ANY,), 0, _distinct, _sets(lambda n, sizes, _: n == sizes)),
    "equalset": Family(
        (Type.ANY,), 0, _distinct, _sets(lambda n, sizes, v: (n == v) & (sizes == v))
    ),
    "within_km": Family((Type.NUMBER, Type.NUMBER), 3, _circle, _circles, _is_place),
}
