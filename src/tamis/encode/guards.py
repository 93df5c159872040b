"""Which costly predicates an event may need: those of rules that it could still satisfy.

To look for a text in a value, or to compare an event with documents, costs far more than to look up
a code. A conjunction cannot match where one of its cheap atoms fails. So each conjunction with a
costly predicate has a *guard*, the cheap atom that the fewest codes satisfy; a program is guarded
by its cover. A costly predicate is evaluated only for events that satisfy one of its guards.

Each attribute with costly predicates has a bit. A guard *wakes* the bits of its conjunction.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT, Events
from tamis.encode.kernel import kernel
from tamis.encode.rules import EncodedRules

__all__ = ["Guards"]

_BITS: Final = 64
"""How many attributes are distinguished; with more, some share a bit."""

_MOST_CODES: Final = 64
"""How many codes a guard may stand for; any value wakes what a wider one guards."""

_NO_GUARD: Final = -1


class _WakeArrays(NamedTuple):
    """Which bits an event wakes."""

    always: NDArray[np.uint64]
    """One word: what every event wakes."""
    by_presence: NDArray[np.uint64]
    """What the presence of each attribute wakes."""
    by_code: NDArray[np.uint64]
    """What each code of each attribute wakes, attributes end to end as in `base`."""
    base: NDArray[np.int64]
    """Where the codes of each attribute begin."""


class Guards:
    """Decides which costly predicates an event may need. Safe to use from several threads.

    Parameters
    ----------
    rules
        The rules. Nothing is computed before the first question.
    attributes
        The numbers of the attributes with costly predicates.
    texts
        Whether only the text predicates of `attributes` are costly, and scores need them, too.
        Otherwise all their predicates are, and only matches need them.
    """

    def __init__(self, rules: EncodedRules, attributes: Iterable[int], *, texts: bool) -> None:
        self._rules = rules
        self._texts = texts
        self._bits: dict[int, int] = {}
        self._by_bit: list[list[int]] = [[] for _ in range(_BITS)]
        for place, attribute in enumerate(attributes):
            self._bits[attribute] = 1 << place % _BITS
            self._by_bit[place % _BITS].append(attribute)
        self._built: _WakeArrays | None = None
        self._lists: tuple[int, list[int], list[int]] | None = None
        """`always`, `by_presence` and `base` of the arrays for single events: lists are faster."""

    @property
    def _arrays(self) -> _WakeArrays:
        arrays = self._built
        if arrays is None:
            # Two threads may build them at once; either result will do.
            arrays = self._built = self._build()
        return arrays

    def prepare(self) -> tuple[int, list[int], list[int]]:
        """Compute everything that a single event needs, so that no event waits for it."""
        always, by_presence, _, base = self._arrays
        lists = self._lists = always.item(), by_presence.tolist(), base.tolist()
        return lists

    def rows_that_need(self, attribute: int, events: Events) -> NDArray[np.bool_]:
        """For each event, whether it may need the costly predicates of `attribute`."""
        arrays, bit = self._arrays, np.uint64(self._bits[attribute])
        needed = np.ones(len(events.start) - 1, np.bool_)
        if not arrays.always[0] & bit:
            _find_rows(arrays, events.start, events.attribute, events.code, bit, needed)
        return needed

    def attributes_needed(self, event: Events) -> Iterator[int]:
        """The attributes whose costly predicates a single event may need."""
        woken, by_presence, base = self._lists or self.prepare()
        by_code = self._arrays.by_code
        for attribute, code in zip(event.attribute.tolist(), event.code.tolist(), strict=True):
            woken |= by_presence[attribute] | by_code.item(base[attribute] + code)
        while woken:
            lowest = woken & -woken
            yield from self._by_bit[lowest.bit_length() - 1]
            woken ^= lowest

    def _build(self) -> _WakeArrays:
        atoms, forms, scores, dictionary = (
            self._rules.atoms,
            self._rules.forms,
            self._rules.scores,
            self._rules.dictionary,
        )
        bit = np.zeros(len(dictionary.axes), np.uint64)
        bit[list(self._bits)] = list(self._bits.values())
        bits = bit[atoms.attribute]
        bits_of_rule = np.empty(0, np.uint64)
        if self._texts:
            bits[atoms.test != TEXT] = 0
            bits_of_rule = np.zeros(self._rules.size, np.uint64)
            _collect_rule_bits(forms, scores.start, scores.code, bits, bits_of_rule)
        arrays = _WakeArrays(
            np.zeros(1, np.uint64),
            np.zeros(len(dictionary.axes), np.uint64),
            np.zeros(dictionary.base[-1], np.uint64),
            dictionary.base,
        )
        _guard_conjunctions(atoms.table, atoms.codes, forms, bits, bits_of_rule, arrays)
        _guard_programs(atoms.table, atoms.codes, forms, bits, bits_of_rule, arrays)
        return arrays


@kernel
def _collect_rule_bits(forms, score_start, score_code, bits, bits_of_rule):
    """For each rule, the bits of all its atoms, which decide whether it matches and its score."""
    for conjunction in range(len(forms.conjunction_start) - 1):
        own = _bits_of_conjunction(forms, bits, conjunction)
        if len(forms.owner) == 0:
            bits_of_rule[conjunction] |= own
        else:
            for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
                bits_of_rule[forms.owner[i]] |= own
    for program in range(len(forms.program_rule)):
        bits_of_rule[forms.program_rule[program]] |= _bits_of_program(forms, bits, program)
    for rule in range(len(score_start) - 1):
        for i in range(score_start[rule], score_start[rule + 1]):
            if score_code[i] >= 0:
                bits_of_rule[rule] |= bits[score_code[i]]


@kernel
def _bits_of_conjunction(forms, bits, conjunction):
    found = np.uint64(0)
    for i in range(forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]):
        found |= bits[forms.conjunction_atom[i]]
    return found


@kernel
def _bits_of_program(forms, bits, program):
    found = np.uint64(0)
    for i in range(forms.program_start[program], forms.program_start[program + 1]):
        found |= bits[forms.program[i, 0]]
    return found


@kernel
def _bits_of_owners(forms, bits_of_rule, conjunction):
    if len(forms.owner) == 0:
        return bits_of_rule[conjunction]
    found = np.uint64(0)
    for i in range(forms.owner_start[conjunction], forms.owner_start[conjunction + 1]):
        found |= bits_of_rule[forms.owner[i]]
    return found


@kernel
def _width(table, bits, atom):
    """How many codes satisfy an atom; _NO_GUARD where it is costly or codes do not decide it."""
    test, low, high = table[atom, 1], table[atom, 2], table[atom, 3]
    if bits[atom] != 0 or test & (IF_ABSENT | NEGATED) or test & 3 == TEXT:
        return np.int64(_NO_GUARD)
    return np.int64(max(0, high - low + 1 if test & 3 == RANGE else high - low))


@kernel
def _wake(table, codes, atom, width, woken, arrays):
    """Note that an event that satisfies `atom`, which is `width` codes wide, wakes these bits."""
    attribute, test, low, high = table[atom, 0], table[atom, 1], table[atom, 2], table[atom, 3]
    first = arrays.base[attribute]
    if width > _MOST_CODES:
        arrays.by_presence[attribute] |= woken
    elif test & 3 == SET:
        for i in range(low, high):
            arrays.by_code[first + codes[i]] |= woken
    else:
        for code in range(low, high + 1):
            arrays.by_code[first + code] |= woken


@kernel
def _guard_conjunctions(table, codes, forms, bits, bits_of_rule, arrays):
    """Guard each conjunction's own bits, or where `bits_of_rule` is given those of its rules."""
    for conjunction in range(len(forms.conjunction_start) - 1):
        if len(bits_of_rule):
            woken = _bits_of_owners(forms, bits_of_rule, conjunction)
        else:
            woken = _bits_of_conjunction(forms, bits, conjunction)
        if woken == 0:
            continue
        guard, least = np.int64(_NO_GUARD), np.int64(0)
        for i in range(
            forms.conjunction_start[conjunction], forms.conjunction_start[conjunction + 1]
        ):
            atom = np.int64(forms.conjunction_atom[i])
            width = _width(table, bits, atom)
            if width != _NO_GUARD and (guard == _NO_GUARD or width < least):
                guard, least = atom, width
        if guard == _NO_GUARD:
            arrays.always[0] |= woken
        else:
            _wake(table, codes, guard, least, woken, arrays)


