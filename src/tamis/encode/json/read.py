"""Kernels that read JSON objects and write the codes of what rules mention.

They accept a subset of JSON and nothing else. A text with anything unusual is LEFT to Python: a key
with an escape or twice in one object, an integer of more than 18 digits, objects nested deep, and
whatever is not JSON. What stands under paths that no rule mentions is checked, and skipped.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.dictionary import FIRST
from tamis.encode.json.tables import (
    CAPTURED,
    DOT,
    NO_PATH,
    PATHS,
    extend_hash,
    find_path,
    find_string,
    start_hash,
)
from tamis.encode.kernel import kernel, part

__all__ = [
    "BOOLEAN",
    "DONE",
    "DOUBLE",
    "LEFT",
    "MOST_DEEP",
    "MOST_IN_ROW",
    "NUMBER",
    "OTHER",
    "STRING",
    "JsonEntries",
    "RowScratch",
    "read_rows",
]

DONE, LEFT = 0, 1
"""Whether a text was read, or is left to Python."""

BOOLEAN, NUMBER, STRING, DOUBLE, OTHER = range(5)
"""What an entry is: a value with a code; or one whose code is not known yet, a double of many
digits, or another value that Python has to read."""

MOST_DEEP: Final = 64
MOST_IN_ROW: Final = 512
"""Texts with more values of attributes than this, or nested deeper, are left to Python."""

_FALSE_CODE, _TRUE_CODE = 1, 2

_QUOTE: Final = np.uint8(ord('"'))
_BACKSLASH: Final = np.uint8(ord("\\"))
_OPEN_OBJECT: Final = np.uint8(ord("{"))
_CLOSE_OBJECT: Final = np.uint8(ord("}"))
_OPEN_LIST: Final = np.uint8(ord("["))
_CLOSE_LIST: Final = np.uint8(ord("]"))
_COMMA: Final = np.uint8(ord(","))
_COLON: Final = np.uint8(ord(":"))
_MINUS: Final = np.uint8(ord("-"))
_PLUS: Final = np.uint8(ord("+"))
_ZERO: Final = np.uint8(ord("0"))
_NINE: Final = np.uint8(ord("9"))
_LITTLE_E: Final = np.uint8(ord("e"))
_LITTLE_U: Final = np.uint8(ord("u"))
_LOWER: Final = np.uint8(0x20)
_CONTROLS_END: Final = np.uint8(0x20)

_MOST_DIGITS: Final = 18
"""The digits that always fit into 64 bits."""
_LONGEST_NUMBER: Final = 256
_EXACT: Final = 1 << 53
"""Up to here every integer is a double."""
_EXACT_POWER: Final = 22
"""Up to here every power of ten is a double."""
_POWERS: Final = np.array([10.0**power for power in range(_EXACT_POWER + 1)])


def _classify() -> bytes:
    classes = bytearray(256)
    for letter in " \t\n\r":
        classes[ord(letter)] = 1
    for letter in '"\\/bfnrt':
        classes[ord(letter)] |= 2
    for letter in "0123456789abcdefABCDEF":
        classes[ord(letter)] |= 4
    return bytes(classes)


_CLASSES: Final = np.frombuffer(_classify(), np.uint8)
_IS_SPACE, _IS_ESCAPED, _IS_HEX = np.uint8(1), np.uint8(2), np.uint8(4)


class JsonEntries(NamedTuple):
    """The values of attributes in some texts, and room for more."""

    attribute: NDArray[np.int32]
    code: NDArray[np.int32]
    """Unknown for a DOUBLE and an OTHER."""
    kind: NDArray[np.uint8]
    begin: NDArray[np.int64]
    """Where the value stands in the texts; a string without its quotes, unless it is an OTHER."""
    end: NDArray[np.int64]
    captured: NDArray[np.int64]
    """Four numbers for each captured value: where its key begins and ends, without quotes, and
    where the value begins and ends."""


class RowScratch(NamedTuple):
    """What the kernel notes about the text that it reads."""

    value: NDArray[np.float64]
    """The number of each entry of the row."""
    first: NDArray[np.int64]
    """For each attribute, a row plus 1 and the first entry of it: the last row that has it."""
    instance: NDArray[np.int64]
    """For each path, the object in which it was a key last, counted over all rows."""
    stack_path: NDArray[np.int64]
    stack_is_list: NDArray[np.uint8]
    stack_instance: NDArray[np.int64]
    stack_state: NDArray[np.uint64]
    """For each open object or list: its path, which it is, its number, and the hash of its name."""


@part
def _skip_spaces(data, at, end):
    while at < end and _CLASSES[data[at]] & _IS_SPACE:
        at += 1
    return at


@kernel
def _skip_string(data, at, end):
    """Where the string ends whose first byte is at `at`, at its quote; and whether it has escapes.

    -1 if it is unusual, or not a string.
    """
    has_escapes = False
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return at, has_escapes
        if byte < _CONTROLS_END:
            return np.int64(-1), has_escapes
        if byte == _BACKSLASH:
            has_escapes = True
            at += 1
            if at >= end:
                return np.int64(-1), has_escapes
            if data[at] == _LITTLE_U:
                # Half of a surrogate pair is not valid by itself, so pairs are left to Python.
                if at + 5 > end or (data[at + 1] | _LOWER == ord("d") and data[at + 2] >= ord("8")):
                    return np.int64(-1), has_escapes
                for i in range(1, 5):
                    if not _CLASSES[data[at + i]] & _IS_HEX:
                        return np.int64(-1), has_escapes
                at += 4
            elif not _CLASSES[data[at]] & _IS_ESCAPED:
                return np.int64(-1), has_escapes
        at += 1
    return np.int64(-1), has_escapes


@kernel
def _read_number(data, at, end):
    """Read a number: its end, or -1; its kind, NUMBER, DOUBLE or OTHER; and its value."""
    begin = at
    is_negative = data[at] == _MINUS
    if is_negative:
        at += 1
    digits, digits_end, mantissa = np.int64(0), at, np.int64(0)
    first = at
    while at < end and _ZERO <= data[at] <= _NINE:
        if mantissa != 0 or data[at] != _ZERO:
            digits += 1
        if digits <= _MOST_DIGITS:
            mantissa = 10 * mantissa + np.int64(data[at] - _ZERO)
        at += 1
    if at == first or (data[first] == _ZERO and at > first + 1):
        return np.int64(-1), OTHER, 0.0
    power, is_double = np.int64(0), False
    if at < end and data[at] == DOT:
        is_double = True
        at += 1
        digits_end = at
        while at < end and _ZERO <= data[at] <= _NINE:
            if mantissa != 0 or data[at] != _ZERO:
                digits += 1
            if digits <= _MOST_DIGITS:
                mantissa = 10 * mantissa + np.int64(data[at] - _ZERO)
            power -= 1
            at += 1
        if at == digits_end:
            return np.int64(-1), OTHER, 0.0
    if at < end and data[at] | _LOWER == _LITTLE_E:
        is_double = True
        at += 1
        is_small = at < end and data[at] == _MINUS
        if at < end and (data[at] == _MINUS or data[at] == _PLUS):
            at += 1
        digits_end, exponent = at, np.int64(0)
        while at < end and _ZERO <= data[at] <= _NINE:
            exponent = 10 * exponent + np.int64(data[at] - _ZERO)
            at += 1
        # A number with a larger exponent may be out of range.
        if at == digits_end or at > digits_end + 2:
            return np.int64(-1), OTHER, 0.0
        power += -exponent if is_small else exponent
    if at - begin > _LONGEST_NUMBER or (digits > _MOST_DIGITS and not is_double):
        return np.int64(-1), OTHER, 0.0
    if digits > _MOST_DIGITS or mantissa > _EXACT or abs(power) > _EXACT_POWER:
        return at, DOUBLE if is_double else OTHER, 0.0
    # The product or quotient of two exact doubles is the nearest double.
    value = np.float64(mantissa)
    if power < 0:
        value /= _POWERS[-power]
    else:
        value *= _POWERS[power]
    return at, NUMBER, -value if is_negative else value


@kernel
def _skip_word(data, at, end):
    """Where `true`, `false` or `null` ends; -1 if none of them stands there."""
    if end - at >= 4:
        a, b, c, d = data[at], data[at + 1], data[at + 2], data[at + 3]
        if a == ord("t") and b == ord("r") and c == ord("u") and d == ord("e"):
            return at + 4
        if a == ord("n") and b == ord("u") and c == ord("l") and d == ord("l"):
            return at + 4
        is_fals = a == ord("f") and b == ord("a") and c == ord("l") and d == ord("s")
        if is_fals and end - at >= 5 and data[at + 4] == ord("e"):
            return at + 5
    return np.int64(-1)


@kernel
def _code_of_number(tables, attribute, value):
    """The code of a double; see `tamis.encode.dictionary`."""
    start = tables.number_start[attribute]
    low, high = start, tables.number_start[attribute + 1]
    while low < high:
        middle = (low + high) >> 1
        if tables.point[middle] <= value:
            low = middle + 1
        else:
            high = middle
    code = FIRST + 2 * (low - start)
    if low > start and tables.point[low - 1] == value and tables.is_equal[low - 1]:
        code -= 1
    return code


@kernel
def _strings_at(tables, attribute):
    """The first code of an attribute's strings."""
    return FIRST + 2 * (tables.number_start[attribute + 1] - tables.number_start[attribute]) + 1


