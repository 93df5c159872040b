"""Trees that are a DNF or a CNF as they are written, and rules that are scored by sums.

A rule's score is defined over its tree (`ScoreArrays`), but engines search by the conjunctions of
its simplified DNF. The score is the best sum over a satisfied conjunction only if nothing was
dropped, merged or united. What simplification drops most often is a conjunction that contains
another one of its rule: it holds only where the other does, yet it may score more. An engine that
bounds scores by conjunctions takes them as they are written (`with_absorbed`).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT32, NO_INT64
from tamis.encode.kernel import kernel
from tamis.encode.merge.deduplicate import number_conjunctions
from tamis.encode.ragged import (
    concatenate_lists,
    list_numbers,
    narrow_starts,
    starts,
    take_lists,
)
from tamis.encode.rule_forms import owner_arrays
from tamis.encode.rules import EncodedRules

__all__ = [
    "AND",
    "OR",
    "Parts",
    "Written",
    "are_normal",
    "are_sums",
    "find_written",
    "only_absorbed",
    "take_parts",
    "with_absorbed",
]

AND: Final = 0
OR: Final = 1
"""The operators, as the lowest bit of a score code; see `ScoreArrays`."""

_MOST: Final = 1e15
"""Above the number of conjunctions of any rule that is kept as conjunctions."""


class Parts(NamedTuple):
    """The conjunctions of DNFs, or the disjunctions of CNFs, rule by rule."""

    sizes: tuple[NDArray[np.int64], NDArray[np.int64]]
    """The number of atoms of each part, by rule."""
    atoms: tuple[NDArray[np.int64], NDArray[np.int32]]
    """The atoms of all parts, by rule."""


def are_normal(start: NDArray[np.int64], code: NDArray[np.int32], outer: int) -> NDArray[np.bool_]:
    """Whether each tree is a DNF (`outer` is OR) or a CNF (AND), without empty operators inside.

    `start` and `code` are as in `ScoreArrays`.
    """
    size = len(start) - 1
    rule = list_numbers(start)
    place = np.arange(len(code))
    is_operator = code < 0
    operands = np.where(is_operator, (-code - 1) >> 1, 0)
    is_outer = is_operator & ((-code - 1) & 1 == outer)
    is_last = place == start[rule + 1] - 1
    has_outer = np.zeros(size, np.bool_)
    has_outer[rule[is_outer & is_last]] = True
    before = starts(is_operator)[:-1]
    over_atoms = (before == before[place - operands]) & (operands > 0)
    fits = np.where(is_outer, is_last, over_atoms & (is_last | has_outer[rule]))
    normal = np.ones(size, np.bool_)
    normal[rule[is_operator & ~fits]] = False
    return normal


def take_parts(start: NDArray[np.int64], code: NDArray[np.int32], inner: int) -> Parts:
    """The parts of trees that are normal: their `inner` operators, and the atoms outside of these.

    `start` and `code` are as in `ScoreArrays`.
    """
    size = len(start) - 1
    rule = list_numbers(start)
    is_atom = code >= 0
    inners = np.flatnonzero(~is_atom & ((-code - 1) & 1 == inner))
    first = inners - ((-code[inners] - 1) >> 1)
    depth = np.zeros(len(code) + 1, np.int64)
    depth[first] += 1
    depth[inners] -= 1
    begins = is_atom & (np.cumsum(depth)[:-1] == 0)
    begins[first] = True
    sizes = np.diff(np.append(np.flatnonzero(begins[is_atom]), is_atom.sum()))
    return Parts(
        (starts(np.bincount(rule[begins], minlength=size)), sizes),
        (starts(np.bincount(rule[is_atom], minlength=size)), code[is_atom]),
    )


def are_sums(rules: EncodedRules) -> NDArray[np.bool_]:
    """Whether each rule's score is the best of the sums over its satisfied conjunctions.

    Its DNF, written out without any simplification, must have as many conjunctions as the rule, and
    as many atoms: simplification makes them fewer.
    """
    forms, scores, size = rules.forms, rules.scores, rules.size
    if len(scores.start) == 0:
        return np.ones(size, np.bool_)
    sizes = np.diff(forms.conjunction_start)
    owner, owned = forms.owner, np.diff(forms.owner_start)
    if len(owner) == 0 and len(sizes):
        owner, owned = np.arange(size, dtype=np.int32), np.ones(size, np.int64)
    conjunctions = np.bincount(owner, minlength=size)
    atoms = np.bincount(owner, np.repeat(sizes, owned), minlength=size)
    sums = np.zeros(size, np.bool_)
    terms, lengths = np.empty(scores.depth), np.empty(scores.depth)
    _compare_with_written(scores, conjunctions, atoms, terms, lengths, sums)
    return sums


@kernel
def _compare_with_written(scores, conjunctions, atoms, terms, lengths, sums):
    """Count the conjunctions of each tree's DNF and their atoms, and compare both numbers."""
    for rule in range(len(sums)):
        height = 0
        for place in range(scores.start[rule], scores.start[rule + 1]):
            code = scores.code[place]
            count = length = 1.0
            if code < 0:
                operands = (-code - 1) >> 1
                height -= operands
                count, length = (0.0, 0.0) if (-code - 1) & 1 else (1.0, 0.0)
                for i in range(height, height + operands):
                    if (-code - 1) & 1:
                        count += terms[i]
                        length += lengths[i]
                    else:
                        length = length * terms[i] + count * lengths[i]
                        count *= terms[i]
            terms[height] = min(count, _MOST)
            lengths[height] = min(length, _MOST)
            height += 1
        sums[rule] = terms[0] == conjunctions[rule] and lengths[0] == atoms[rule]