@kernel
def _guard_programs(table, codes, forms, bits, bits_of_rule, arrays):
    """As `_guard_conjunctions`, with the cover of a program as its guards."""
    for program in range(len(forms.program_rule)):
        if len(bits_of_rule):
            woken = bits_of_rule[forms.program_rule[program]]
        else:
            woken = _bits_of_program(forms, bits, program)
        if woken == 0:
            continue
        begin, end = forms.cover_start[program], forms.cover_start[program + 1]
        if begin == end:
            arrays.always[0] |= woken
        for i in range(begin, end):
            atom = forms.cover_atom[i]
            width = _width(table, bits, atom)
            if width == _NO_GUARD:
                if bits[atom] == 0 and table[atom, 1] & (IF_ABSENT | TEXT) == 0:
                    # It is negated, and needs its attribute.
                    arrays.by_presence[table[atom, 0]] |= woken
                else:
                    arrays.always[0] |= woken
            else:
                _wake(table, codes, forms.cover_atom[i], width, woken, arrays)


@kernel
def _find_rows(arrays, start, attribute, code, bit, needed):
    """Mark the events that wake `bit`."""
    for row in range(len(start) - 1):
        woken = np.uint64(0)
        for i in range(start[row], start[row + 1]):
            woken |= arrays.by_presence[attribute[i]]
            woken |= arrays.by_code[arrays.base[attribute[i]] + code[i]]
        needed[row] = woken & bit != 0
