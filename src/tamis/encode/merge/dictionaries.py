"""Unites the dictionaries of several sets of rules, and recodes their atoms.

An old code is a mentioned value or a gap next to one, so it has a counterpart among the new codes,
where more values may be mentioned and others no longer are:

- a value's code becomes the value's new code;
- the low end of a range, if it is a gap, means "from the start of this kind" where it is the first
  gap, and otherwise "above the value before it": the gap that follows that value's new code;
- the high end, if it is a gap, means "to the end of this kind" where it is the last gap, and
  otherwise "below the value after it". So IS NOT NULL, a range to the last code, stays one.

The new dictionary mentions only the values that such an end or a list names.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import LONG, RANGE, SET, TEXT, AtomArrays, DictionaryArrays, TextArrays
from tamis.encode.atoms import take_atoms
from tamis.encode.dictionary import FIRST, Dictionary
from tamis.encode.kernel import kernel
from tamis.encode.ragged import concatenate_lists, starts, take_lists
from tamis.encode.rules import EncodedRules
from tamis.encode.text_predicates import TextIndex
from tamis.encode.values import pack_longs, pack_texts, unpack_longs, unpack_texts
from tamis.expr.numbers import LongDecimal, Number

__all__ = ["UnitedAtoms", "unite_atoms"]

_NUMBERS: Final = 0
_STRINGS: Final = 1
_TIMES: Final = 2
_KINDS: Final = 3
"""The kinds whose values a dictionary lists, in the order of their codes."""


class UnitedAtoms(NamedTuple):
    """Atoms of several sets of rules, end to end, in the codes of one dictionary."""

    atoms: AtomArrays
    dictionary: Dictionary
    texts: TextIndex


class _Layout(NamedTuple):
    """Where the values of each attribute are when all are laid end to end, kind after kind."""

    first: NDArray[np.int64]
    """A row for each attribute: where its numbers, strings and timestamps begin."""
    counts: NDArray[np.int64]
    """How many there are of each."""


class _Values(NamedTuple):
    """The values of all sets, end to end; as in `DictionaryArrays`."""

    number: NDArray[np.float64]
    below: NDArray[np.uint32]
    """Orders the numbers that have the same double, falling: their distances to it, or where there
    are long decimals, their ranks."""
    text_start: NDArray[np.int64]
    text: NDArray[np.uint8]
    time: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        dictionaries: Sequence[DictionaryArrays],
        below: NDArray[np.uint16],
        longs: Mapping[int, LongDecimal],
    ) -> _Values:
        return cls(
            number := np.concatenate([d.number for d in dictionaries]),
            _order_below(number, below, longs),
            *concatenate_lists([(d.text_start, d.text) for d in dictionaries]),
            np.concatenate([d.time for d in dictionaries]),
        )


def unite_atoms(parts: Sequence[EncodedRules], chosen: Sequence[NDArray[np.int64]]) -> UnitedAtoms:
    """The `chosen` atoms of each part, with one dictionary of the values that they mention."""
    dictionaries = [part.dictionary.arrays for part in parts]
    old = _gather_atoms(parts, chosen)
    below = np.concatenate([_all_below(d) for d in dictionaries])
    longs = _all_longs(dictionaries)
    values, layout = _Values.of(dictionaries, below, longs), _layout(dictionaries)
    kind_start = starts([len(values.number), len(values.text_start) - 1, len(values.time)])
    layout.first[:] += kind_start[:-1]
    names, attribute = _unite_attributes(parts, np.unique(old.table[:, 0]))
    marks = np.zeros(kind_start[-1], np.uint8)
    _mark_values(old, layout, marks)
    place = np.full(len(marks), -1, np.int64)
    lists = [
        _unite_kind(kind, values, layout, attribute, len(names), kind_start, marks, place)
        for kind in range(_KINDS)
    ]
    new = _Layout(
        np.stack([start[:-1] for start, _ in lists], axis=1),
        np.stack([np.diff(start) for start, _ in lists], axis=1),
    )
    text_id, texts = _unite_texts(parts, old.table, attribute)
    orders = np.zeros(len(names), np.uint8)
    table, codes = np.empty_like(old.table), np.empty_like(old.codes)
    _recode(old, layout, new, attribute, place, text_id, orders, table, codes)
    dictionary = Dictionary(_dictionary_arrays(names, values, lists, orders, below, longs))
    return UnitedAtoms(AtomArrays(table, codes), dictionary, TextIndex(texts))


def _gather_atoms(parts: Sequence[EncodedRules], chosen: Sequence[NDArray[np.int64]]) -> AtomArrays:
    """The chosen atoms end to end, with attributes and text ids numbered across all parts."""
    tables, codes = [], []
    attributes = texts = code_count = 0
    for part, numbers in zip(parts, chosen, strict=True):
        atoms = take_atoms(part.atoms, numbers)
        atoms.attribute[:] += attributes
        atoms.table[atoms.test == SET, 2:] += code_count
        atoms.low[atoms.test == TEXT] += texts
        tables.append(atoms.table)
        codes.append(atoms.codes)
        attributes += len(part.dictionary.axes)
        texts += part.texts.size
        code_count += len(atoms.codes)
    return AtomArrays(np.concatenate(tables), np.concatenate(codes))


def _layout(dictionaries: Sequence[DictionaryArrays]) -> _Layout:
    """Where each attribute's values are among those of their kind, over all sets."""
    counts = [
        np.stack(
            [np.diff(start) for start in (d.number_start, d.string_start, d.time_start)], axis=1
        )
        for d in dictionaries
    ]
    count = np.concatenate(counts)
    first = np.zeros_like(count)
    np.cumsum(count[:-1], axis=0, out=first[1:])
    return _Layout(first, count)


