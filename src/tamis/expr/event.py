"""What an event is: attributes by dotted path, each with the distinct values found there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tamis.errors import EventError
from tamis.expr.model import Value, is_unicode
from tamis.expr.names import is_computed
from tamis.expr.numbers import INT_MAX, INT_MIN, MAX_DIGITS, LongDecimal, number_of_decimal

__all__ = [
    "MAX_DEPTH",
    "Event",
    "FlatEvent",
    "Kind",
    "derived_values",
    "extend_event",
    "flatten",
    "has_unreadable",
    "kind_of",
    "list_sizes",
    "make_flat",
    "read_plain_list",
    "refuse_unreadable",
    "require_readable",
    "value_key",
    "value_of_item",
]

Event: TypeAlias = Mapping[str, Any]
"""An event as users write it: values, lists of values, nested objects."""

FlatEvent: TypeAlias = dict[str, list[Value]]
"""An event's present attributes; no list is empty or has a value twice."""


class _Unreadable(NamedTuple):
    """A value that no kind can hold."""

    path: str
    is_object: bool
    """Whether the attributes below the path cannot be read either."""
    message: str


class _Flattened(dict[str, list[Value]]):
    """A flat event that remembers which attributes were lists.

    Attributes
    ----------
    sizes
        How many values each list has, including repeated ones.
    derived
        The values of derived attributes, computed once for all rules.
    unreadable
        The values that no kind can hold; see `refuse_unreadable`.
    """

    __slots__ = ("derived", "sizes", "unreadable")

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[str, int] = {}
        self.derived: dict[str, list[Value]] = {}
        self.unreadable: list[_Unreadable] = []


MAX_DEPTH: Final = 200
"""How many levels deep an event may be nested."""
_SCALARS = (str, bytes, bytearray, memoryview)
"""Sequences that are values, not lists of values."""


class Kind(IntEnum):
    """The kinds of values. Two values compare only when they are of one kind."""

    BOOLEAN = 0
    NUMBER = 1
    STRING = 2
    TIMESTAMP = 3


def kind_of(value: Value) -> Kind:
    """The kind of `value`; integers, doubles and decimals are all numbers."""
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int | float | LongDecimal):
        return Kind.NUMBER
    if isinstance(value, str):
        return Kind.STRING
    return Kind.TIMESTAMP


def value_key(value: Value) -> tuple[Kind, Value]:
    """A dictionary key: ``True`` and ``1`` differ, ``1`` and ``1.0`` do not."""
    return kind_of(value), value


def flatten(event: Event) -> FlatEvent:
    """The present attributes of `event` and their distinct values, in order of appearance.

    Nulls, NaNs, empty lists and empty objects are dropped. A flat key ``a.b`` and a nested
    ``{"a": {"b": …}}`` are one attribute with the values of both. Values that no kind can hold are
    set aside: they matter only where a rule mentions the attribute, as
    :func:`refuse_unreadable` finds out.

    Raises
    ------
    EventError
        `event` is not a mapping, or a key of it is not a valid name.
    """
    if not isinstance(event, Mapping):
        raise EventError(
            f"an event is a mapping of attributes to values, not {type(event).__name__}"
            + ("; give its to_dict()" if hasattr(event, "to_dict") else "")
        )
    flat = _Flattened()
    for name, item in event.items():
        # The fast path: most values need no conversion.
        if _is_plain(item) and name.__class__ is str and name > " " and name not in flat:
            flat[name] = [item]
        else:
            _collect(_check_name(name, ""), item, flat, 1, False)
    for name, values in flat.items():
        if name in flat.sizes:
            flat.sizes[name] = len(values)
        if len(values) > 1:
            flat[name] = _distinct(values)
    return flat


def _distinct(values: list[Value]) -> list[Value]:
    if bool not in set(map(type, values)):
        return list(dict.fromkeys(values))
    return list({value_key(value): value for value in values}.values())


def has_unreadable(event: FlatEvent) -> bool:
    """Whether the event has values that no kind can hold, in whichever attributes."""
    return isinstance(event, _Flattened) and bool(event.unreadable)


def require_readable(event: FlatEvent) -> FlatEvent:
    """Return an event all of whose values must be readable, as rules yet to come may mention any.

    Raises
    ------
    EventError
        A value is one that no kind can hold; the message names its attribute.
    """
    if isinstance(event, _Flattened) and event.unreadable:
        raise EventError(event.unreadable[0].message)
    return event


def refuse_unreadable(event: FlatEvent, *attributes: Collection[str]) -> None:
    """Raise an error if one of these attributes has a value that no kind can hold.

    Raises
    ------
    EventError
        It has; the message names the attribute.
    """
    if not isinstance(event, _Flattened):
        return
    for path, is_object, message in event.unreadable:
        if any(path in names for names in attributes):
            raise EventError(message)
        # Few events have such objects, so that the names may be tried one by one.
        if is_object and any(name.startswith(f"{path}.") for names in attributes for name in names):
            raise EventError(message)


def extend_event(event: FlatEvent, more: Mapping[str, list[Value]]) -> FlatEvent:
    """A copy of `event` with more attributes."""
    if not isinstance(event, _Flattened):
        return {**event, **more}
    result = _Flattened()
    result.update(event)
    result.update(more)
    result.sizes, result.derived = event.sizes, event.derived
    result.unreadable = event.unreadable
    return result


def _is_plain(item: Any) -> bool:
    kind = item.__class__
    if kind is str:
        return bool(item.isascii())
    if kind is float:
        return bool(item == item)
    return kind is int and bool(INT_MIN <= item <= INT_MAX)


