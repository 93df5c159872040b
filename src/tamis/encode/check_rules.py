"""Checks encoded rules that were read from a file, array by array; see `checks.py`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import (
    GOTO_FALSE,
    IF_ABSENT,
    LONG,
    NEGATED,
    RANGE,
    SET,
    TEXT,
    AtomArrays,
    DictionaryArrays,
    FormArrays,
    ScoreArrays,
    TextArrays,
)
from tamis.encode.checks import (
    check_lengths,
    check_lists,
    check_numbers,
    check_rising,
    check_texts,
    check_types,
    refuse,
)
from tamis.encode.dictionary import count_codes
from tamis.encode.kernel import kernel
from tamis.encode.values import SortedValues, unpack_longs
from tamis.expr.numbers import double_above

__all__ = ["check_rules"]


def check_rules(
    size: int,
    atoms: AtomArrays,
    forms: FormArrays,
    scores: ScoreArrays,
    dictionary: DictionaryArrays,
    texts: TextArrays,
) -> None:
    """Check the arrays of `EncodedRules`.

    Raises
    ------
    ArrayError
        A kernel could leave its arrays.
    """
    _check_dictionary(dictionary)
    attributes = len(dictionary.name_start) - 1
    _check_texts(texts, attributes)
    _check_atoms(atoms, count_codes(dictionary), texts)
    _check_forms(forms, size, len(atoms.table))
    _check_scores(scores, size, atoms, forms)


def _check_dictionary(arrays: DictionaryArrays) -> None:
    check_types(arrays)
    attributes = len(arrays.name_start) - 1
    check_texts("name", arrays.name_start, arrays.name)
    names = _distinct_texts(arrays.name_start, arrays.name)
    if names != attributes:
        refuse("name", "has an attribute twice")
    check_texts("text", arrays.text_start, arrays.text)
    strings = len(arrays.text_start) - 1
    check_lists("number_start", arrays.number_start, len(arrays.number), attributes)
    check_lists("string_start", arrays.string_start, strings, attributes)
    check_lists("time_start", arrays.time_start, len(arrays.time), attributes)
    check_rising("time", arrays.time_start, arrays.time)
    if len(arrays.number_below):
        check_lengths(len(arrays.number), number_below=arrays.number_below)
    if not _numbers_rise(arrays.number_start, arrays.number, arrays.number_below):
        refuse("number", "has numbers that do not rise")
    _check_longs(arrays)
    if not _texts_rise(arrays.string_start, arrays.text_start, arrays.text):
        refuse("text", "has strings that do not rise")
    check_lengths(attributes, orders_strings=arrays.orders_strings)


def _check_longs(arrays: DictionaryArrays) -> None:
    """Check the decimals that have digits of their own, and their order among their neighbours."""
    places = np.flatnonzero(arrays.number_below == LONG)
    if not np.array_equal(places, arrays.long_place):
        refuse("long_place", "does not say where the long decimals are")
    if not len(places):
        return
    check_texts("long_text", arrays.long_start, arrays.long_text, len(places))
    try:
        longs = unpack_longs(arrays)
    except ArithmeticError:
        refuse("long_text", "has a text that is not a decimal")
    if any(arrays.number[place] != double_above(long) for place, long in longs.items()):
        refuse("long_text", "has a decimal that does not fit its double")
    values = SortedValues(arrays)
    begins = set(arrays.number_start.tolist())
    for place in longs:
        for upper in {place, place + 1} - begins:
            if not values.number(upper - 1) < values.number(upper):
                refuse("long_text", "has decimals that do not rise")


def _distinct_texts(start: NDArray[np.int64], data: NDArray[np.uint8]) -> int:
    bounds, text = start.tolist(), data.tobytes()
    return len({text[bounds[i] : bounds[i + 1]] for i in range(len(bounds) - 1)})


def _check_texts(arrays: TextArrays, attributes: int) -> None:
    check_types(arrays)
    check_texts("texts", arrays.start, arrays.text, len(arrays.attribute))
    check_numbers("texts.attribute", arrays.attribute, 0, attributes)


def _check_atoms(arrays: AtomArrays, sizes: NDArray[np.int64], texts: TextArrays) -> None:
    """Check atoms, given how many codes each attribute has."""
    check_types(arrays, table=4)
    check_numbers("table", arrays.table[:, 0], 0, len(sizes))
    ends = np.zeros(len(arrays.codes), np.int32)
    if not _are_atoms(arrays.table, arrays.codes, sizes, texts.attribute, ends):
        refuse("table", "has an atom outside of what its attribute has")
    if not _codes_rise(arrays.codes, ends):
        refuse("codes", "has lists that do not rise")


def _check_forms(arrays: FormArrays, size: int, atoms: int) -> None:
    check_types(arrays, program=3)
    conjunctions, programs = len(arrays.conjunction_start) - 1, len(arrays.program_rule)
    check_lists("conjunction_start", arrays.conjunction_start, len(arrays.conjunction_atom))
    check_numbers("conjunction_atom", arrays.conjunction_atom, 0, atoms)
    check_numbers("owner", arrays.owner, 0, size)
    check_lists("program_start", arrays.program_start, len(arrays.program), programs)
    check_numbers("program", arrays.program[:, 0], 0, atoms)
    check_numbers("program_rule", arrays.program_rule, 0, size)
    check_lists("cover_start", arrays.cover_start, len(arrays.cover_atom), programs)
    check_numbers("cover_atom", arrays.cover_atom, 0, atoms)
    marks = np.zeros(size, np.uint8)
    if len(arrays.owner):
        check_lists("owner_start", arrays.owner_start, len(arrays.owner), conjunctions)
        marks[arrays.owner] = 1
    elif conjunctions:
        check_lengths(size, conjunction_start=arrays.conjunction_start[1:])
        marks[:] = 1
    if not len(arrays.owner) and arrays.owner_start.any():
        refuse("owner_start", "has owners where there are none")
    # A match writes each rule once, so no rule may be two programs, or a program and more.
    if not _jumps_lead_forward(arrays.program_start, arrays.program, arrays.program_rule, marks):
        refuse("program", "has a jump that does not lead forward, or a rule twice")


def _check_scores(arrays: ScoreArrays, size: int, atoms: AtomArrays, forms: FormArrays) -> None:
    check_types(arrays)
    # The stack has room for the codes of the longest rule.
    if not 0 <= arrays.depth <= len(arrays.code) + 1:
        refuse("depth", f"is {arrays.depth:,}")
    if not len(arrays.start):
        check_lengths(0, code=arrays.code, weights=arrays.weights, weight=arrays.weight)
        check_lengths(size, conjunction_start=forms.conjunction_start[1:])
        return
    check_lists("start", arrays.start, len(arrays.code), size)
    if len(arrays.weights):
        check_lengths(len(arrays.code), weights=arrays.weights)
    if not _fit_the_stack(arrays, atoms.table):
        refuse("code", "has a rule that cannot be scored")


@kernel
def _numbers_rise(start, number, below):
    """Whether the numbers of each attribute rise; see `DictionaryArrays.number_below`."""
    for k in range(len(start) - 1):
        for i in range(start[k], start[k + 1]):
            if number[i] != number[i]:
                return False
            if i == start[k] or number[i] > number[i - 1]:
                continue
            if number[i] != number[i - 1] or len(below) == 0:
                return False
            # The digits of long decimals are checked elsewhere.
            if below[i] != LONG and below[i - 1] != LONG and below[i] >= below[i - 1]:
                return False
    return True


@kernel
def _texts_rise(start, text_start, text):
    """Whether the strings of each attribute rise."""
    for k in range(len(start) - 1):
        for i in range(start[k] + 1, start[k + 1]):
            a, b = text_start[i - 1], text_start[i]
            a_end, b_end = b, text_start[i + 1]
            while a < a_end and b < b_end and text[a] == text[b]:
                a += 1
                b += 1
            if b == b_end or (a < a_end and text[a] > text[b]):
                return False
    return True


@kernel
def _are_atoms(table, codes, sizes, text_attribute, ends):
    """Whether atoms have a known test, codes of their attribute, and texts on it.

    Atoms may share a list. The lists must fill `codes`, one after another; writes where each ends
    to the place where it begins.
    """
    lists = 0
    for atom in range(len(table)):
        attribute, test = table[atom, 0], table[atom, 1]
        low, high = table[atom, 2], table[atom, 3]
        if test < 0 or test >= TEXT + 1 + NEGATED + IF_ABSENT or low < 0:
            return False
        if test & 3 == RANGE:
            if low > sizes[attribute] or high < 0 or high >= sizes[attribute]:
                return False
        elif test & 3 == SET:
            if low > high or high > len(codes):
                return False
            if low < high:
                if ends[low] != 0 and ends[low] != high:
                    return False
                if codes[low] < 0 or codes[high - 1] >= sizes[attribute]:
                    return False
                lists += 1 if ends[low] == 0 else 0
                ends[low] = high
        elif test & 3 == TEXT:
            if low >= len(text_attribute) or text_attribute[low] != attribute:
                return False
        else:
            return False
    at = 0
    while at < len(codes) and ends[at]:
        at = ends[at]
        lists -= 1
    return at == len(codes) and lists == 0


@kernel
def _codes_rise(codes, ends):
    falls = False
    for i in range(1, len(codes)):
        falls |= codes[i] <= codes[i - 1] and ends[i] == 0
    return not falls


@kernel
def _jumps_lead_forward(start, program, rule, marks):
    """Whether each program ends, and is all that its rule has; `marks` has the other rules."""
    for k in range(len(rule)):
        if start[k] == start[k + 1] or marks[rule[k]]:
            return False
        marks[rule[k]] = 1
        for i in range(start[k], start[k + 1]):
            for target in program[i, 1:]:
                if target < GOTO_FALSE or target >= start[k + 1] - start[k]:
                    return False
                if 0 <= target <= i - start[k]:
                    return False
    return True


@kernel
def _fit_the_stack(scores, table):
    """Whether scoring each rule finds its operands, and leaves one result on the stack."""
    for rule in range(len(scores.start) - 1):
        height = 0
        for i in range(scores.start[rule], scores.start[rule + 1]):
            code = scores.code[i]
            if code >= 0:
                if code >= len(table) or height >= scores.depth:
                    return False
                height += 1
                if len(scores.weights) and scores.weights[i] != -1:
                    is_list = table[code, 1] & 3 == SET
                    count = table[code, 3] - table[code, 2] if is_list else 1
                    first = scores.weights[i]
                    if first < 0 or first + count > len(scores.weight):
                        return False
            else:
                operands = (-code - 1) >> 1
                if operands > height or height - operands >= scores.depth:
                    return False
                if len(scores.weights) and scores.weights[i] != -1:
                    return False
                height += 1 - operands
        if height != 1:
            return False
    return True
