"""Arrow data → flat arrays, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, NO_INT32, NO_INT64, Events
from tamis.encode.arrow_arrays import to_arrow, to_numpy
from tamis.encode.arrow_layouts import is_string, plain
from tamis.encode.arrow_rows import read_rows
from tamis.encode.arrow_values import (
    UnreadableValues,
    check_depth,
    columns_of,
    parts_of,
    readable,
    rows_of,
)
from tamis.encode.column_codes import codes_of_array
from tamis.encode.derived import DerivedAttribute, DerivedAttributes
from tamis.encode.dictionary import ABSENT
from tamis.encode.guards import Guards
from tamis.encode.kernel import kernel
from tamis.encode.number_columns import (
    NumberColumn,
    NumberEncoder,
    count_numbers,
    fill_numbers,
)
from tamis.encode.rules import EncodedRules
from tamis.errors import EventError
from tamis.expr.event import Event, FlatEvent, Kind, flatten, value_key, value_of_item
from tamis.expr.model import Value
from tamis.expr.names import is_computed

__all__ = ["AttributeConflict", "ColumnEncoder", "Conform"]

Conform: TypeAlias = Callable[[str, pa.Array, bool], pa.Array]
"""Maps an attribute's values; takes its name, the values, and whether they come from lists."""


class AttributeConflict(Exception):  # a signal to the caller, not an error
    """Two columns have values of one attribute, so the batch must be encoded row by row."""


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
        self._numbers = NumberEncoder(self._axes)
        self._plain: dict[str, int] = {}
        """The attributes whose columns of plain numbers are read as they are."""
        if conform is None:
            self._plain = {name: i for name, i in known.items() if i not in self._by_value}
        self._texts = rules.texts
        self._guards = Guards(rules, sorted(rules.texts.attributes), texts=True)
        self._columns = columns_of(self._attributes)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes to read: those that rules mention, and others to derive from."""
        return frozenset(self._attributes)

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
        try:
            numbers, leaves = self._split_columns(batch)
        except UnreadableValues as unreadable:
            raise unreadable.error(first) from None
        for leaf in leaves:
            leaf = _without_nulls(leaf)
            rows = np.arange(batch.num_rows) if leaf.rows is None else leaf.rows
            for derived in self._by_value.get(leaf.attribute, ()):
                self._derive(derived, leaf._replace(rows=rows), codes, texts)
            if leaf.attribute >= len(self._axes):
                continue
            codes.append(_drop_absent(_Entries(leaf.attribute, rows, self._codes(leaf))))
            if leaf.attribute in self._texts.attributes and is_string(leaf.values.type):
                texts.append(leaf._replace(rows=rows))
        if self._by_row:
            self._derive_by_row(batch, first, codes)
        start, attribute, code = _assemble(self._numbers.describe(numbers), codes, batch.num_rows)
        no_texts = np.zeros_like(start), NO_INT32
        events = Events(start, attribute, code, *no_texts, NO_DOUBLES, NO_DOUBLES)
        if not texts:
            return events
        satisfied = [self._text_entries(leaf, events) for leaf in texts]
        text_start, _, text = _assemble(NO_INT64, satisfied, batch.num_rows)
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
        rows, places = _distinct_pairs(leaf.rows, numbers[to_numpy(values.indices)])
        distinct_codes = np.array([derived.axis.code(value) for value in distinct], np.int32)
        codes.append(_Entries(derived.number, rows, distinct_codes[places]))
        if derived.number in self._texts.attributes:
            # Text predicates are allowed only on functions that return strings.
            strings = pa.array(distinct, pa.large_string())
            derived_values = pa.DictionaryArray.from_arrays(to_arrow(places), strings)
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

    def _split_columns(self, batch: pa.RecordBatch) -> tuple[list[NumberColumn], list[_Leaf]]:
        """The columns of plain numbers that have a value, and the values of other attributes."""
        numbers: list[NumberColumn] = []
        leaves: list[_Leaf] = []
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            attribute = self._plain.get(name)
            column = None if attribute is None else NumberColumn.of(attribute, values)
            if column is None:
                if name in self._columns:
                    check_depth(name, values)
                for leaf in self._walk(name, values, None):
                    found = self._number_column(leaf)
                    if found is None:
                        leaves.append(leaf)
                    else:
                        numbers.append(found)
            elif values.null_count < len(values):
                numbers.append(column)
        attributes = {part.attribute for part in numbers} | {leaf.attribute for leaf in leaves}
        if len(attributes) < len(numbers) + len(leaves):
            raise AttributeConflict
        return numbers, sorted(leaves, key=lambda leaf: leaf.attribute)

    def _walk(
        self, path: str, values: pa.Array, rows: NDArray[np.int64] | None, in_list: bool = False
    ) -> Iterator[_Leaf]:
        """The values of each attribute at or below `path`."""
        if path not in self._columns:
            return
        values = plain(values)
        if pa.types.is_nested(values.type):
            for name, inner, places, is_list in parts_of(path, values, rows, self._columns):
                at = rows if places is None else rows_of(values, rows)[places]
                yield from self._walk(name, inner, at, in_list or is_list)
        elif path in self._attributes:
            read = readable(path, values, rows)
            is_empty = pa.types.is_null(read.type)
            if self._conform is not None:
                # The type of a column may contradict the schema although no row has a value.
                read = self._conform(path, values if is_empty else read, in_list)
            if not is_empty:
                leaf = _Leaf(self._attributes[path], read, rows)
                yield leaf if rows is None else _drop_repeats(leaf)

    def _number_column(self, leaf: _Leaf) -> NumberColumn | None:
        """`leaf` as a column of plain numbers, if it is one and nothing derives from it."""
        number = leaf.attribute
        if leaf.rows is not None or number in self._by_value or number >= len(self._axes):
            return None
        return NumberColumn.of(number, leaf.values)

    def _codes(self, leaf: _Leaf) -> NDArray[np.int32]:
        axis = self._axes[leaf.attribute]
        values = leaf.values
        if pa.types.is_dictionary(values.type):
            distinct = self._codes(_Leaf(leaf.attribute, values.dictionary, None))
            codes: NDArray[np.int32] = distinct[to_numpy(values.indices)]
            return codes
        return codes_of_array(axis, values)

    def _text_entries(self, leaf: _Leaf, events: Events) -> _Entries:
        """The text predicates that the values satisfy, for the events that may need them."""
        assert leaf.rows is not None
        needed = self._guards.rows_that_need(leaf.attribute, events)[leaf.rows]
        rows, values = leaf.rows[needed], leaf.values.filter(to_arrow(needed))
        if not pa.types.is_dictionary(values.type):
            values = pc.dictionary_encode(values)
        satisfied = [
            np.array(self._texts.match(leaf.attribute, value), np.int32)
            for value in values.dictionary.to_pylist()
        ]
        indices = to_numpy(values.indices)
        lengths = np.array([len(ids) for ids in satisfied], np.int64)[indices]
        by_row = [satisfied[i] for i in indices[lengths > 0]]
        texts = np.concatenate(by_row) if by_row else NO_INT32
        return _Entries(leaf.attribute, np.repeat(rows, lengths), texts)


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


def _drop_absent(entries: _Entries) -> _Entries:
    """`entries` without those of NaNs."""
    present = entries.codes != ABSENT
    if present.all():
        return entries
    return _Entries(entries.attribute, entries.rows[present], entries.codes[present])


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
    keys = leaf.rows * (len(encoded.dictionary) + 1) + to_numpy(encoded.indices)
    _, first = np.unique(keys, return_index=True)
    if len(first) == len(keys):
        return leaf
    kept = np.sort(first)
    return _Leaf(leaf.attribute, leaf.values.take(to_arrow(kept)), leaf.rows[kept])


def _without_nulls(leaf: _Leaf) -> _Leaf:
    values = leaf.values
    if pa.types.is_dictionary(values.type) and values.dictionary.null_count:
        values = values.dictionary_decode()
    if not values.null_count:
        return leaf._replace(values=values)
    valid = to_numpy(values.is_valid())
    rows = np.flatnonzero(valid) if leaf.rows is None else leaf.rows[valid]
    return _Leaf(leaf.attribute, values.drop_null(), rows)


def _assemble(
    numbers: NDArray[np.int64], entries: list[_Entries], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The entries of all attributes, row by row, as in `Events`; see `NumberEncoder.describe`."""
    start = np.zeros(size + 1, np.int64)
    if len(numbers):
        count_numbers(numbers, start)
    for entry in entries:
        _count(entry.rows, start)
    np.cumsum(start, out=start)
    attribute = np.empty(start[-1], np.int32)
    code = np.empty(start[-1], np.int32)
    cursor = start[:-1].copy()
    if len(numbers):
        fill_numbers(numbers, cursor, attribute, code)
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
