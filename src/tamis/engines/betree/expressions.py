"""Expressions as words: conjunctions of predicates that are tested where they are stored.

A predicate is a head (its attribute, test and flags, as in `AtomArrays`) followed by the first and
the last code of a run, the number of codes and the codes of a list, or the id of a text predicate
and a spare word.

The interval of a predicate (Table 1 of the paper) is a run of codes here: a list spans its first to
its last code; a negation or a text predicate spans all codes, because it only needs the attribute
to be present. A predicate that holds where its attribute is absent has no interval, and nothing is
partitioned by it. Of several predicates on one attribute the narrowest one counts, since different
values of an event may satisfy them.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

import numpy as np

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT
from tamis.encode.kernel import kernel, part
from tamis.engines.betree.arrays import HEADER, LENGTH, RUNS, TESTED
from tamis.engines.kernels.truth import find_code

__all__ = [
    "FIRST_CODE",
    "attribute_of",
    "count_tests_to_failure",
    "holds_on_single_values",
    "interval_on",
    "is_partitionable",
    "pack",
    "packed_length",
    "predicate_length",
    "share_of_codes",
    "subsume",
    "unsubsume",
    "unsubsume_all",
]

FIRST_CODE = 1
"""The first code of a value; 0 stands for an absent attribute."""

_ATTRIBUTE_AT = 4
_TESTS = (1 << _ATTRIBUTE_AT) - 1
_PLAIN = 3
"""How many words a predicate has that is not a list."""

_SHORT = np.uint64(12)
"""Lists of at most this many codes are read linearly."""

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_HEADER, _RUNS, _TESTED = np.uint64(HEADER), np.uint64(RUNS), np.uint64(TESTED)


@kernel
def packed_length(table, conjunction_atom, first, last):
    """How many words the conjunction of the atoms from `first` up to `last` has."""
    length = HEADER
    for i in range(first, last):
        atom = conjunction_atom[i]
        if table[atom, 1] & 3 == SET:
            length += 2 + table[atom, 3] - table[atom, 2]
        else:
            length += _PLAIN
    return length


@kernel
def _pack_atom(table, codes, atom, word, at):
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    word[at] = table[atom, 0] << _ATTRIBUTE_AT | test
    if test & 3 != SET:
        word[at + 1], word[at + 2] = low, high
        return at + _PLAIN
    word[at + 1] = high - low
    for k in range(low, high):
        word[at + 2 + k - low] = codes[k]
    return at + 2 + high - low


@kernel
def pack(table, codes, conjunction_atom, first, last, number, word, at):
    """Write a conjunction at `at`; returns where it ends.

    Plain runs of codes come first, so that branches are predictable.
    """
    entry = at
    at += HEADER
    for i in range(first, last):
        if table[conjunction_atom[i], 1] == RANGE:
            at = _pack_atom(table, codes, conjunction_atom[i], word, at)
    word[entry + RUNS] = at - entry
    for i in range(first, last):
        if table[conjunction_atom[i], 1] != RANGE:
            at = _pack_atom(table, codes, conjunction_atom[i], word, at)
    word[entry] = number
    word[entry + LENGTH] = word[entry + TESTED] = at - entry
    return at


@kernel
def attribute_of(word, at):
    """The attribute of the predicate at a place."""
    return word[at] >> _ATTRIBUTE_AT


@kernel
def is_partitionable(word, at):
    """Whether the predicate at a place needs its attribute to be present."""
    return word[at] & IF_ABSENT == 0


@kernel
def predicate_length(word, at):
    """How many words the predicate at a place has."""
    return 2 + word[at + 1] if word[at] & 3 == SET else _PLAIN


@kernel
def _interval(word, at, codes):
    """The codes that can satisfy a predicate on an attribute with `codes` codes, as a run."""
    head = word[at]
    if head & NEGATED or head & 3 == TEXT:
        return FIRST_CODE, codes - 1
    if head & 3 == RANGE:
        return word[at + 1], word[at + 2]
    count = word[at + 1]
    if count == 0:
        return FIRST_CODE, FIRST_CODE
    return word[at + 2], word[at + 1 + count]


@kernel
def share_of_codes(word, at, codes):
    """The share of an attribute's codes that can satisfy the predicate at a place."""
    if word[at] & 7 == SET:
        return word[at + 1] / codes
    low, high = _interval(word, at, codes)
    return (high - low + 1) / codes


@kernel
def interval_on(word, entry, attribute, codes):
    """The narrowest interval of an expression on an attribute, or (0, -1).

    Of equally narrow ones the one with the lowest codes, since the order of predicates changes.
    """
    best_low, best_high = 0, -1
    at, end = entry + HEADER, entry + word[entry + LENGTH]
    while at < end:
        if word[at] >> _ATTRIBUTE_AT == attribute and word[at] & IF_ABSENT == 0:
            low, high = _interval(word, at, codes)
            wider = (high - low) - (best_high - best_low)
            if best_low == 0 or wider < 0 or (wider == 0 and low < best_low):
                best_low, best_high = low, high
        at += predicate_length(word, at)
    return best_low, best_high