def _all_below(dictionary: DictionaryArrays) -> NDArray[np.uint16]:
    below = dictionary.number_below
    return below if len(below) else np.zeros(len(dictionary.number), np.uint16)


def _all_longs(dictionaries: Sequence[DictionaryArrays]) -> dict[int, LongDecimal]:
    """The long decimals of all sets, by their place among the numbers of all."""
    longs: dict[int, LongDecimal] = {}
    first = 0
    for dictionary in dictionaries:
        longs.update((first + at, long) for at, long in unpack_longs(dictionary).items())
        first += len(dictionary.number)
    return longs


def _order_below(
    number: NDArray[np.float64], below: NDArray[np.uint16], longs: Mapping[int, LongDecimal]
) -> NDArray[np.uint32]:
    """What orders the numbers that have the same double; see `_Values.below`."""
    order = below.astype(np.uint32)
    if not longs:
        return order
    doubles = np.unique(number[np.fromiter(longs, np.int64, len(longs))])
    places = np.flatnonzero(np.isin(number, doubles) & (below > 0)).tolist()
    # An integer is that far below its double, which is whole.
    exact: dict[int, Number] = {
        at: longs[at] if at in longs else int(number[at]) - int(below[at]) for at in places
    }
    ranks = {value: rank for rank, value in enumerate(sorted(set(exact.values()), reverse=True), 1)}
    order[places] = [ranks[exact[at]] for at in places]
    return order


def _unite_attributes(
    parts: Sequence[EncodedRules], used: NDArray[np.int32]
) -> tuple[list[str], NDArray[np.int64]]:
    """The names of the attributes in use, and the new number of each old attribute or -1."""
    all_names = [name for part in parts for name in part.dictionary.attributes]
    numbers: dict[str, int] = {}
    new = np.full(len(all_names), -1, np.int64)
    for old in used.tolist():
        new[old] = numbers.setdefault(all_names[old], len(numbers))
    return list(numbers), new


