"""What kernels know of the rules while they read JSON: paths, numbers and strings.

A *path* is the name of an attribute that rules mention, or a part of one before a dot: the objects
in which attributes may lie. Each path has a number, and is found by the hash of its bytes. So is
each string that rules mention, together with its attribute.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.dictionary import Dictionary
from tamis.encode.hashes import read_only
from tamis.encode.kernel import kernel, part
from tamis.encode.ragged import list_numbers
from tamis.encode.values import SortedValues, pack_texts

__all__ = [
    "CAPTURED",
    "DOT",
    "NO_PATH",
    "PATHS",
    "JsonTables",
    "build_tables",
    "extend_hash",
    "find_path",
    "find_string",
    "first_segment",
    "start_hash",
]

NO_PATH: Final = -1
"""What no rule mentions."""

CAPTURED: Final = -2
"""In the place of an attribute: Python reads the whole value at this path."""

DOT: Final = np.uint8(ord("."))

PATHS: Final = np.int64(-1)
"""In the place of an attribute: the hashes of paths begin with it."""

_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x100000001B3)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_ONE: Final = np.uint64(1)


class JsonTables(NamedTuple):
    """The paths, numbers and strings of a dictionary."""

    path_slot: NDArray[np.int32]
    """Open addressing by hash: the number of a path plus 1, or 0 if free."""
    path_start: NDArray[np.int64]
    path_name: NDArray[np.uint8]
    path_attribute: NDArray[np.int32]
    """The attribute of each path; NO_PATH if it is only a part of others, or CAPTURED."""
    path_is_outer: NDArray[np.uint8]
    """Whether some path lies inside."""
    number_start: NDArray[np.int64]
    """Where the numbers of each attribute begin in `point`."""
    point: NDArray[np.float64]
    """The least double that is not below each mentioned number."""
    is_equal: NDArray[np.uint8]
    """Whether that double is the number."""
    string_slot: NDArray[np.int32]
    """Open addressing by hash: the place of a string plus 1, or 0 if free."""
    string_start: NDArray[np.int64]
    """Where the strings of each attribute begin in `text_start`."""
    string_owner: NDArray[np.int32]
    """The attribute of each string."""
    text_start: NDArray[np.int64]
    text: NDArray[np.uint8]
    orders_strings: NDArray[np.uint8]
    """For each attribute, whether a string that no rule mentions has to be put in order."""


def first_segment(name: str) -> str:
    """The part of an attribute's name before its first dot."""
    return name.partition(".")[0]


def build_tables(dictionary: Dictionary, captured: Collection[str]) -> JsonTables:
    """Build the tables of a dictionary.

    Parameters
    ----------
    dictionary
        The attributes and values that rules mention.
    captured
        First segments of names: what lies there is not read by kernels.
    """
    attributes = {
        name: number
        for name, number in dictionary.attributes.items()
        if first_segment(name) not in captured
    }
    names = dict.fromkeys(attributes)
    outer: set[str] = set()
    for name in attributes:
        ends = (at for at, letter in enumerate(name) if letter == ".")
        outer.update(name[:at] for at in ends)
    names |= dict.fromkeys(sorted(outer))
    names |= dict.fromkeys(sorted(captured))
    start, data = pack_texts(names)
    slots = np.zeros(_room(len(names)), np.int32)
    _file_paths(read_only(start), read_only(data), slots)
    arrays = dictionary.arrays
    values = SortedValues(arrays)
    equals = values.is_double(0, len(arrays.number))
    strings = np.zeros(_room(len(arrays.text_start) - 1), np.int32)
    owner = list_numbers(arrays.string_start).astype(np.int32)
    text_start, text = read_only(arrays.text_start), read_only(arrays.text)
    _file_strings(text_start, text, read_only(owner), strings)
    is_equal = np.ones(len(arrays.number), np.uint8) if equals is None else equals.astype(np.uint8)
    arrays_of_tables: tuple[NDArray[Any], ...] = (
        slots,
        start,
        data,
        np.array([_attribute_at(name, attributes, captured) for name in names], np.int32),
        np.array([name in outer for name in names], np.uint8),
        arrays.number_start,
        arrays.number,
        is_equal,
        strings,
        arrays.string_start,
        owner,
        text_start,
        text,
        arrays.orders_strings,
    )
    return JsonTables(*map(read_only, arrays_of_tables))


