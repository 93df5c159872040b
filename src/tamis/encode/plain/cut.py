"""Cuts the texts of rules into predicates: at each AND and OR outside of quotes and BETWEEN.

A rule of two levels, an OR of ANDs or an AND of ORs, becomes *parts*, the operands of the outer
operator, and a part becomes *pieces*: the texts of its predicates. Redundant parentheses around a
part, and any white space around a piece, are left out. A rule with other levels, or with anything
that no plain rule has, is NOT_PLAIN.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.hashes import read_only
from tamis.encode.kernel import kernel
from tamis.encode.plain.characters import (
    CLASSES,
    CLOSE,
    DIGIT,
    NAME_QUOTE,
    OPEN,
    QUOTE,
    SIGN,
    SPACE,
    WORD,
    keyword,
    skip_quoted,
    skip_spaces,
    skip_word,
    word_code,
)

__all__ = ["AND_OF_ORS", "NOT_PLAIN", "OR_OF_ANDS", "Cuts", "cut_texts"]

NOT_PLAIN: Final = 0
OR_OF_ANDS: Final = 1
AND_OF_ORS: Final = 2
"""The forms of a rule. A single conjunction is an OR of one."""

_MOST_PARTS: Final = 64
_MOST_PIECES: Final = 200
"""A rule with more parts, or a part with more pieces, is not plain; as in
`tamis.expr.text.two_levels`."""

_FIRST, _AND, _OR, _AND_IN_GROUP, _OR_IN_GROUP = range(5)
"""How a piece is linked to the one before it: at the top, or inside of parentheses."""

_WORD_AND: Final = keyword("and")
_WORD_OR: Final = keyword("or")
_WORD_IN: Final = keyword("in")
_WORD_BETWEEN: Final = keyword("between")
_DOT: Final = ord(".")


class Cuts(NamedTuple):
    """The pieces of some rules."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """Where each piece begins and ends in the data."""
    part_end: NDArray[np.int64]
    """How many pieces there are up to the end of each part."""
    rule_end: NDArray[np.int64]
    """How many parts there are up to the end of each rule."""
    form: NDArray[np.uint8]
    """The form of each rule. A rule that is not plain has no parts."""


def cut_texts(start: NDArray[np.int64], data: NDArray[np.uint8]) -> Cuts:
    """Cut the texts data[start[i]:start[i + 1]]."""
    size = len(start) - 1
    # A piece and the word that ends it have four bytes at least: ``a OR``.
    room = int(start[-1] - start[0]) // 4 + size + 1
    begin, end = np.empty(room, np.int64), np.empty(room, np.int64)
    part_end, rule_end = np.empty(room, np.int64), np.empty(size, np.int64)
    form = np.empty(size, np.uint8)
    pieces, parts = _cut_all(
        read_only(start),
        read_only(data),
        begin,
        end,
        np.empty(room, np.uint8),
        part_end,
        rule_end,
        form,
    )
    return Cuts(begin[:pieces], end[:pieces], part_end[:parts], rule_end, form)


@kernel
def _cut_all(start, data, begin, end, link, part_end, rule_end, form):
    pieces = parts = 0
    for rule in range(len(start) - 1):
        form[rule], last = _cut(data, start[rule], start[rule + 1], begin, end, link, pieces)
        if form[rule] != NOT_PLAIN:
            first = parts
            parts = _number_parts(form[rule], link, pieces, last, part_end, parts)
            if parts - first > _MOST_PARTS:
                form[rule], parts = NOT_PLAIN, first
            else:
                before = pieces
                for part in range(first, parts):
                    if part_end[part] - before > _MOST_PIECES:
                        form[rule] = NOT_PLAIN
                    before = part_end[part]
                if form[rule] == NOT_PLAIN:
                    parts = first
                else:
                    pieces = last
        rule_end[rule] = parts
    return pieces, parts


@kernel
def _number_parts(form, link, first, last, part_end, parts):
    """Write where the parts of the pieces from `first` to `last` end."""
    for piece in range(first + 1, last):
        is_or = link[piece] == _OR or link[piece] == _OR_IN_GROUP
        if is_or == (form == OR_OF_ANDS):
            part_end[parts] = piece
            parts += 1
    part_end[parts] = last
    return parts + 1


@kernel
def _cut(data, at, stop, begin, end, link, pieces):
    """Cut one text. Returns its form, and the number of pieces up to its end."""
    in_group = has_or = needs_cnf = False
    group = _FIRST  # How pieces in the parentheses are linked, or _FIRST if there is just one.
    next_link = _FIRST
    before_group = _FIRST
    at = skip_spaces(data, at, stop)
    while True:
        # Here an operand begins: a piece, or parentheses.
        if at < stop and CLASSES[data[at]] == OPEN:
            if in_group:
                return NOT_PLAIN, pieces
            in_group, group, before_group = True, _FIRST, next_link
            at = skip_spaces(data, at + 1, stop)
        piece_begin = at
        at, piece_end, word = _find_end(data, at, stop)
        if at < 0 or piece_end == piece_begin:
            return NOT_PLAIN, pieces
        begin[pieces], end[pieces], link[pieces] = piece_begin, piece_end, next_link
        pieces += 1
        closed = _FIRST
        if word == CLOSE:
            if not in_group:
                return NOT_PLAIN, pieces
            in_group, closed = False, group
            if closed == _OR_IN_GROUP and before_group == _AND:
                needs_cnf = True
            at = skip_spaces(data, at, stop)
            word = 0
            if at < stop:
                word_end = skip_word(data, at, stop)
                word = _connective(data, word_code(data, at, word_end), word_end, stop)
                if word == 0:
                    return NOT_PLAIN, pieces
                at = word_end
        if word == 0:
            if in_group or (needs_cnf and has_or):
                return NOT_PLAIN, pieces
            return (AND_OF_ORS if needs_cnf else OR_OF_ANDS), pieces
        if in_group:
            next_link = _AND_IN_GROUP if word == _AND else _OR_IN_GROUP
            if group != _FIRST and group != next_link:
                return NOT_PLAIN, pieces
            group = next_link
        else:
            next_link = word
            has_or |= word == _OR
            needs_cnf |= closed == _OR_IN_GROUP and word == _AND
        at = skip_spaces(data, at, stop)


@kernel
def _connective(data, code, end, stop):
    """_AND or _OR for such a word with a space or an opening parenthesis after it, 0 otherwise."""
    if end < stop and CLASSES[data[end]] != SPACE and CLASSES[data[end]] != OPEN:
        return 0
    if code == _WORD_AND:
        return _AND
    return _OR if code == _WORD_OR else 0


@kernel
def _find_end(data, at, stop):
    """Find the end of the piece that begins at `at`.

    Returns where to go on (-1 if no plain rule reads so), where the piece ends, and what ends it:
    _AND, _OR, CLOSE for a parenthesis, or 0 for the end of the text.
    """
    is_between = False
    first = piece_end = at
    while at < stop:
        kind = CLASSES[data[at]]
        if kind == SPACE:
            at += 1
            continue
        if kind in (WORD, DIGIT):
            word_end = skip_word(data, at, stop)
            if kind == WORD and (at == first or data[at - 1] != _DOT):
                code = word_code(data, at, word_end)
                word = _connective(data, code, word_end, stop)
                if word == _AND and is_between:
                    is_between = False
                elif word != 0:
                    # A word right after a number or a quote is left to the parser.
                    if is_between or at == first or CLASSES[data[at - 1]] != SPACE:
                        return -1, piece_end, 0
                    return word_end, piece_end, word
                elif code == _WORD_BETWEEN:
                    is_between = True
                elif code == _WORD_IN:
                    word_end = _skip_list(data, word_end, stop)
                    if word_end < 0:
                        return -1, piece_end, 0
            at = word_end
        elif kind in (QUOTE, NAME_QUOTE):
            at = skip_quoted(data, at, stop)
            if at < 0:
                return -1, piece_end, 0
        elif kind == SIGN:
            at += 1
            # After ``a. and`` the word is a name.
            if data[at - 1] == _DOT and at < stop and CLASSES[data[at]] == SPACE:
                return -1, piece_end, 0
        elif kind == CLOSE:
            return (-1 if is_between else at + 1), piece_end, CLOSE
        else:
            return -1, piece_end, 0
        piece_end = at
    return (-1 if is_between else at), piece_end, 0


@kernel
def _skip_list(data, at, stop):
    """Where the list in parentheses that begins at `at` ends; -1 if there is none."""
    at = skip_spaces(data, at, stop)
    if at == stop or CLASSES[data[at]] != OPEN:
        return -1
    at += 1
    while at < stop:
        kind = CLASSES[data[at]]
        if kind == CLOSE:
            return at + 1
        if kind == QUOTE:
            at = skip_quoted(data, at, stop)
            if at < 0:
                return -1
        elif kind in (SPACE, WORD, DIGIT, SIGN):
            at += 1
        else:
            return -1
    return -1
