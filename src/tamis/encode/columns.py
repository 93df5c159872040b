"""Arrow data → flat arrays, column by column."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT32, Events
from tamis.encode.derived import DerivedAttribute, DerivedAttributes
from tamis.encode.dictionary import ABSENT, Axis
from tamis.encode.guards import Guards
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules
from tamis.errors import EventError
from tamis.expr.event import Event, FlatEvent, Kind, flatten, value_key, value_of_item
from tamis.expr.model import Value
from tamis.expr.names import is_computed

__all__ = ["AttributeConflict", "ColumnEncoder", "Conform", "columns_of", "read_rows"]

Conform: TypeAlias = Callable[[str, pa.Array, bool], pa.Array]
"""Maps an attribute's values; takes its name, the values, and whether they come from lists."""


_EVENT = ""
"""The name of a column that holds whole events."""

_DAY: Final = 86_400
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of year 1 and the last day of year 9999, in days since 1970."""

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class AttributeConflict(Exception):  # a signal to the caller, not an error
    """Two columns have values of one attribute, so the batch must be encoded row by row."""


class _UnreadableValue(Exception):
    """A column holds a value that no kind can hold; the caller knows the number of the event."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row

    def error(self, first: int) -> EventError:
        """The error for users, where the first row is the event `first`."""
        return EventError(f"event {first + self.row}: {self}")


class _Leaf(NamedTuple):
    """The values of one attribute."""

    attribute: int
    values: pa.Array
    rows: NDArray[np.int64] | None
    """The row of each value; None if value i belongs to row i."""


class _Entries(NamedTuple):
    """The codes, or the text ids, of one attribute in each row."""

    attribute: int
    rows: NDArray[np.int64]
    codes: NDArray[np.int32]


