"""Which text predicates an event may need: those of rules that it could still satisfy.

Looking for texts in a value costs far more than looking up a code. A rule that asks for a text and
for something else besides cannot match where that something does not hold. So each conjunction has
a *guard*, an atom of it that codes decide, and the texts of an attribute are looked for only in an
event that satisfies a guard of some conjunction that asks for them.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT, Events
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules

__all__ = ["TextGuards"]

_MOST_BITS = 64
"""How many attributes can be told apart; those beyond share the last bit."""

_MOST_CODES = 64
"""How many codes a guard may stand for; one of more is satisfied by any value."""

_NO_GUARD = -1


class _GuardArrays(NamedTuple):
    """What wakes the text predicates of attributes, each of which has a bit."""

    bit: NDArray[np.uint64]
    """For each attribute the bit of its text predicates; 0 where there are none."""
    always: NDArray[np.uint64]
    """One word: the attributes whose texts any event may need."""
    by_presence: NDArray[np.uint64]
    """For each attribute what its presence wakes."""
    by_code: NDArray[np.uint64]
    """What each code of each attribute wakes, attributes end to end as in `base`."""
    base: NDArray[np.int64]
    """Where the codes of each attribute begin."""


class TextGuards:
    """Tells which texts are worth looking for. Safe to use from several threads.

    Parameters
    ----------
    rules
        The rules. Nothing is computed before the first question.
    """

    def __init__(self, rules: EncodedRules) -> None:
        self._rules = rules
        self._made: _GuardArrays | None = None

    @property
    def _arrays(self) -> _GuardArrays:
        made = self._made
        if made is None:
            # Two readers may do so at once, and both are right.
            made = self._made = _guard_arrays(self._rules)
        return made

    def rows_that_need(self, attribute: int, events: Events) -> NDArray[np.bool_]:
        """For each event whether it may need the text predicates of `attribute`."""
        arrays = self._arrays
        bit = arrays.bit[attribute]
        needed = np.ones(len(events.start) - 1, np.bool_)
        if not arrays.always[0] & bit:
            _find_rows(arrays, events.start, events.attribute, events.code, bit, needed)
        return needed


def _guard_arrays(rules: EncodedRules) -> _GuardArrays:
    """Choose a guard for whatever asks for texts, and note what each wakes."""
    attributes = len(rules.dictionary.axes)
    bit = np.zeros(attributes, np.uint64)
    for place, attribute in enumerate(sorted(rules.texts.attributes)):
        bit[attribute] = np.uint64(1) << np.uint64(min(place, _MOST_BITS - 1))
    arrays = _GuardArrays(
        bit,
        np.zeros(1, np.uint64),
        np.zeros(attributes, np.uint64),
        np.zeros(rules.dictionary.base[-1], np.uint64),
        rules.dictionary.base,
    )
    asked = np.zeros(rules.size, np.uint64)
    _texts_of_rules(
        rules.atoms.table, rules.forms, rules.scores.start, rules.scores.code, bit, asked
    )
    _guard_conjunctions(rules.atoms.table, rules.atoms.codes, rules.forms, asked, arrays)
    _guard_programs(rules.atoms.table, rules.atoms.codes, rules.forms, asked, arrays)
    return arrays


@kernel
def _bit_of(table, bit, atom):
    """The bit of an atom's attribute where it asks for a text, else 0."""
    return bit[table[atom, 0]] if table[atom, 1] & 3 == TEXT else np.uint64(0)


@kernel
def _texts_of_rules(table, forms, score_start, score_code, bit, asked):
    """For each rule the attributes whose texts decide whether it matches, or how it scores."""
    for conjunction in range(len(forms.conjunction_start) - 1):
        bits = np.uint64(0)
        for i in range(
            forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]
        ):
            bits |= _bit_of(table, bit, forms.conjunction_atom[i])
        if len(forms.owner) == 0:
            asked[conjunction] |= bits
        else:
            for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
                asked[forms.owner[i]] |= bits
    for program in range(len(forms.program_rule)):
        for i in range(forms.program_start[program], forms.program_start[program + 1]):
            asked[forms.program_rule[program]] |= _bit_of(table, bit, forms.program[i, 0])
    for rule in range(len(score_start) - 1):
        for i in range(score_start[rule], score_start[rule + 1]):
            if score_code[i] >= 0:
                asked[rule] |= _bit_of(table, bit, score_code[i])


@kernel
def _width(table, atom):
    """How many codes satisfy an atom, or _NO_GUARD where codes do not decide it."""
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    if test & (IF_ABSENT | NEGATED) or test & 3 == TEXT:
        return np.int64(_NO_GUARD)
    return np.int64(high - low + 1 if test & 3 == RANGE else high - low)


@kernel
def _wake(table, codes, atom, bits, arrays):
    """Note that an event that satisfies `atom` needs these texts."""
    attribute, test, low, high = table[atom, 0], table[atom, 1], table[atom, 2], table[atom, 3]
    first = arrays.base[attribute]
    if _width(table, atom) > _MOST_CODES:
        arrays.by_presence[attribute] |= bits
    elif test & 3 == SET:
        for i in range(low, high):
            arrays.by_code[first + codes[i]] |= bits
    else:
        for code in range(low, high + 1):
            arrays.by_code[first + code] |= bits


@kernel
def _guard_conjunctions(table, codes, forms, asked, arrays):
    """Give each conjunction whose rules ask for texts the guard that the fewest codes satisfy."""
    for conjunction in range(len(forms.conjunction_start) - 1):
        bits = np.uint64(0)
        if len(forms.owner) == 0:
            bits = asked[conjunction]
        else:
            for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
                bits |= asked[forms.owner[i]]
        if bits == 0:
            continue
        guard = np.int64(_NO_GUARD)
        least = np.int64(0)
        for i in range(
            forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]
        ):
            atom = np.int64(forms.conjunction_atom[i])
            width = _width(table, atom)
            if width != _NO_GUARD and (guard == _NO_GUARD or width < least):
                guard = atom
                least = width
        if guard == _NO_GUARD:
            arrays.always[0] |= bits
        else:
            _wake(table, codes, guard, bits, arrays)


@kernel
def _guard_programs(table, codes, forms, asked, arrays):
    """Have the cover of each program that asks for texts guard them, if codes decide it."""
    for program in range(len(forms.program_rule)):
        bits = asked[forms.program_rule[program]]
        begin, end = forms.cover_start[program], forms.cover_start[program + 1]
        if begin == end:
            arrays.always[0] |= bits
        for i in range(begin, end):
            if _width(table, forms.cover_atom[i]) == _NO_GUARD:
                arrays.always[0] |= bits
            else:
                _wake(table, codes, forms.cover_atom[i], bits, arrays)


@kernel
def _find_rows(arrays, start, attribute, code, bit, needed):
    """Mark the events with a value that wakes `bit`."""
    for row in range(len(start) - 1):
        woken = np.uint64(0)
        for i in range(start[row], start[row + 1]):
            woken |= arrays.by_presence[attribute[i]]
            woken |= arrays.by_code[arrays.base[attribute[i]] + code[i]]
        needed[row] = woken & bit != 0