@kernel
def subsume(word, entry, attribute, low, high):
    """Exempt a run of codes from testing if it equals the bucket that the expression moved to."""
    head = attribute << _ATTRIBUTE_AT | RANGE
    at, last = entry + HEADER, entry + word[entry + TESTED]
    while at < entry + word[entry + RUNS]:
        if word[at] == head and word[at + 1] == low and word[at + 2] == high:
            for i in range(at, last - _PLAIN):
                word[i] = word[i + _PLAIN]
            word[last - 3], word[last - 2], word[last - 1] = head, low, high
            word[entry + RUNS] -= _PLAIN
            word[entry + TESTED] -= _PLAIN
            return
        at += _PLAIN


@kernel
def _test_again(word, entry):
    """Test the run again that was exempted last; it goes to the other runs, which come first."""
    to, at = entry + word[entry + RUNS], entry + word[entry + TESTED]
    head, low, high = word[at], word[at + 1], word[at + 2]
    for i in range(at - 1, to - 1, -1):
        word[i + _PLAIN] = word[i]
    word[to], word[to + 1], word[to + 2] = head, low, high
    word[entry + RUNS] += _PLAIN
    word[entry + TESTED] += _PLAIN


@kernel
def unsubsume(word, entry, attribute, low, high):
    """Test the run again that was exempted last, if it equals this bucket."""
    at = entry + word[entry + TESTED]
    if at < entry + word[entry + LENGTH]:
        head = attribute << _ATTRIBUTE_AT | RANGE
        if word[at] == head and word[at + 1] == low and word[at + 2] == high:
            _test_again(word, entry)


@kernel
def unsubsume_all(word, entry):
    """Test all runs again, for an expression that leaves its path."""
    while word[entry + TESTED] < word[entry + LENGTH]:
        _test_again(word, entry)


@kernel
def _holds(word, at, code_of, event_code, span, text):
    """Whether the predicate at a place holds on the loaded event."""
    head, low = word[at], word[at + 1]
    attribute, test = head >> _ATTRIBUTE_AT, head & 3
    if code_of[attribute] == 0:
        return head & IF_ABSENT != 0
    satisfied = False
    if test == TEXT:
        satisfied = text[low] != 0
    else:
        for i in range(span[attribute, 0], span[attribute, 1]):
            if test == RANGE:
                satisfied |= low <= event_code[i] <= word[at + 2]
            else:
                satisfied |= find_code(word, at + 2, at + 2 + low, event_code[i]) >= 0
    return satisfied != (head & NEGATED != 0)


@kernel
def count_tests_to_failure(word, entry, code_of, event_code, span, text):
    """How many predicates of an expression are tested until one does not hold; 0 if all hold."""
    at, end = entry + HEADER, entry + word[entry + TESTED]
    tested = 0
    while at < end:
        tested += 1
        if not _holds(word, at, code_of, event_code, span, text):
            return tested
        at += predicate_length(word, at)
    return 0


@part
def holds_on_single_values(word, entry, code_of, event_code, span, text):
    """Whether an expression holds on an event with at most one value for each attribute.

    An absent attribute has code 0, which is in no run. After the first run all runs are tested: an
    expression that a search reaches mostly holds, and testing always is cheaper than a branch that
    the processor mispredicts. Places are unsigned, because Numba handles negative indexes for
    signed ones; this halves the time.
    """
    first = np.uint64(entry)
    at, end = first + _HEADER, first + np.uint64(word[first + _RUNS])
    holds = True
    if at < end:
        code = code_of[np.uint64(word[at] >> _ATTRIBUTE_AT)]
        holds = (word[at + _ONE] <= code) & (code <= word[at + _TWO])
        at += _THREE
    if holds:
        while at < end:
            code = code_of[np.uint64(word[at] >> _ATTRIBUTE_AT)]
            holds &= (word[at + _ONE] <= code) & (code <= word[at + _TWO])
            at += _THREE
        end = first + np.uint64(word[first + _TESTED])
        while holds and at < end:
            count = np.uint64(word[at + _ONE])
            if word[at] & _TESTS == SET and count <= _SHORT:
                code = code_of[np.uint64(word[at] >> _ATTRIBUTE_AT)]
                at += _TWO
                last = at + count
                holds = False
                while at < last:
                    holds |= word[at] == code
                    at += _ONE
            else:
                place = np.int64(at)
                holds = _holds(word, place, code_of, event_code, span, text)
                at += np.uint64(predicate_length(word, place))
    return holds