@kernel
def _is_repeated(tables, entries, scratch, row_first, first, count, data):
    """Whether the last entry has the value of an earlier one; `first` is the attribute's first."""
    attribute, code, kind = entries.attribute[count], entries.code[count], entries.kind[count]
    for at in range(first, count):
        if entries.attribute[at] != attribute or entries.code[at] != code:
            continue
        if kind == BOOLEAN:
            return True
        if kind == NUMBER:
            if scratch.value[at - row_first] == scratch.value[count - row_first]:
                return True
        elif (code - _strings_at(tables, attribute)) & 1:
            return True
        else:
            size = entries.end[count] - entries.begin[count]
            if entries.end[at] - entries.begin[at] == size:
                same = np.int64(0)
                one, other = entries.begin[at], entries.begin[count]
                while same < size and data[one + same] == data[other + same]:
                    same += 1
                if same == size:
                    return True
    return False


@kernel
def _sort_row(entries, first, last):
    """Put entries of one attribute next to each other, by insertion: rows are short."""
    for at in range(first + 1, last):
        attribute, code, kind = entries.attribute[at], entries.code[at], entries.kind[at]
        begin, end = entries.begin[at], entries.end[at]
        to = at
        while to > first and entries.attribute[to - 1] > attribute:
            entries.attribute[to] = entries.attribute[to - 1]
            entries.code[to] = entries.code[to - 1]
            entries.kind[to] = entries.kind[to - 1]
            entries.begin[to] = entries.begin[to - 1]
            entries.end[to] = entries.end[to - 1]
            to -= 1
        entries.attribute[to], entries.code[to], entries.kind[to] = attribute, code, kind
        entries.begin[to], entries.end[to] = begin, end


