"""Conditions that come in families: one attribute, and a condition of its own for each rule.

``subset(tags, ('x', 'y'))`` and a hundred thousand like it ask the same list about as many sets. To
work out each of them for each event would be as slow as having no index. So a family is *one*
derived attribute, ``subset(tags)``, whose values are the conditions that hold, as texts:
``('x', 'y')``; a rule asks whether its own is among them. An event holds endlessly many such
values, and only those that rules mention are worked out, by way of an index over these.

The attribute is absent where what it speaks of is. Where no condition holds it has one value that
is no condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.errors import RuleError
from tamis.expr.event import kind_of, value_key
from tamis.expr.functions.scalar import Type
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
"""A value beside those of the conditions that hold, so that the attribute is there."""

Row: TypeAlias = tuple[Value, ...]

Conditions: TypeAlias = Callable[[Sequence[Row], bool], list[str]]
"""Takes what the terms come to on an event, a row for each combination of values, and whether they
stem from a list; gives the conditions that hold, each once."""


_Search: TypeAlias = Callable[[dict[str, tuple[Value, ...]]], Conditions]


class Family(NamedTuple):
    """A family of conditions."""

    takes: tuple[Type, ...]
    """What its terms have to give."""
    literals: int
    """How many literals make a condition; 0 for a list of any number of them."""
    check: Callable[[tuple[Value, ...]], tuple[Value, ...]]
    """The literals in their one form; refuses others with a RuleError."""
    search: _Search
    """Makes an index over the literals of conditions by their text."""
    fits: Callable[[Row], bool] = lambda row: True
    """Whether it can be asked of a row."""


def condition_text(family: Family, values: tuple[Value, ...]) -> str:
    """The text of a condition."""
    text = ", ".join(map(spell, family.check(values)))
    return text if family.literals else f"({text})"


_LITERAL: Final = re.compile(r"(?:TIMESTAMP )?'[^']*+(?:''[^']*+)*+'|[^,()'\s]++")


def condition_literals(text: str) -> tuple[Value, ...]:
    """The literals of a condition, from its text."""
    return tuple([read_literal(source) for source in _LITERAL.findall(text)])


# --- Sets -------------------------------------------------------------------------------

_Element: TypeAlias = tuple[int, Value]


def _distinct(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """`values` in one order, each once, and whole numbers as integers: one form for a set."""
    whole = map(_integer_if_whole, values)
    return tuple(sorted({value_key(value): value for value in whole}.values(), key=spell))


def _integer_if_whole(value: Value) -> Value:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def _element(value: Value) -> _Element:
    """As `value_key`, but of plain integers, which are faster to look up."""
    return kind_of(value).value, value


def _sets(
    holds: Callable[[NDArray[np.int64], NDArray[np.int64], int], NDArray[np.bool_]],
) -> _Search:
    """An index that counts, for each set, how many of an event's values are in it.

    Parameters
    ----------
    holds
        Takes these counts, the sizes of the sets and the number of values, and tells which hold.
    """

    def search(conditions: dict[str, tuple[Value, ...]]) -> Conditions:
        texts = list(conditions)
        sizes = np.array([len(values) for values in conditions.values()], np.int64)
        numbers: dict[_Element, list[int]] = {}
        for number, values in enumerate(conditions.values()):
            for value in values:
                numbers.setdefault(_element(value), []).append(number)
        holding = {element: np.array(some) for element, some in numbers.items()}

        def find(rows: Sequence[Row], from_list: bool) -> list[str]:
            elements = {_element(value) for (value,) in rows}
            found = [holding[element] for element in elements if element in holding]
            if not from_list or not found:
                return []
            counts = np.bincount(np.concatenate(found), minlength=len(texts))
            places = np.flatnonzero(holds(counts, sizes, len(elements)))
            return [texts[place] for place in places.tolist()]

        return find

    return search


# --- Distances --------------------------------------------------------------------------

_EARTH_KM: Final = 6371.0088
"""The mean radius of the earth."""

_SLACK: Final = 1e-9
"""In degrees: circles are chosen by latitude with so much room for rounding."""


def _circle(values: tuple[Value, ...]) -> tuple[Value, ...]:
    latitude, longitude, km = values
    is_number = isinstance(km, int | float) and not isinstance(km, bool)
    if not (is_number and _is_place((latitude, longitude)) and km >= 0):  # type: ignore[operator]  # a number
        raise RuleError(
            "within_km takes a latitude of -90 to 90, a longitude of -180 to 180 and kilometres, "
            f"not {', '.join(map(spell, values))}"
        )
    return values


def _is_place(row: Row) -> bool:
    latitude, longitude = row
    return (
        isinstance(latitude, int | float)
        and isinstance(longitude, int | float)
        and not isinstance(latitude, bool)
        and not isinstance(longitude, bool)
        and abs(latitude) <= 90
        and abs(longitude) <= 180
    )


def _circles(conditions: dict[str, tuple[Value, ...]]) -> Conditions:
    """Circles by the latitude of their middle; those too far north or south are not looked at."""
    texts = list(conditions)
    numbers = np.array([[float(v) for v in conditions[text]] for text in texts])  # type: ignore[arg-type]  # numbers
    order = np.argsort(numbers[:, 0], kind="stable")
    texts = [texts[i] for i in order]
    degrees, km = numbers[order, 0], numbers[order, 2]
    latitude, longitude = np.radians(numbers[order, :2]).T
    cosine = np.cos(latitude)
    reach = math.degrees(float(km.max()) / _EARTH_KM) + _SLACK

    def find(rows: Sequence[Row], _: bool) -> list[str]:
        found: dict[str, None] = {}
        for row in rows:
            a, b = map(float, row)  # type: ignore[arg-type]  # numbers, as `_is_place` saw to
            first, last = np.searchsorted(degrees, [a - reach, a + reach])
            some = slice(int(first), int(last))
            here = math.radians(a)
            half = (
                np.sin((latitude[some] - here) / 2) ** 2
                + cosine[some]
                * math.cos(here)
                * np.sin((longitude[some] - math.radians(b)) / 2) ** 2
            )
            distance = 2 * _EARTH_KM * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
            for place in np.flatnonzero(distance <= km[some]).tolist():
                found[texts[first + place]] = None
        return list(found)

    return find


FAMILIES: Final[dict[str, Family]] = {
    "subset": Family((Type.ANY,), 0, _distinct, _sets(lambda n, _, values: n == values)),
    "superset": Family((Type.ANY,), 0, _distinct, _sets(lambda n, sizes, _: n == sizes)),
    "equalset": Family(
        (Type.ANY,), 0, _distinct, _sets(lambda n, sizes, v: (n == v) & (sizes == v))
    ),
    "within_km": Family((Type.NUMBER, Type.NUMBER), 3, _circle, _circles, _is_place),
}