def _attribute_at(path: str, attributes: Mapping[str, int], captured: Collection[str]) -> int:
    return CAPTURED if path in captured else attributes.get(path, NO_PATH)


def _room(count: int) -> int:
    """How many slots a table of `count` items has: a power of two, at least half of them free."""
    return 1 << max(4, (2 * count).bit_length())


@part
def start_hash(number):
    """The hash of no bytes yet; strings of different attributes begin differently."""
    return (_OFFSET ^ np.uint64(number)) * _PRIME


@part
def extend_hash(state, byte):
    """The hash with one byte more."""
    return (state ^ np.uint64(byte)) * _PRIME


@part
def _slot_of(state, slots):
    return (((state ^ (state >> _HALF)) * _MIX) >> _HALF) & np.uint64(len(slots) - 1)


@kernel
def _file_paths(start, data, slots):
    mask = np.uint64(len(slots) - 1)
    for path in range(len(start) - 1):
        state = start_hash(PATHS)
        for at in range(start[path], start[path + 1]):
            state = extend_hash(state, data[at])
        slot = _slot_of(state, slots)
        while slots[slot] != 0:
            slot = (slot + _ONE) & mask
        slots[slot] = path + 1


@kernel
def _file_strings(start, data, owner, slots):
    mask = np.uint64(len(slots) - 1)
    for place in range(len(start) - 1):
        state = start_hash(owner[place])
        for at in range(start[place], start[place + 1]):
            state = extend_hash(state, data[at])
        slot = _slot_of(state, slots)
        while slots[slot] != 0:
            slot = (slot + _ONE) & mask
        slots[slot] = place + 1


@kernel
def find_path(tables, state, outer, data, begin, end):
    """The path with the name data[begin:end], inside the path `outer` unless that is NO_PATH."""
    slots = tables.path_slot
    mask = np.uint64(len(slots) - 1)
    slot = _slot_of(state, slots)
    size = end - begin
    lead = np.int64(0)
    if outer >= 0:
        lead = tables.path_start[outer + 1] - tables.path_start[outer] + 1
    while slots[slot] != 0:
        path = slots[slot] - 1
        first = tables.path_start[path]
        if tables.path_start[path + 1] - first == lead + size:
            same = np.int64(0)
            while same < size and tables.path_name[first + lead + same] == data[begin + same]:
                same += 1
            if same == size:
                # What comes before is compared, too: it must be the name of `outer` and a dot.
                at = np.int64(0)
                while (
                    at < lead - 1
                    and tables.path_name[first + at]
                    == tables.path_name[tables.path_start[outer] + at]
                ):
                    at += 1
                if lead == 0 or (at == lead - 1 and tables.path_name[first + at] == DOT):
                    return path
        slot = (slot + _ONE) & mask
    return NO_PATH


@kernel
def find_string(tables, attribute, state, data, begin, end):
    """The code of a string, among those of the attribute's strings, which count from 0.

    The even ones are gaps: strings that no rule mentions.
    """
    slots = tables.string_slot
    mask = np.uint64(len(slots) - 1)
    slot = _slot_of(state, slots)
    size = end - begin
    while slots[slot] != 0:
        place = slots[slot] - 1
        first = tables.text_start[place]
        if tables.string_owner[place] == attribute and tables.text_start[place + 1] - first == size:
            same = np.int64(0)
            while same < size and tables.text[first + same] == data[begin + same]:
                same += 1
            if same == size:
                return 2 * (place - tables.string_start[attribute]) + 1
        slot = (slot + _ONE) & mask
    if tables.orders_strings[attribute] == 0:
        return np.int64(0)
    low, high = tables.string_start[attribute], tables.string_start[attribute + 1]
    while low < high:
        middle = (low + high) >> 1
        if _is_below(tables, middle, data, begin, end):
            low = middle + 1
        else:
            high = middle
    return 2 * (low - tables.string_start[attribute])


@kernel
def _is_below(tables, place, data, begin, end):
    """Whether a mentioned string is below data[begin:end]; UTF-8 sorts as code points do."""
    first, last = tables.text_start[place], tables.text_start[place + 1]
    while first < last and begin < end:
        if tables.text[first] != data[begin]:
            return tables.text[first] < data[begin]
        first += 1
        begin += 1
    return first == last and begin < end