class ColumnEncoder:
    """Encodes Arrow data for one set of rules.

    A struct's fields and a map's keys are attributes with dotted names; the elements of a list are
    values of a multi-valued attribute. A struct or a map without a name is the event itself: its
    fields or keys are attributes under their own names. Columns that no rule mentions are ignored.

    Parameters
    ----------
    rules
        The rules.
    conform
        Applied to the values of every attribute, for example to parse timestamps that a schema
        declares.
    read
        The same for a whole row, which it flattens.
    derived
        The derived attributes of the rules' dictionary, if the caller has them already.
    """

    def __init__(
        self,
        rules: EncodedRules,
        conform: Conform | None = None,
        read: Callable[[Event], FlatEvent] = flatten,
        derived: DerivedAttributes | None = None,
    ) -> None:
        self._conform = conform
        self._read = read
        self._derived = DerivedAttributes(rules.dictionary) if derived is None else derived
        known = rules.dictionary.attributes
        unknown = sorted(self._derived.bases - known.keys())
        self._attributes = known | {name: len(known) + i for i, name in enumerate(unknown)}
        """The attributes to read: those that rules mention, then others to derive from."""
        self._names = list(self._attributes)
        self._axes = rules.dictionary.axes
        self._by_value, self._by_row = self._group_derived()
        self._texts = rules.texts
        self._guards = Guards(rules, sorted(rules.texts.attributes), texts=True)
        self._columns = columns_of(self._attributes)

    def encode(self, batch: pa.RecordBatch, first: int = 0) -> Events:
        """Encode the rows of a batch, each an event; `first` is the number of the first one.

        Raises
        ------
        EventError
            A column that rules mention holds a value that Tamis cannot read.
        AttributeConflict
            Two columns have values of one attribute.
        """
        codes: list[_Entries] = []
        texts: list[_Leaf] = []
        self._check_names(batch)
        last = -1
        try:
            leaves = sorted(self._leaves(batch), key=lambda leaf: leaf.attribute)
        except _UnreadableValue as unreadable:
            raise unreadable.error(first) from None
        for leaf in leaves:
            if leaf.attribute == last:
                raise AttributeConflict
            last = leaf.attribute
            leaf = _without_nulls(leaf)
            rows = np.arange(batch.num_rows) if leaf.rows is None else leaf.rows
            for derived in self._by_value.get(leaf.attribute, ()):
                self._derive(derived, leaf._replace(rows=rows), codes, texts)
            if leaf.attribute >= len(self._axes):
                continue
            codes.append(_drop_absent(_Entries(leaf.attribute, rows, self._codes(leaf))))
            if leaf.attribute in self._texts.attributes and _is_string(leaf.values.type):
                texts.append(leaf._replace(rows=rows))
        if self._by_row:
            self._derive_by_row(batch, first, codes)
        start, attribute, code = _assemble(codes, batch.num_rows)
        no_texts = np.zeros_like(start), NO_INT32
        events = Events(start, attribute, code, *no_texts, NO_DOUBLES, NO_DOUBLES)
        if not texts:
            return events
        satisfied = [self._text_entries(leaf, events) for leaf in texts]
        text_start, _, text = _assemble(satisfied, batch.num_rows)
        return events._replace(text_start=text_start, text=text)

    def _check_names(self, batch: pa.RecordBatch) -> None:
        for name in batch.schema.names:
            if is_computed(name):
                raise EventError(f"the column {name!r} begins with a control character")

    def _group_derived(self) -> tuple[dict[int, list[DerivedAttribute]], list[DerivedAttribute]]:
        """The derived attributes of another one's single values, by that one; and the rest."""
        by_value: dict[int, list[DerivedAttribute]] = {}
        by_row: list[DerivedAttribute] = []
        for derived in self._derived:
            if derived.how.of_one is None:
                by_row.append(derived)
            else:
                base = self._attributes[derived.how.inputs[0].attribute]
                by_value.setdefault(base, []).append(derived)
        return by_value, by_row

    def _derive(
        self, derived: DerivedAttribute, leaf: _Leaf, codes: list[_Entries], texts: list[_Leaf]
    ) -> None:
        """Derive an attribute from each distinct value of another."""
        assert leaf.rows is not None
        assert derived.how.of_one is not None
        values = leaf.values
        if not pa.types.is_dictionary(values.type):
            values = pc.dictionary_encode(values)
        name = self._names[leaf.attribute]
        given = [value_of_item(name, item) for item in values.dictionary.to_pylist()]
        results = [None if value is None else derived.how.of_one(value) for value in given]
        numbers, distinct = _number_values(results)
        rows, places = _distinct_pairs(leaf.rows, numbers[values.indices.to_numpy()])
        distinct_codes = np.array([derived.axis.code(value) for value in distinct], np.int32)
        codes.append(_Entries(derived.number, rows, distinct_codes[places]))
        if derived.number in self._texts.attributes:
            # Text predicates are allowed only on functions that return strings.
            strings = pa.array(distinct, pa.large_string())
            derived_values = pa.DictionaryArray.from_arrays(pa.array(places), strings)
            texts.append(_Leaf(derived.number, derived_values, rows))

    def _derive_by_row(self, batch: pa.RecordBatch, first: int, codes: list[_Entries]) -> None:
        """Derive the attributes that depend on several others, or on a list as a whole."""
        bases = {item.attribute for derived in self._by_row for item in derived.how.inputs}
        events = [self._read(row) for row in read_rows(batch, bases, first)]
        for derived in self._by_row:
            rows: list[int] = []
            row_codes: list[int] = []
            for row, event in enumerate(events):
                for value in derived.values(event):
                    rows.append(row)
                    row_codes.append(derived.axis.code(value))
            entries = np.array(rows, np.int64), np.array(row_codes, np.int32)
            codes.append(_Entries(derived.number, *entries))

    def rows(self, batch: pa.RecordBatch, first: int = 0) -> list[dict[str, Any]]:
        """The rows of a batch as mappings, with only the attributes that rules mention."""
        return read_rows(batch, self._attributes, first)

    def _leaves(self, batch: pa.RecordBatch) -> Iterator[_Leaf]:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            yield from self._walk(name, column, None)

    def _walk(self, path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> Iterator[_Leaf]:
        kind = values.type
        if pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type):
            values = values.dictionary_decode()
            kind = values.type
        if path not in self._columns:
            return
        if pa.types.is_struct(kind):
            for field, child in zip(kind, values.flatten(), strict=True):
                yield from self._walk(_within(path, field.name), child, rows)
        elif pa.types.is_map(kind):
            yield from self._walk_map(path, values, rows)
        elif _is_list(kind):
            inner = np.repeat(_rows_of(values, rows), _lengths(values))
            yield from self._walk(path, values.flatten(), inner)
        elif path in self._attributes:
            readable = _readable(path, values, rows)
            is_empty = pa.types.is_null(readable.type)
            if self._conform is not None:
                # The type of a column may contradict the schema although no row has a value.
                column = _without_views(values) if is_empty else readable
                readable = self._conform(path, column, rows is not None)
            if not is_empty:
                values = readable
                leaf = _Leaf(self._attributes[path], values, rows)
                yield leaf if rows is None else _drop_repeats(leaf)

    def _walk_map(
        self, path: str, values: pa.MapArray, rows: NDArray[np.int64] | None
    ) -> Iterator[_Leaf]:
        inner = np.repeat(_rows_of(values, rows), _lengths(values))
        for name, items, places in _map_columns(path, values, inner, self._columns):
            yield from self._walk(name, items, inner[places])

    def _codes(self, leaf: _Leaf) -> NDArray[np.int32]:
        axis = self._axes[leaf.attribute]
        values = leaf.values
        if pa.types.is_dictionary(values.type):
            distinct = self._codes(_Leaf(leaf.attribute, values.dictionary, None))
            codes: NDArray[np.int32] = distinct[values.indices.to_numpy()]
            return codes
        return _array_codes(axis, values)

    def _text_entries(self, leaf: _Leaf, events: Events) -> _Entries:
        """The text predicates that the values satisfy, for the events that may need them."""
        assert leaf.rows is not None
        needed = self._guards.rows_that_need(leaf.attribute, events)[leaf.rows]
        rows, values = leaf.rows[needed], leaf.values.filter(pa.array(needed))
        if not pa.types.is_dictionary(values.type):
            values = pc.dictionary_encode(values)
        satisfied = [
            np.array(self._texts.match(leaf.attribute, value), np.int32)
            for value in values.dictionary.to_pylist()
        ]
        indices = values.indices.to_numpy()
        lengths = np.array([len(ids) for ids in satisfied], np.int64)[indices]
        by_row = [satisfied[i] for i in indices[lengths > 0]]
        texts = np.concatenate(by_row) if by_row else NO_INT32
        return _Entries(leaf.attribute, np.repeat(rows, lengths), texts)