def _unite_kind(
    kind: int,
    values: _Values,
    layout: _Layout,
    attribute: NDArray[np.int64],
    attributes: int,
    kind_start: NDArray[np.int64],
    marks: NDArray[np.uint8],
    place: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The marked values of a kind, sorted and distinct for each new attribute.

    Returns where those of each attribute begin, and the old place of each; writes its new place
    into `place`.
    """
    used = np.flatnonzero(attribute >= 0)
    used = used[np.argsort(attribute[used], kind="stable")]
    here = slice(kind_start[kind], kind_start[kind + 1])
    begin = layout.first[used, kind] - kind_start[kind]
    runs = np.stack([begin, begin + layout.counts[used, kind]], axis=1)
    run_start = starts(np.bincount(attribute[used], minlength=attributes))
    start = np.zeros(attributes + 1, np.int64)
    source = np.empty(np.count_nonzero(marks[here]), np.int64)
    cursors = np.empty(int(np.diff(run_start).max(initial=0)), np.int64)
    size = _merge_values(
        kind, values, run_start, runs, marks[here], cursors, place[here], source, start
    )
    return start, source[:size].copy()


def _unite_texts(
    parts: Sequence[EncodedRules], table: NDArray[np.int32], attribute: NDArray[np.int64]
) -> tuple[NDArray[np.int32], TextArrays]:
    """The new id of each old text predicate, or -1; and the distinct predicates in use."""
    is_text = (table[:, 1] & 3) == TEXT
    start, text = concatenate_lists(
        [(part.texts.arrays.start, part.texts.arrays.text) for part in parts]
    )
    new = np.full(len(start) - 1, -1, np.int32)
    ids: dict[tuple[int, str], int] = {}
    old_ids, first = np.unique(table[is_text, 2], return_index=True)
    on = attribute[table[is_text, 0][first]]
    for old, number in zip(old_ids.tolist(), on.tolist(), strict=True):
        (pattern,) = unpack_texts(start, text, old, old + 1)
        new[old] = ids.setdefault((number, pattern), len(ids))
    numbers = np.array([number for number, _ in ids], np.int32)
    return new, TextArrays(numbers, *pack_texts([pattern for _, pattern in ids]))


def _dictionary_arrays(
    names: list[str],
    values: _Values,
    lists: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    orders: NDArray[np.uint8],
    below: NDArray[np.uint16],
    longs: Mapping[int, LongDecimal],
) -> DictionaryArrays:
    (number_start, numbers), (string_start, strings), (time_start, times) = lists
    below = below[numbers]
    kept = {i: longs[int(numbers[i])] for i in np.flatnonzero(below == LONG).tolist()}
    return DictionaryArrays(
        *pack_texts(names),
        number_start,
        values.number[numbers],
        below if below.any() else below[:0].copy(),
        string_start,
        *take_lists(values.text_start, values.text, strings),
        time_start,
        values.time[times],
        orders,
        **pack_longs(kept),
    )


@kernel
def _kind_of(counts, attribute, code):
    """The kind of a code, and its place among the codes of the kind; -1 for booleans."""
    at = code - FIRST
    if at < 0:
        return -1, code
    for kind in range(_KINDS):
        width = 2 * counts[attribute, kind] + 1
        if at < width:
            return kind, at
        at -= width
    return -1, code


@kernel
def _find_named_value(layout, attribute, code, is_high):
    """The value that an end of a range, or an item of a list, names; -1 if it names none."""
    kind, at = _kind_of(layout.counts, attribute, code)
    if kind < 0:
        return -1
    if at & 1 == 0:
        if is_high and at == 2 * layout.counts[attribute, kind]:
            return -1
        if not is_high:
            at -= 2
            if at < 0:
                return -1
    return layout.first[attribute, kind] + (at >> 1)


@kernel
def _mark_values(atoms, layout, marks):
    """Mark the values that atoms name."""
    table, codes = atoms
    for i in range(len(table)):
        attribute, test = table[i, 0], table[i, 1] & 3
        if test == SET:
            for k in range(table[i, 2], table[i, 3]):
                value = _find_named_value(layout, attribute, codes[k], False)
                if value >= 0:
                    marks[value] = 1
        elif test == RANGE:
            low = _find_named_value(layout, attribute, table[i, 2], False)
            high = _find_named_value(layout, attribute, table[i, 3], True)
            if low >= 0:
                marks[low] = 1
            if high >= 0:
                marks[high] = 1


@kernel
def _compare(kind, values, a, b):
    """Negative, 0 or positive as the value `a` of a kind is below, equal to or above `b`."""
    if kind == _NUMBERS:
        if values.number[a] != values.number[b]:
            return -1 if values.number[a] < values.number[b] else 1
        return np.int64(values.below[b]) - np.int64(values.below[a])
    if kind == _TIMES:
        return (1 if values.time[a] > values.time[b] else 0) - (
            1 if values.time[a] < values.time[b] else 0
        )
    i, j = values.text_start[a], values.text_start[b]
    while i < values.text_start[a + 1] and j < values.text_start[b + 1]:
        if values.text[i] != values.text[j]:
            return -1 if values.text[i] < values.text[j] else 1
        i += 1
        j += 1
    return (values.text_start[a + 1] - i) - (values.text_start[b + 1] - j)


@kernel
def _next_marked(marks, at, end):
    while at < end and not marks[at]:
        at += 1
    return at


@kernel
def _merge_values(kind, values, run_start, runs, marks, cursors, place, source, start):
    """Merge the sorted values of each attribute, without those that are not marked."""
    size = 0
    for attribute in range(len(run_start) - 1):
        first = run_start[attribute]
        several = run_start[attribute + 1] - first
        for r in range(several):
            cursors[r] = _next_marked(marks, runs[first + r, 0], runs[first + r, 1])
        while True:
            least = -1
            for r in range(several):
                if cursors[r] < runs[first + r, 1] and (
                    least < 0 or _compare(kind, values, cursors[r], least) < 0
                ):
                    least = cursors[r]
            if least < 0:
                break
            for r in range(several):
                at = cursors[r]
                if at < runs[first + r, 1] and _compare(kind, values, at, least) == 0:
                    place[at] = size
                    cursors[r] = _next_marked(marks, at + 1, runs[first + r, 1])
            source[size] = least
            size += 1
        start[attribute + 1] = size
    return size


@kernel
def _value_code(new, attribute, kind, value):
    """The new code of a value."""
    code = FIRST
    for k in range(kind):
        code += 2 * new.counts[attribute, k] + 1
    return code + 2 * (value - new.first[attribute, kind]) + 1


@kernel
def _new_code(layout, new, old_attribute, attribute, place, code, is_high):
    """The new code of an end of a range, or of an item of a list."""
    kind, at = _kind_of(layout.counts, old_attribute, code)
    if kind < 0:
        return code
    value = _find_named_value(layout, old_attribute, code, is_high)
    if value >= 0:
        value_code = _value_code(new, attribute, kind, place[value])
        if at & 1:
            return value_code
        return value_code - 1 if is_high else value_code + 1
    # The first or the last gap of the kind.
    first = new.first[attribute, kind]
    if is_high:
        return _value_code(new, attribute, kind, first + new.counts[attribute, kind]) - 1
    return _value_code(new, attribute, kind, first) - 1


@kernel
def _recode(old, layout, new, attributes, place, text_id, orders, table, codes):
    """Write all atoms in new codes, and mark the attributes whose strings are ordered."""
    old_table, old_codes = old
    for i in range(len(old_table)):
        before, test = old_table[i, 0], old_table[i, 1] & 3
        attribute = attributes[before]
        low, high = old_table[i, 2], old_table[i, 3]
        table[i, 0] = attribute
        table[i, 1] = old_table[i, 1]
        table[i, 2] = low
        table[i, 3] = high
        if test == SET:
            for k in range(low, high):
                codes[k] = _new_code(layout, new, before, attribute, place, old_codes[k], False)
        elif test == TEXT:
            table[i, 2] = text_id[low]
        else:
            table[i, 2] = _new_code(layout, new, before, attribute, place, low, False)
            table[i, 3] = _new_code(layout, new, before, attribute, place, high, True)
            kind, at = _kind_of(layout.counts, before, low)
            if kind == _STRINGS and (low != high or at & 1 == 0):
                orders[attribute] = 1