class Written(NamedTuple):
    """Conjunctions as they are written, of rules whose scores are sums over these only."""

    start: NDArray[np.int64]
    atom: NDArray[np.int32]
    """The atoms of each conjunction."""
    rule: NDArray[np.int64]
    """The rule of each conjunction, rising."""


def find_written(rules: EncodedRules) -> tuple[Written, NDArray[np.bool_]]:
    """Find the rules that simplification has made other than sums, and their conjunctions.

    Takes the conjunctions of a rule as they are written if its tree is a DNF, no conjunction has
    two atoms on one attribute, and the rule is not scored by sums otherwise. Also returns whether
    each rule is scored by sums over its own conjunctions and these.
    """
    forms, scores = rules.forms, rules.scores
    sums = are_sums(rules)
    if sums.all():
        return Written(np.zeros(1, np.int64), NO_INT32, NO_INT64), sums
    wanted = ~sums & are_normal(scores.start, scores.code, outer=OR)
    wanted[forms.program_rule] = False
    chosen = np.flatnonzero(wanted)
    parts = take_parts(*take_lists(scores.start, scores.code, chosen), inner=AND)
    part_rule, part_start = list_numbers(parts.sizes[0]), starts(parts.sizes[1])
    wanted[chosen[part_rule[_repeat_attributes(rules, part_start, parts.atoms[1])]]] = False
    is_kept = wanted[chosen][part_rule]
    written = take_lists(part_start, parts.atoms[1], np.flatnonzero(is_kept))
    return Written(*written, chosen[part_rule[is_kept]]), sums | wanted


def with_absorbed(rules: EncodedRules) -> tuple[EncodedRules, NDArray[np.bool_]]:
    """`rules` with the conjunctions that simplification dropped; see `find_written`.

    Also returns whether each rule is scored by sums then.
    """
    written, sums = find_written(rules)
    if len(written.rule) == 0:
        return rules, sums
    pairs = _pair_conjunctions(rules, written)
    return _replace_conjunctions(rules, pairs, np.unique(pairs.key)), sums


def only_absorbed(rules: EncodedRules) -> tuple[EncodedRules, NDArray[np.bool_]]:
    """`rules` with nothing but the conjunctions that simplification dropped; see `find_written`.

    Also returns whether each rule is scored by sums over these and its own conjunctions.
    """
    written, sums = find_written(rules)
    pairs = _pair_conjunctions(rules, written)
    own = len(pairs.key) - len(written.rule)
    dropped = np.setdiff1d(pairs.key[own:], pairs.key[:own])
    return _replace_conjunctions(rules, pairs, dropped), sums


def _repeat_attributes(
    rules: EncodedRules, start: NDArray[np.int64], atom: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The conjunctions with two atoms on one attribute."""
    part, attribute = list_numbers(start), rules.atoms.attribute[atom]
    order = np.lexsort((attribute, part))
    again = (np.diff(part[order]) == 0) & (np.diff(attribute[order]) == 0)
    repeating: NDArray[np.int64] = part[order[1:][again]]
    return repeating


class _Pairs(NamedTuple):
    """The rules of all conjunctions, their own and those that are written."""

    key: NDArray[np.int64]
    """The rule times the number of distinct conjunctions, plus the conjunction."""
    start: NDArray[np.int64]
    atom: NDArray[np.int32]
    """The atoms of each distinct conjunction."""


def _pair_conjunctions(rules: EncodedRules, written: Written) -> _Pairs:
    """The rules' own conjunctions, followed by those that are written."""
    forms = rules.forms
    owner, owned = forms.owner, list_numbers(forms.owner_start)
    if len(owner) == 0:
        owner = np.arange(len(forms.conjunction_start) - 1, dtype=np.int32)
        owned = np.arange(len(owner))
    own = take_lists(forms.conjunction_start, forms.conjunction_atom, owned)
    start, atom = concatenate_lists([own, (written.start, written.atom)])
    number, first = number_conjunctions(start, atom)
    rule = np.concatenate((owner, written.rule)).astype(np.int64)
    return _Pairs(rule * len(first) + number, *take_lists(start, atom, first))


def _replace_conjunctions(
    rules: EncodedRules, pairs: _Pairs, chosen: NDArray[np.int64]
) -> EncodedRules:
    """`rules` with the conjunctions of the `chosen` keys, which rise."""
    rule, conjunction = np.divmod(chosen, max(1, len(pairs.start) - 1))
    used, number = np.unique(conjunction, return_inverse=True)
    start, atom = take_lists(pairs.start, pairs.atom, used)
    owner_start, owner = owner_arrays(number, rule, len(used), rules.size)
    return rules._replace(
        forms=rules.forms._replace(
            conjunction_start=narrow_starts(start),
            conjunction_atom=atom,
            owner_start=owner_start,
            owner=owner,
        )
    )