def columns_of(attributes: Iterable[str]) -> frozenset[str]:
    """Names of the columns that may have these attributes: also nested, or in whole events."""
    names = frozenset(attributes)
    prefixes = {name[:i] for name in names for i, char in enumerate(name) if char == "."}
    return names | prefixes | {_EVENT}


def read_rows(
    batch: pa.RecordBatch, attributes: Collection[str], first: int = 0
) -> list[dict[str, Any]]:
    """The rows of a batch as mappings, with only these attributes.

    Values of columns with the same name become a list, and so do those of a repeated key of a map.

    Parameters
    ----------
    batch
        Each row is an event.
    attributes
        The attributes to read.
    first
        The number of the first event, for errors.

    Raises
    ------
    EventError
        One of these attributes has a value that no kind can hold.
    """
    wanted = _Wanted(frozenset(attributes), columns_of(attributes))
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in wanted.columns:
            continue
        try:
            values = _python_values(name, column, None, wanted)
        except _UnreadableValue as unreadable:
            raise unreadable.error(first) from None
        for row, value in zip(rows, values, strict=True):
            for key, item in (value or {}).items() if name == _EVENT else [(name, value)]:
                _add_item(row, key, item)
    return rows


class _Wanted(NamedTuple):
    """What to read of a batch."""

    attributes: frozenset[str]
    columns: frozenset[str]
    """The columns, structs and maps that may have these attributes."""


def _add_item(row: dict[str, Any], key: str, item: Any) -> None:
    row[key] = [row[key], item] if key in row else item


