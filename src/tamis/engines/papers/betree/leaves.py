"""L-nodes that do not change any more: a predicate is one word, and subsumed ones are left out.

Most expressions that a search reaches match, so all of their predicates are read. In the tree
itself an expression of seven predicates has 25 words of 32 bits; here it has some seven of 64.

An expression is a head (its number, and how many runs and lists follow); then a word for each plain
run of codes that must be tested: attribute, first code, distance to the last; then two words for
each list: attribute and first code, and a bit for every second code from there on, since values
have every second code. An expression with any other predicate, or with numbers too large for a
word, is a head with BY_ROW, and the place of its row in `Leaves.row`, where it is tested as in the
tree.

Where we differ: the paper would evaluate a predicate that the expressions of an l-node have in
common once. With twenty expressions of seven predicates four in five are distinct (docs/decisions/
0031), so there is little to share.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import RANGE, SET
from tamis.encode.kernel import kernel, part
from tamis.engines.betree.arrays import HEADER, LEAF, LENGTH, TESTED, USED, Nodes
from tamis.engines.betree.expressions import (
    attribute_of,
    count_tests_to_failure,
    holds_on_single_values,
    predicate_length,
)
from tamis.engines.betree.search import visit_nodes
from tamis.engines.kernels.bits import prefetch

__all__ = ["BY_ROW", "Leaves", "pack_leaves", "search_leaves"]

BY_ROW = 255
"""In place of the number of predicates."""

_COUNT_AT, _LISTS_AT = np.uint64(32), np.uint64(40)
_COUNT = np.uint64(255)
_TESTS = 15
"""The test and the flags in the first word of a predicate."""
_BITS = 64
_NUMBER = np.uint64(0xFFFFFFFF)
_ATTRIBUTE_BITS, _CODE_BITS = 20, 22
_LOW_AT = np.uint64(_ATTRIBUTE_BITS)
_WIDTH_AT = np.uint64(_ATTRIBUTE_BITS + _CODE_BITS)
_ATTRIBUTE = np.uint64((1 << _ATTRIBUTE_BITS) - 1)
_CODE = np.uint64((1 << _CODE_BITS) - 1)
_ONE, _TWO = np.uint64(1), np.uint64(2)

_AHEAD, _LINES, _WORDS_TO_A_LINE = 2, 6, 8
"""How many l-nodes ahead, and how much of each, is prefetched."""


class Leaves(NamedTuple):
    """The l-nodes of a tree, and the rows of those expressions that are tested by row."""

    start: NDArray[np.int64]
    """Where the l-node of each c-node begins, and last where that of the last one ends."""
    packed: NDArray[np.uint64]
    row: NDArray[np.int32]
    """Expressions as in `Nodes.word`."""


def pack_leaves(nodes: Nodes) -> Leaves:
    """Pack the l-nodes of a compacted tree."""
    start = np.zeros(len(nodes.cnode) + 1, np.int64)
    packed, row = np.empty(0, np.uint64), np.empty(0, np.int32)
    for _ in ("count", "write"):
        words, rows = _write_leaves(nodes, start, packed, row)
        if len(packed) == 0:
            packed, row = np.empty(words, np.uint64), np.empty(rows, np.int32)
    return Leaves(start, packed, row)


@kernel
def _is_plain(word, entry):
    """Whether only plain runs and short lists of small numbers have to be tested."""
    at, end = entry + HEADER, entry + word[entry + TESTED]
    if end - at >= 3 * BY_ROW:
        return False
    while at < end:
        size = word[at + 1]
        is_list = word[at] & _TESTS == SET
        if not is_list and word[at] & _TESTS != RANGE:
            return False
        low, high = word[at + 1], word[at + 2]
        if is_list:
            if size == 0:
                return False
            low, high = word[at + 2], word[at + 1 + size]
            for i in range(at + 2, at + 2 + size):
                if (word[i] - low) & 1 or (word[i] - low) >> 1 >= _BITS:
                    return False
        if attribute_of(word, at) >> _ATTRIBUTE_BITS or high >> _CODE_BITS or low > high:
            return False
        at += predicate_length(word, at)
    return True


@kernel
def _write_entry(word, entry, packed, to):
    """Write a plain expression if there is room; returns where it ends.

    Runs precede lists here, as they do in the tree; see `Nodes.word`.
    """
    first, runs, lists = to, 0, 0
    at, end = entry + HEADER, entry + word[entry + TESTED]
    to += 1
    while at < end:
        is_list = word[at] & _TESTS == SET
        low = word[at + 2] if is_list else word[at + 1]
        if len(packed):
            packed[to] = np.uint64(attribute_of(word, at)) | np.uint64(low) << _LOW_AT
        if is_list:
            lists += 1
            if len(packed):
                packed[to + 1] = np.uint64(0)
                for i in range(at + 2, at + 2 + word[at + 1]):
                    packed[to + 1] |= _ONE << np.uint64((word[i] - low) >> 1)
            to += 2
        else:
            runs += 1
            if len(packed):
                packed[to] |= np.uint64(word[at + 2] - low) << _WIDTH_AT
            to += 1
        at += predicate_length(word, at)
    if len(packed):
        counts = np.uint64(runs) << _COUNT_AT | np.uint64(lists) << _LISTS_AT
        packed[first] = np.uint64(word[entry]) | counts
    return to


@kernel
def _write_leaves(nodes, start, packed, row):
    """Write all l-nodes if there is room; returns how many words and words of rows they have."""
    cnode, word = nodes.cnode, nodes.word
    to = rows = 0
    for c in range(len(cnode)):
        start[c] = to
        entry, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
        while entry < end:
            length = word[entry + LENGTH]
            if _is_plain(word, entry):
                to = _write_entry(word, entry, packed, to)
            else:
                if len(packed):
                    packed[to] = np.uint64(word[entry]) | np.uint64(BY_ROW) << _COUNT_AT
                    packed[to + 1] = np.uint64(rows)
                    for i in range(length):
                        row[rows + i] = word[entry + i]
                to += 2
                rows += length
            entry += length
    start[len(cnode)] = to
    return to, rows


@part
def _in_run(packed, at, code_of):
    """Whether the only code of an attribute lies in a run; 0, the absent one, is in no run."""
    word = packed[at]
    code = np.int64(code_of[word & _ATTRIBUTE])
    low, distance = np.int64((word >> _LOW_AT) & _CODE), np.int64(word >> _WIDTH_AT)
    return (low <= code) & (code - low <= distance)


@part
def _in_list(packed, at, code):
    """Whether a code is in a list."""
    offset = np.int64(code) - np.int64((packed[at] >> _LOW_AT) & _CODE)
    bit = offset >> 1
    is_near = (offset >= 0) & (bit < _BITS) & (offset & 1 == 0)
    return is_near & ((packed[at + _ONE] >> np.uint64(bit & (_BITS - 1))) & _ONE != 0)


@part
def _scan(leaves, c, events, state, found):
    """Append the expressions of an l-node that hold; returns how many are found now."""
    packed, hits, code_of = leaves.packed, state.hits, state.code_of
    span, text = state.loaded
    at, end = np.uint64(leaves.start[c]), np.uint64(leaves.start[c + 1])
    while at < end:
        head = packed[at]
        runs = (head >> _COUNT_AT) & _COUNT
        at += _ONE
        if runs == BY_ROW:
            row = np.int64(packed[at])
            at += _ONE
            holds = holds_on_single_values(leaves.row, row, code_of, events.code, span, text)
        else:
            last = at + runs
            following = last + _TWO * (head >> _LISTS_AT)
            holds = runs == 0 or _in_run(packed, at, code_of)
            at += _ONE
            if holds:
                while at < last:
                    holds &= _in_run(packed, at, code_of)
                    at += _ONE
                at = last
                while at < following:
                    holds &= _in_list(packed, at, code_of[packed[at] & _ATTRIBUTE])
                    at += _TWO
            at = following
        hits[found] = np.int32(head & _NUMBER)
        found += 1 if holds else 0
    return found


@kernel
def _holds_on_a_value(packed, at, is_list, state, event_code):
    """Whether a value of an attribute, which may have several, lies in a run or a list."""
    word = packed[at]
    attribute = np.int64(word & _ATTRIBUTE)
    low = np.int64((word >> _LOW_AT) & _CODE)
    high = low + np.int64(word >> _WIDTH_AT)
    span = state.loaded.span
    found = False
    for i in range(span[attribute, 0], span[attribute, 1]):
        code = np.int64(event_code[i])
        if is_list:
            found |= _in_list(packed, np.uint64(at), code)
        else:
            found |= bool(low <= code <= high)
    return found


@kernel
def _scan_several(leaves, c, events, state, found):
    """Like `_scan`, for an event with several values for an attribute."""
    packed, hits = leaves.packed, state.hits
    span, text = state.loaded
    at, end = leaves.start[c], leaves.start[c + 1]
    while at < end:
        head = packed[at]
        at += 1
        runs = np.int64((head >> _COUNT_AT) & _COUNT)
        holds = True
        if runs == BY_ROW:
            row = np.int64(packed[at])
            failed = count_tests_to_failure(leaves.row, row, state.code_of, events.code, span, text)
            holds = failed == 0
            at += 1
        else:
            last = at + runs
            following = last + 2 * np.int64(head >> _LISTS_AT)
            while holds and at < following:
                is_list = at >= last
                holds = _holds_on_a_value(packed, at, is_list, state, events.code)
                at += 2 if is_list else 1
            at = following
        if holds:
            hits[found] = np.int32(head & _NUMBER)
            found += 1
    return found


@part
def _prefetch_leaf(leaves, c):
    at = leaves.start[c]
    for line in range(_LINES):
        prefetch(leaves.packed, at + _WORDS_TO_A_LINE * line)


@kernel
def search_leaves(nodes, leaves, events, state, present):
    """As `tamis.engines.betree.search.search`, on packed l-nodes."""
    visited, visits = state.visited, visit_nodes(nodes, events, state, present)
    found = 0
    for i in range(visits):
        if i + _AHEAD < visits:
            _prefetch_leaf(leaves, visited[i + _AHEAD])
        if state.several[0]:
            found = _scan_several(leaves, visited[i], events, state, found)
        else:
            found = _scan(leaves, visited[i], events, state, found)
    return found
