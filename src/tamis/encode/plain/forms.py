"""The conjunctions, programs and score codes of plain rules.

An AND of ORs that has many more conjunctions than atoms is not expanded: it becomes a program.

A rule is left to :mod:`tamis.encode.rules` where its atoms have to be compared: several atoms of
one attribute may be united, intersected, or imply each other.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import (
    GOTO_FALSE,
    GOTO_TRUE,
    NEGATED,
    NO_DOUBLES,
    NO_INT32,
    RANGE,
    SET,
    AtomArrays,
    FormArrays,
    ScoreArrays,
)
from tamis.encode.kernel import kernel
from tamis.encode.merge.deduplicate import number_conjunctions
from tamis.encode.plain.cut import AND_OF_ORS, NOT_PLAIN, OR_OF_ANDS
from tamis.encode.plain.predicates import GE, GT, LE, LT
from tamis.encode.ragged import narrow_starts, starts, take_lists
from tamis.encode.rule_forms import compact_forms, owner_arrays
from tamis.expr.normalize import BUDGET, MULTIPLE

__all__ = ["Parts", "leave_comparisons", "make_forms"]


class Parts(NamedTuple):
    """Rules as parts of pieces; see `tamis.encode.plain.cut`."""

    form: NDArray[np.uint8]
    rule_start: NDArray[np.int64]
    """Where the parts of each rule begin."""
    part_start: NDArray[np.int64]
    """Where the pieces of each part begin."""
    piece: NDArray[np.int32]
    """The number of each piece."""


def leave_comparisons(
    parts: Parts,
    good: NDArray[np.bool_],
    attribute: NDArray[np.int32],
    op: NDArray[np.uint8],
    negated: NDArray[np.uint8],
    is_scalar: NDArray[np.bool_],
) -> None:
    """Make each rule NOT_PLAIN that has a bad piece, or atoms that have to be compared.

    Parameters
    ----------
    parts
        The rules; `form` is changed.
    good
        Whether each piece was read.
    attribute, op, negated
        Each piece.
    is_scalar
        Whether each attribute is known to hold at most one value.
    """
    _leave(*parts, good, attribute, op, negated, is_scalar)


def make_forms(
    parts: Parts, atom: NDArray[np.int32], atoms_of: AtomArrays
) -> tuple[FormArrays, ScoreArrays]:
    """The forms and the scores of the rules that are plain; `atom` is the atom of each piece."""
    rules = np.flatnonzero(parts.form != NOT_PLAIN)
    size = len(rules)
    conjunctions, atoms = np.empty(size, np.int64), np.empty(size, np.int64)
    codes = np.empty(size, np.int64)
    _count(parts.form, parts.rule_start, parts.part_start, rules, conjunctions, atoms, codes)
    start = np.zeros(int(conjunctions.sum()) + 1, np.int64)
    conjunction_atom = np.empty(int(atoms.sum()), np.int32)
    owner = np.empty(len(start) - 1, np.int64)
    score_start = starts(codes)
    code = np.empty(score_start[-1], np.int32)
    count = _fill(*parts, rules, atom, start, conjunction_atom, owner, score_start, code)
    start, owner = start[: count + 1], owner[:count]
    conjunction_atom = conjunction_atom[: start[-1]]
    number, first = number_conjunctions(start, conjunction_atom)
    if len(first) < count:
        start, conjunction_atom = take_lists(start, conjunction_atom, first)
    owners = owner_arrays(number.astype(np.int64), owner, len(first), size)
    programs = _make_programs(parts, rules, atom, atoms_of)
    forms = FormArrays(narrow_starts(start), conjunction_atom, owners[0], owners[1], *programs)
    return compact_forms(forms, score_start, code, NO_INT32, NO_DOUBLES)


def _make_programs(
    parts: Parts, rules: NDArray[np.int64], atom: NDArray[np.int32], atoms: AtomArrays
) -> tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]
]:
    """The programs among the plain `rules`, as the last fields of `FormArrays`."""
    sizes = np.zeros(len(rules), np.int64)
    _measure_programs(parts.form, parts.rule_start, parts.part_start, rules, sizes)
    number = np.flatnonzero(sizes)
    start = starts(sizes[number])
    program = np.empty((start[-1], 3), np.int32)
    cover_end = np.zeros(len(number) + 1, np.int64)
    cover = np.empty(start[-1], np.int32)
    price = _price_atoms(atoms)
    _fill_programs(*parts[1:], rules[number], atom, price, start, program, cover_end, cover)
    return start, program, number.astype(np.int32), cover_end, cover[: cover_end[-1]].copy()


def _price_atoms(atoms: AtomArrays) -> NDArray[np.float64]:
    """A rough cost of a cover by each atom; infinite for negated ones, which cover nothing."""
    codes = (atoms.high - atoms.low).astype(np.float64)
    is_range = atoms.test == RANGE
    price = np.select(
        [is_range & (codes == 0), is_range, atoms.test == SET], [1.0, 50.0, codes], 10.0
    )
    return np.where(atoms.flags & NEGATED, np.inf, price)


@kernel
def _is_large_cnf(part_start, first, last):
    """See `tamis.expr.normalize.is_large_cnf`."""
    conjunctions = 1
    for part in range(first, last):
        conjunctions = min(conjunctions * (part_start[part + 1] - part_start[part]), 1 << 20)
    atoms, parts = part_start[last] - part_start[first], last - first
    return parts > 1 and (
        conjunctions > MULTIPLE * atoms or conjunctions * parts > max(BUDGET, 2 * atoms)
    )


@kernel
def _clauses_are_apart(part_start, piece, attribute, first, last):
    """Whether `simplify` would change no clause: see `TwoLevelRule.clauses`."""
    for part in range(first, last):
        begin, end = part_start[part], part_start[part + 1]
        for i in range(begin, end):
            for j in range(begin, i):
                if attribute[piece[i]] == attribute[piece[j]]:
                    return False
        for other in range(first, part):
            at = part_start[other]
            if part_start[other + 1] - at != end - begin:
                continue
            if end - begin == 1:
                if attribute[piece[at]] == attribute[piece[begin]]:
                    return False
                continue
            is_equal = True
            for i in range(end - begin):
                is_equal &= piece[at + i] == piece[begin + i]
            if is_equal:
                return False
    return True


@kernel
def _measure_programs(form, rule_start, part_start, rules, sizes):
    """How many instructions each rule has; 0 if it is no program."""
    for i in range(len(rules)):
        first, last = rule_start[rules[i]], rule_start[rules[i] + 1]
        if form[rules[i]] == AND_OF_ORS and _is_large_cnf(part_start, first, last):
            sizes[i] = part_start[last] - part_start[first]


@kernel
def _fill_programs(
    rule_start, part_start, piece, rules, atom, price, start, program, cover_end, cover
):
    """Write programs, clauses of one atom first, and the cheapest clause of each as its cover."""
    covered = 0
    for i in range(len(rules)):
        first, last = rule_start[rules[i]], rule_start[rules[i] + 1]
        at = 0
        size = start[i + 1] - start[i]
        best, least = -1, np.inf
        for several in range(2):
            for part in range(first, last):
                begin, end = part_start[part], part_start[part + 1]
                if (end - begin > 1) != (several == 1):
                    continue
                following = at + end - begin if at + end - begin < size else GOTO_TRUE
                cost = 0.0
                for j in range(begin, end):
                    cost += price[atom[piece[j]]]
                    program[start[i] + at, 0] = atom[piece[j]]
                    program[start[i] + at, 1] = following
                    program[start[i] + at, 2] = at + 1 if j + 1 < end else GOTO_FALSE
                    at += 1
                if cost < least:
                    best, least = part, cost
        if best >= 0:
            for j in range(part_start[best], part_start[best + 1]):
                cover[covered] = atom[piece[j]]
                covered += 1
        cover_end[i + 1] = covered


@kernel
def _leave(form, rule_start, part_start, piece, good, attribute, op, negated, is_scalar):
    for rule in range(len(form)):
        first, last = rule_start[rule], rule_start[rule + 1]
        for i in range(part_start[first], part_start[last]):
            if not good[piece[i]]:
                form[rule] = NOT_PLAIN
        if form[rule] == OR_OF_ANDS:
            for part in range(first, last):
                begin, end = part_start[part], part_start[part + 1]
                if not _are_apart(piece, begin, end, attribute, op, negated, is_scalar):
                    form[rule] = NOT_PLAIN
                if end - begin == 1:
                    # Alternatives on one attribute may be united.
                    for other in range(first, part):
                        at = part_start[other]
                        if (
                            part_start[other + 1] - at == 1
                            and attribute[piece[at]] == attribute[piece[begin]]
                        ):
                            form[rule] = NOT_PLAIN
        elif form[rule] == AND_OF_ORS:
            begin, end = part_start[first], part_start[last]
            if _is_large_cnf(part_start, first, last):
                if not _clauses_are_apart(part_start, piece, attribute, first, last):
                    form[rule] = NOT_PLAIN
                continue
            for i in range(begin, end):
                for j in range(begin, i):
                    if attribute[piece[i]] == attribute[piece[j]]:
                        form[rule] = NOT_PLAIN


@kernel
def _are_apart(piece, begin, end, attribute, op, negated, is_scalar):
    """Whether no atom of an AND implies another, or can be merged with it."""
    for i in range(begin, end):
        a = piece[i]
        for j in range(begin, i):
            b = piece[j]
            if attribute[a] != attribute[b]:
                continue
            # An upper and a lower bound; several values may satisfy one each.
            is_span = ((op[a] == LT or op[a] == LE) and (op[b] == GT or op[b] == GE)) or (
                (op[b] == LT or op[b] == LE) and (op[a] == GT or op[a] == GE)
            )
            if not is_span or negated[a] or negated[b] or is_scalar[attribute[a]]:
                return False
    return True


@kernel
def _count(form, rule_start, part_start, rules, conjunctions, atoms, codes):
    """The most conjunctions and atoms that each rule needs, and how many score codes."""
    for i in range(len(rules)):
        first, last = rule_start[rules[i]], rule_start[rules[i] + 1]
        pieces = part_start[last] - part_start[first]
        code = pieces + (last - first > 1)
        clauses = 1
        for part in range(first, last):
            size = part_start[part + 1] - part_start[part]
            clauses = min(clauses * size, 1 << 20)
            code += size > 1
        codes[i] = code
        if form[rules[i]] == AND_OF_ORS:
            if _is_large_cnf(part_start, first, last):
                clauses = 0
            conjunctions[i], atoms[i] = clauses, clauses * (last - first)
        else:
            conjunctions[i], atoms[i] = last - first, pieces


@kernel
def _fill(
    form, rule_start, part_start, piece, rules, atom, start, conjunction_atom, owner, code_at, code
):
    """Write the conjunctions and the score codes of rules. Returns how many conjunctions."""
    count = at = 0
    for i in range(len(rules)):
        first, last = rule_start[rules[i]], rule_start[rules[i] + 1]
        is_or = form[rules[i]] == OR_OF_ANDS
        to = code_at[i]
        for part in range(first, last):
            begin, end = part_start[part], part_start[part + 1]
            for j in range(begin, end):
                code[to] = atom[piece[j]]
                to += 1
            if end - begin > 1:
                code[to] = -(2 * (end - begin) + (1 if is_or else 2))
                to += 1
        if last - first > 1:
            code[to] = -(2 * (last - first) + (2 if is_or else 1))
        if is_or:
            for part in range(first, last):
                if _is_absorbed(part_start, piece, atom, first, last, part):
                    continue
                begin = at
                for j in range(part_start[part], part_start[part + 1]):
                    at = _append_distinct(conjunction_atom, begin, at, atom[piece[j]])
                owner[count] = i
                count += 1
                start[count] = at
        elif not _is_large_cnf(part_start, first, last):
            clauses = 1
            for part in range(first, last):
                clauses *= part_start[part + 1] - part_start[part]
            for clause in range(clauses):
                rest, begin = clause, at
                for part in range(first, last):
                    size = part_start[part + 1] - part_start[part]
                    chosen = atom[piece[part_start[part] + rest % size]]
                    at = _append_distinct(conjunction_atom, begin, at, chosen)
                    rest //= size
                owner[count] = i
                count += 1
                start[count] = at
    return count


@kernel
def _append_distinct(items, begin, end, item):
    """Append an item to items[begin:end] unless it is there. Returns the new end."""
    for i in range(begin, end):
        if items[i] == item:
            return end
    items[end] = item
    return end + 1


@kernel
def _is_absorbed(part_start, piece, atom, first, last, part):
    """Whether another part has a subset of this part's atoms; of equal parts the first stays."""
    begin, end = part_start[part], part_start[part + 1]
    for other in range(first, last):
        if other == part:
            continue
        is_subset = True
        for i in range(part_start[other], part_start[other + 1]):
            if not _has(piece, atom, begin, end, atom[piece[i]]):
                is_subset = False
                break
        if is_subset:
            is_equal = True
            for i in range(begin, end):
                if not _has(piece, atom, part_start[other], part_start[other + 1], atom[piece[i]]):
                    is_equal = False
                    break
            if not is_equal or other < part:
                return True
    return False


@kernel
def _has(piece, atom, begin, end, wanted):
    at = begin
    while at < end and atom[piece[at]] != wanted:
        at += 1
    return at < end