def _python_values(
    path: str, values: pa.Array, rows: NDArray[np.int64] | None, wanted: _Wanted
) -> list[Any]:
    """The values of a column as Python's, without the attributes that are not wanted."""
    kind = values.type
    if pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type):
        values = values.dictionary_decode()
        kind = values.type
    result: list[Any] = [None] * len(values)
    if path not in wanted.columns:
        return result
    if pa.types.is_struct(kind):
        result = [{} for _ in result]
        for field, child in zip(kind, values.flatten(), strict=True):
            name = _within(path, field.name)
            for row, item in zip(result, _python_values(name, child, rows, wanted), strict=True):
                _add_item(row, field.name, item)
    elif pa.types.is_map(kind):
        result = [{} for _ in result]
        lengths = _lengths(values)
        owners = np.repeat(np.arange(len(values)), lengths)
        inner = np.repeat(_rows_of(values, rows), lengths)
        for name, items, places in _map_columns(path, values, inner, wanted.columns):
            key = name[len(path) + 1 :] if path else name
            found = _python_values(name, items, inner[places], wanted)
            for owner, item in zip(owners[places].tolist(), found, strict=True):
                _add_item(result[owner], key, item)
    elif _is_list(kind):
        lengths = _lengths(values)
        inner = np.repeat(_rows_of(values, rows), lengths)
        items = iter(_python_values(path, values.flatten(), inner, wanted))
        result = [list(islice(items, length)) for length in lengths.tolist()]
    elif path in wanted.attributes:
        result = _readable(path, values, rows).to_pylist()
    return result


def _map_columns(
    path: str, values: pa.MapArray, rows: NDArray[np.int64], columns: Collection[str]
) -> Iterator[tuple[str, pa.Array, NDArray[np.int64]]]:
    """The items under each key of a map that is among `columns`: name, items and their places."""
    keys, items = _as_list(values).flatten().flatten()
    items = _without_views(items)
    keys = pc.dictionary_encode(_readable(path, keys, rows))
    numbers = keys.indices.to_numpy(zero_copy_only=False)
    if len(keys.dictionary) < 1 << 16:
        numbers = numbers.astype(np.uint16)  # NumPy sorts these in linear time
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(keys.dictionary)))
    begin = 0
    for key, end in zip(keys.dictionary.to_pylist(), ends.tolist(), strict=True):
        here, begin, name = order[begin:end], end, _within(path, key)
        if name in columns:
            yield name, items.take(pa.array(here)), here


def _number_values(values: list[Value | None]) -> tuple[NDArray[np.int64], list[Value]]:
    """The place of each value among the distinct ones, -1 for None; and the distinct ones."""
    places: dict[tuple[Kind, Value], int] = {}
    distinct: list[Value] = []
    numbers = np.full(len(values), -1, np.int64)
    for i, value in enumerate(values):
        if value is not None:
            numbers[i] = places.setdefault(value_key(value), len(distinct))
            if numbers[i] == len(distinct):
                distinct.append(value)
    return numbers, distinct