@part
def _hash_prefix(tables, path):
    """The hash of what comes before a key in an object at a path: its name and a dot."""
    state = start_hash(PATHS)
    if path >= 0:
        for at in range(tables.path_start[path], tables.path_start[path + 1]):
            state = extend_hash(state, tables.path_name[at])
        state = extend_hash(state, DOT)
    return state


@kernel
def _read_row(tables, data, at, end, row, entries, count, captures, scratch, instances):
    """Read one text. Returns DONE or LEFT, and the new numbers of entries, captures and objects.

    The caller has made room for MOST_IN_ROW entries and captures.
    """
    row_first, captures_first = count, captures
    left = (LEFT, row_first, captures_first)
    at = _skip_spaces(data, at, end)
    if at >= end or data[at] != _OPEN_OBJECT:
        return left, instances
    depth = np.int64(0)  # of the open object or list; the root is at 0
    path = np.int64(NO_PATH)
    capture_begin = np.int64(-1)
    key_begin = key_end = np.int64(0)
    is_mixed = False
    is_key = False  # whether a key is read next, or else a value
    is_end = False  # whether a value has ended
    is_first = True
    while True:
        at = _skip_spaces(data, at, end)
        if at >= end:
            return left, instances
        byte = data[at]
        if is_end:
            is_end = False
            if capture_begin >= 0 and depth == 1:
                if captures - captures_first >= MOST_IN_ROW:
                    return left, instances
                entries.captured[4 * captures] = key_begin
                entries.captured[4 * captures + 1] = key_end
                entries.captured[4 * captures + 2] = capture_begin
                entries.captured[4 * captures + 3] = at
                captures += 1
                capture_begin = np.int64(-1)
            is_list = scratch.stack_is_list[depth - 1] != 0
            path = scratch.stack_path[depth - 1]
            if byte == _COMMA:
                at += 1
                is_key = not is_list
                is_first = False
                continue
            if byte != (_CLOSE_LIST if is_list else _CLOSE_OBJECT):
                return left, instances
            at += 1
            depth -= 1
            if depth == 0:
                break
            is_end = True
            if _skip_spaces(data, at, end) >= end:
                return left, instances
            continue
        if is_key:
            is_key = False
            if byte == _CLOSE_OBJECT and is_first:
                is_end, is_first = True, False
                continue
            if byte != _QUOTE:
                return left, instances
            at += 1
            begin = at
            outer = scratch.stack_path[depth - 1]
            is_root = depth == 1
            matters = is_root or (outer >= 0 and tables.path_is_outer[outer] != 0)
            path = np.int64(NO_PATH)
            if matters and capture_begin < 0:
                state = scratch.stack_state[depth - 1]
                dot, dot_state = np.int64(-1), state
                while at < end and data[at] != _QUOTE:
                    byte = data[at]
                    if byte == _BACKSLASH or byte < _CONTROLS_END:
                        return left, instances
                    if byte == DOT and dot < 0:
                        dot, dot_state = at, state
                    state = extend_hash(state, byte)
                    at += 1
                if at >= end or at == begin:
                    return left, instances
                if is_root and dot >= 0:
                    path = find_path(tables, dot_state, outer, data, begin, dot)
                    if path >= 0 and tables.path_attribute[path] != CAPTURED:
                        path = np.int64(NO_PATH)
                if path < 0:
                    path = find_path(tables, state, outer, data, begin, at)
                if path >= 0:
                    if tables.path_attribute[path] == CAPTURED:
                        key_begin, key_end = begin, at
                        capture_begin = np.int64(0)
                    elif scratch.instance[path] >= scratch.stack_instance[depth - 1]:
                        # A key twice: the last one counts. Or an object inside had the path, and
                        # nothing says any more whether this object had it before.
                        return left, instances
                    else:
                        scratch.instance[path] = scratch.stack_instance[depth - 1]
            else:
                at, has_escapes = _skip_string(data, at, end)
                if at < 0 or (matters and has_escapes):
                    return left, instances
            at = _skip_spaces(data, at + 1, end)
            if at >= end or data[at] != _COLON:
                return left, instances
            at = _skip_spaces(data, at + 1, end)
            if capture_begin == 0:
                capture_begin = at
                path = np.int64(NO_PATH)
            continue
        # A value, at `path`.
        if byte in (_OPEN_OBJECT, _OPEN_LIST):
            if depth >= MOST_DEEP:
                return left, instances
            opens_list = byte == _OPEN_LIST
            scratch.stack_is_list[depth] = opens_list
            scratch.stack_path[depth] = path
            instances += 1
            scratch.stack_instance[depth] = instances
            scratch.stack_state[depth] = _hash_prefix(tables, path)
            depth += 1
            at += 1
            if opens_list:
                at = _skip_spaces(data, at, end)
                if at < end and data[at] == _CLOSE_LIST:
                    is_end = True
            else:
                is_key = True
                is_first = True
            continue
        attribute = np.int64(NO_PATH)
        if path >= 0:
            attribute = np.int64(tables.path_attribute[path])
        begin, kind, code, value = at, OTHER, np.int64(0), 0.0
        if byte == _QUOTE:
            at += 1
            if attribute >= 0:
                begin = at
                hashed = start_hash(attribute)
                while at < end and data[at] != _QUOTE and data[at] != _BACKSLASH:
                    if data[at] < _CONTROLS_END:
                        return left, instances
                    hashed = extend_hash(hashed, data[at])
                    at += 1
                if at >= end:
                    return left, instances
                if data[at] == _QUOTE:
                    kind = STRING
                    code = _strings_at(tables, attribute) + find_string(
                        tables, attribute, hashed, data, begin, at
                    )
                else:
                    begin -= 1
            if kind == STRING:
                stop = at
                at += 1
            else:
                at, _ = _skip_string(data, at, end)
                if at < 0:
                    return left, instances
                at += 1
                stop = at
        elif byte == _MINUS or _ZERO <= byte <= _NINE:
            at, kind, value = _read_number(data, at, end)
            if at < 0:
                return left, instances
            stop = at
            if attribute >= 0 and kind == NUMBER:
                code = np.int64(_code_of_number(tables, attribute, value))
        else:
            at = _skip_word(data, at, end)
            if at < 0:
                return left, instances
            stop = at
            kind = BOOLEAN
            code = np.int64(_TRUE_CODE if byte == ord("t") else _FALSE_CODE)
            if byte == ord("n"):
                attribute = np.int64(NO_PATH)
        is_end = True
        if attribute < 0:
            continue
        if count - row_first >= MOST_IN_ROW:
            return left, instances
        entries.attribute[count] = attribute
        entries.code[count] = code
        entries.kind[count] = kind
        entries.begin[count] = begin
        entries.end[count] = stop
        scratch.value[count - row_first] = value
        if scratch.first[2 * attribute] == row + 1:
            first = scratch.first[2 * attribute + 1]
            if kind >= DOUBLE or entries.kind[first] >= DOUBLE:
                return left, instances
            if _is_repeated(tables, entries, scratch, row_first, first, count, data):
                continue
            is_mixed = is_mixed or entries.attribute[count - 1] != attribute
        else:
            scratch.first[2 * attribute] = row + 1
            scratch.first[2 * attribute + 1] = count
        count += 1
    if _skip_spaces(data, at, end) < end:
        return left, instances
    if is_mixed:
        _sort_row(entries, row_first, count)
    return (DONE, count, captures), instances


@kernel
def read_rows(tables, texts, done, entries, count, captures, scratch, instances, outcome):
    """Read texts from the row `done` on, until all are read or there is no room for another one.

    For each row, `outcome` gets DONE or LEFT, and the numbers of entries and captured values so
    far. Returns the row to go on with, and the numbers of entries, captures and objects.
    """
    most = min(len(entries.attribute), len(entries.captured) // 4) - MOST_IN_ROW
    for row in range(done, len(texts.begin)):
        if count > most or captures > most:
            return row, count, captures, instances
        status = DONE
        if texts.begin[row] >= 0:
            found, instances = _read_row(
                tables,
                texts.data,
                texts.begin[row],
                texts.end[row],
                row,
                entries,
                count,
                captures,
                scratch,
                instances,
            )
            status, count, captures = found
        outcome[3 * row] = status
        outcome[3 * row + 1] = count
        outcome[3 * row + 2] = captures
    return len(texts.begin), count, captures, instances