def read_plain_list(items: list[Any]) -> tuple[list[Value], int] | None:
    """The distinct values of a list of nothing but strings, or numbers, and how many it has.

    None for any other list, an empty one or one that is not valid among them.
    """
    plain = _plain_values(items)
    if not plain:
        return None
    return list(dict.fromkeys(plain)), len(plain)


def make_flat(values: dict[str, list[Value]], sizes: dict[str, int]) -> FlatEvent:
    """A flat event of distinct values, and how many values each list among them has."""
    flat = _Flattened()
    flat.update(values)
    flat.sizes = sizes
    return flat


def _plain_values(items: list[Any]) -> list[Value] | None:
    """The values of a list of nothing but strings, or numbers; None for any other list."""
    kinds = set(map(type, items))
    if kinds == {str}:
        return items if is_unicode("".join(items)) else None
    if kinds == {int}:
        return items if min(items) >= INT_MIN and max(items) <= INT_MAX else None
    if kinds == {float}:
        return [item for item in items if item == item]
    return None


def list_sizes(event: FlatEvent) -> Mapping[str, int]:
    """How many values each attribute has that the event gave as a list, including repeated ones.

    Without :func:`flatten`, only attributes with several values are known to be lists.
    """
    if isinstance(event, _Flattened):
        return event.sizes
    return {name: len(values) for name, values in event.items() if len(values) > 1}


def derived_values(event: FlatEvent) -> dict[str, list[Value]]:
    """The derived attributes computed so far; callers add what they compute."""
    return event.derived if isinstance(event, _Flattened) else {}


def _collect(path: str, item: Any, flat: _Flattened, depth: int, in_list: bool) -> None:
    if depth > MAX_DEPTH:
        message = f"the event is nested more than {MAX_DEPTH} levels deep"
        flat.unreadable.append(_Unreadable(path, True, message))
    elif isinstance(item, Mapping):
        for name, inner in item.items():
            try:
                _check_name(name, path)
            except EventError as error:
                flat.unreadable.append(_Unreadable(path, True, str(error)))
                continue
            _collect(f"{path}.{name}", inner, flat, depth + 1, in_list)
    elif item.__class__ is list and (plain := _plain_values(item)):
        flat.setdefault(path, []).extend(plain)
        flat.sizes[path] = 0
    elif isinstance(item, Sequence | set | frozenset) and not isinstance(item, _SCALARS):
        for inner in item:
            _collect(path, inner, flat, depth + 1, True)
    else:
        try:
            value = value_of_item(path, item)
        except EventError as error:
            flat.unreadable.append(_Unreadable(path, False, str(error)))
            return
        if value is not None:
            flat.setdefault(path, []).append(value)
            if in_list:
                flat.sizes[path] = 0


def _check_name(name: Any, path: str) -> str:
    if isinstance(name, str):
        if is_computed(name):
            raise EventError(f"the attribute {name!r} begins with a control character")
        return name
    where = f" in {path!r}" if path else ""
    raise EventError(f"attribute names are strings; {name!r}{where} is {type(name).__name__}")


def value_of_item(path: str, item: Any) -> Value | None:
    """`item` as a value, or None where it stands for absence."""
    if item is None or isinstance(item, bool):
        return item
    if isinstance(item, str):
        if not is_unicode(item):
            raise EventError(f"attribute {path!r} holds half a surrogate pair, no valid Unicode")
        return item
    if isinstance(item, int):
        if not INT_MIN <= item <= INT_MAX:
            raise EventError(f"attribute {path!r} holds {item}, which does not fit in 64 bits")
        return item
    if isinstance(item, float):
        return item if item == item else None
    if isinstance(item, Decimal):
        return _number_of_item(path, item)
    if isinstance(item, datetime):
        if item != item:  # pandas' NaT is a datetime that equals nothing
            return None
        return _as_utc(path, item)
    if isinstance(item, np.datetime64):
        # Floors to microseconds; what no datetime can hold comes out as an integer.
        moment = item.astype("datetime64[us]").item()
        if moment is None or isinstance(moment, datetime):
            return value_of_item(path, moment)
        raise EventError(f"attribute {path!r} holds {item}, which lies outside the years 1 to 9999")
    if isinstance(item, date):
        return datetime(item.year, item.month, item.day, tzinfo=UTC)
    if isinstance(item, LongDecimal):
        return item
    if hasattr(item, "tolist"):  # NumPy scalars and arrays; both unwrap to Python values
        return _unwrap(path, item)
    if type(item).__name__ == "NAType":  # pandas' missing value
        return None
    raise EventError(
        f"attribute {path!r} holds a value of type {type(item).__name__}; expected a string, "
        "an integer, a double, a decimal, a boolean, a datetime, or a list of them"
    )


def _number_of_item(path: str, item: Decimal) -> Value | None:
    try:
        return number_of_decimal(item)
    except ValueError:
        raise EventError(
            f"attribute {path!r} holds {item:.60}, and decimals have up to {MAX_DIGITS} digits"
        ) from None


def _as_utc(path: str, item: datetime) -> datetime:
    if item.__class__ is not datetime:
        # A subclass may have nanoseconds, as in pandas, and compare by them.
        item = datetime.combine(item.date(), item.timetz())
    try:
        return item.replace(tzinfo=UTC) if item.tzinfo is None else item.astimezone(UTC)
    except OverflowError:
        raise EventError(
            f"attribute {path!r} holds {item}, which lies outside the years 1 to 9999"
        ) from None


def _unwrap(path: str, item: Any) -> Value | None:
    plain = item.tolist()
    if isinstance(plain, list) or hasattr(plain, "tolist"):
        raise EventError(f"attribute {path!r} holds an array; give a list instead")
    return value_of_item(path, plain)