def _distinct_pairs(
    rows: NDArray[np.int64], numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of a row and a number, without numbers below zero and without repeated pairs."""
    present = numbers >= 0
    rows, numbers = rows[present], numbers[present]
    if (np.diff(rows) > 0).all():
        return rows, numbers
    _, first = np.unique(rows * (int(numbers.max()) + 1) + numbers, return_index=True)
    kept = np.sort(first)
    return rows[kept], numbers[kept]


def _within(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _drop_absent(entries: _Entries) -> _Entries:
    """`entries` without those of NaNs."""
    present = entries.codes != ABSENT
    if present.all():
        return entries
    return _Entries(entries.attribute, entries.rows[present], entries.codes[present])


def _is_string(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _readable(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> pa.Array:
    """The values of an attribute, with times in UTC and microseconds.

    Raises
    ------
    _UnreadableValue
        One of them is a value that no kind can hold.
    """
    kind = values.type
    if pa.types.is_null(kind) or values.null_count == len(values):
        return pa.nulls(len(values))
    if pa.types.is_dictionary(kind):
        try:
            distinct = _readable(path, values.dictionary, None)
        except _UnreadableValue:
            # It names a place in the dictionary, and perhaps no row has that value.
            return _readable(path, values.dictionary_decode(), rows)
        if pa.types.is_null(distinct.type):
            return pa.nulls(len(values))
        return pa.DictionaryArray.from_arrays(values.indices, distinct)
    if _is_string(kind):
        values = _without_views(values)
        _check_unicode(path, values, rows)
    elif pa.types.is_timestamp(kind):
        values = _read_times(path, values, rows)
    elif pa.types.is_date(kind):
        _check_dates(path, values, rows)
    elif pa.types.is_uint64(kind):
        _check_integers(path, values, rows)
    elif not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise _UnreadableValue(
            _first_row(values.is_valid(), rows),
            f"column {path!r} has the type {kind}, which rules cannot compare; "
            "cast it to a string, an integer, a double, a boolean or a timestamp",
        )
    return values


def _check_unicode(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> None:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        is_large = pa.types.is_large_string(values.type)
        raw = values.view(pa.large_binary() if is_large else pa.binary())
        broken = pa.array([not (item is None or _is_utf8(item)) for item in raw.to_pylist()])
        raise _UnreadableValue(
            _first_row(broken, rows), f"column {path!r} holds a string that is not valid UTF-8"
        ) from None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_times(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> pa.Array:
    """Timestamps as microseconds, in UTC if they have a zone."""
    kind = values.type
    if kind.tz is not None and not _is_zone(kind.tz):
        message = f"column {path!r} has the unknown time zone {kind.tz!r}; cast it to UTC"
        raise _UnreadableValue(_first_row(values.is_valid(), rows), message)
    counts = values.cast(pa.int64())
    per_second = _PER_SECOND[kind.unit]
    if kind.unit == "ns":  # which cannot leave these years
        floored = counts.fill_null(0).to_numpy() // 1000
        counts = pa.array(floored, mask=values.is_null().to_numpy(zero_copy_only=False))
    else:
        _check_days(path, counts, rows, _DAY * per_second)
        counts = pc.multiply(counts, 10**6 // per_second)
    return counts.cast(pa.timestamp("us", None if kind.tz is None else "UTC"))


def _check_dates(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> None:
    is_32 = pa.types.is_date32(values.type)
    counts = values.cast(pa.int32()).cast(pa.int64()) if is_32 else values.cast(pa.int64())
    _check_days(path, counts, rows, 1 if is_32 else _DAY * 1000)


def _check_days(path: str, counts: pa.Array, rows: NDArray[np.int64] | None, per_day: int) -> None:
    """Refuse times outside the years 1 to 9999."""
    least, most = _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1
    span = pc.min_max(counts)
    if span["min"].as_py() < least or span["max"].as_py() > most:
        outside = pc.or_(pc.less(counts, least), pc.greater(counts, most))
        message = f"column {path!r} holds a time that lies outside the years 1 to 9999"
        raise _UnreadableValue(_first_row(outside, rows), message)


@lru_cache(maxsize=256)
def _is_zone(name: str) -> bool:
    """Whether Python knows a time zone."""
    try:
        pa.lib.string_to_tzinfo(name)
    except Exception:  # of several types, some of packages that may be absent
        return False
    return True


def _check_integers(path: str, values: pa.Array, rows: NDArray[np.int64] | None) -> None:
    """Refuse unsigned integers that are too large for 64 bits with a sign."""
    beyond = pc.greater(values, pa.scalar(2**63 - 1, pa.uint64()))
    if pc.any(beyond).as_py():
        held = values.filter(beyond)[0].as_py()
        message = f"column {path!r} holds {held}, which does not fit in 64 bits"
        raise _UnreadableValue(_first_row(beyond, rows), message)


def _first_row(is_bad: pa.Array, rows: NDArray[np.int64] | None) -> int:
    """The row of the first value that is bad; there is one."""
    at: int = is_bad.index(True).as_py()
    return at if rows is None else int(rows[at])


def _without_views(values: pa.Array) -> pa.Array:
    """`values` with string views cast to strings, since few functions of Arrow accept views."""
    if pa.types.is_string_view(values.type):
        return values.cast(pa.large_string())
    if pa.types.is_dictionary(values.type) and pa.types.is_string_view(values.type.value_type):
        return pa.DictionaryArray.from_arrays(values.indices, _without_views(values.dictionary))
    return values


def _rows_of(values: pa.Array, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return np.arange(len(values)) if rows is None else rows


def _lengths(values: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_map(values.type):
        values = _as_list(values)
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    result: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def _as_list(values: pa.MapArray) -> pa.Array:
    """A map array as a list array of its keys and items."""
    entry = pa.struct([("key", pa.string()), ("item", values.type.item_type)])
    return values.cast(pa.list_(entry))


def _drop_repeats(leaf: _Leaf) -> _Leaf:
    """`leaf` without repeated values of a row."""
    leaf = _without_nulls(leaf)
    assert leaf.rows is not None
    if (np.diff(leaf.rows) > 0).all():
        return leaf  # no row has two values
    values = leaf.values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):
        values = pc.add(values.cast(pa.float64()), 0.0)  # turns -0.0 into 0.0
    encoded = pc.dictionary_encode(values)
    keys = leaf.rows * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
    _, first = np.unique(keys, return_index=True)
    if len(first) == len(keys):
        return leaf
    kept = np.sort(first)
    return _Leaf(leaf.attribute, leaf.values.take(pa.array(kept)), leaf.rows[kept])


def _without_nulls(leaf: _Leaf) -> _Leaf:
    values = leaf.values
    if pa.types.is_dictionary(values.type) and values.dictionary.null_count:
        values = values.dictionary_decode()
    if not values.null_count:
        return leaf._replace(values=values)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(valid) if leaf.rows is None else leaf.rows[valid]
    return _Leaf(leaf.attribute, values.drop_null(), rows)


def _array_codes(axis: Axis, values: pa.Array) -> NDArray[np.int32]:
    """The codes of an array without nulls."""
    kind = values.type
    if _is_string(kind):
        return _encode_strings(axis, values)
    if pa.types.is_boolean(kind):
        return axis.codes_of_booleans(values.to_numpy(zero_copy_only=False))
    if pa.types.is_floating(kind):
        return axis.codes_of_doubles(values.cast(pa.float64()).to_numpy())
    if pa.types.is_integer(kind):
        return axis.codes_of_ints(values.cast(pa.int64()).to_numpy())
    return axis.codes_of_times(_as_microseconds(values))


def _as_microseconds(values: pa.Array) -> NDArray[np.int64]:
    stamps = values.cast(pa.timestamp("us", getattr(values.type, "tz", None)))
    result: NDArray[np.int64] = stamps.cast(pa.int64()).to_numpy()
    return result


def _encode_strings(axis: Axis, values: pa.Array) -> NDArray[np.int32]:
    mentioned = axis.string_array().cast(values.type)
    places = pc.index_in(values, value_set=mentioned)
    codes: NDArray[np.int32] = places.fill_null(0).to_numpy().astype(np.int32)
    codes = axis.strings_at + 2 * codes + 1
    if places.null_count:
        missing = places.is_null().to_numpy(zero_copy_only=False)
        codes[missing] = _gap_codes(axis, values.filter(pa.array(missing)))
    return codes


def _gap_codes(axis: Axis, values: pa.Array) -> NDArray[np.int32] | int:
    """The codes of strings that no rule mentions; any gap does if no rule orders strings."""
    if not axis.orders_strings:
        return axis.strings_at
    encoded = pc.dictionary_encode(values)
    gaps = np.array([axis.code(text) for text in encoded.dictionary.to_pylist()], np.int32)
    result: NDArray[np.int32] = gaps[encoded.indices.to_numpy()]
    return result


def _assemble(
    entries: list[_Entries], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The entries of all attributes, row by row, as in `Events`."""
    start = np.zeros(size + 1, np.int64)
    for entry in entries:
        _count(entry.rows, start)
    np.cumsum(start, out=start)
    attribute = np.empty(start[-1], np.int32)
    code = np.empty(start[-1], np.int32)
    cursor = start[:-1].copy()
    for entry in entries:
        _fill(entry.rows, entry.codes, entry.attribute, cursor, attribute, code)
    return start, attribute, code


@kernel
def _count(rows, start):  # type: ignore[no-untyped-def]  # Numba infers the types
    for i in range(len(rows)):
        start[rows[i] + 1] += 1


@kernel
def _fill(rows, codes, number, cursor, attribute, code):  # type: ignore[no-untyped-def]  # Numba infers the types
    for i in range(len(rows)):
        at = cursor[rows[i]]
        attribute[at] = number
        code[at] = codes[i]
        cursor[rows[i]] = at + 1
