"""The pre-filter a profile at a time: the rules of a segment that no event can satisfy now.

Section 4.3.2 of "Index Structures and Algorithms for Efficient Profile Matching" (2001): what a
rule says about an attribute of the new document, and how a join predicate of the same rule compares
it, together imply a constraint on old documents (Table 2). ``price < 10 AND EXISTS (… d.price =
price)`` needs a document with a price below 10. The paper passes old documents through an index of
all constraints and gets a bit for each profile, from which matching starts.

Here documents are counted by the codes that the rules' dictionary gives to the attribute's values,
so that a constraint is a range of codes, and one pass over the codes decides those of all rules at
once. The bits are the mask with which the engine starts. They are computed again only after a
document has come with a first value in a code, or the last one has gone.

Where a rule names one value (the first row of Table 2, Example 6), its constraint says all that the
join predicate does. If that is so for all rules with the predicate, it is *replaced*: it counts as
true, and the mask decides.

All this holds for events with a single value in the attributes compared; with others the mask is
not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import IF_ABSENT, NEGATED, SET, TEXT
from tamis.encode.dictionary import Axis
from tamis.encode.ragged import list_numbers
from tamis.encode.rules import EncodedRules
from tamis.expr.event import FlatEvent, Kind
from tamis.expr.joins.predicate import Comparison, Every, Join, Quantifier
from tamis.expr.model import Op
from tamis.joins.ordered_index import AttributeIndex

__all__ = ["ProfileFilter", "compared_in_all_cases"]

_RULES_PER_SEARCH: Final = 1_000
"""A mask is computed after a search without a change for every so many rules."""


class _Constraints(NamedTuple):
    """What conjunctions need of one attribute of old documents, by one kind of comparison."""

    old: str
    op: Op
    conjunction: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    """The codes between which the rules confine the attribute of the new document."""


class ProfileFilter:
    """The rules of a segment that no event can satisfy, kept up to date as documents change.

    Parameters
    ----------
    rules
        The rules.
    joins
        The join predicates by the number of their attributes.

    Attributes
    ----------
    singles
        The attributes of an event that must have a single value, or else nothing follows.
    replaced
        The numbers of the join attributes that the mask replaces.
    """

    def __init__(self, rules: EncodedRules, joins: Mapping[int, Join]) -> None:
        self._rules = rules
        self._axes = rules.dictionary.axes
        self._by_new: dict[int, list[_Constraints]] = {}
        """By the number of the attribute of the new document, whose codes count."""
        self._counts: dict[tuple[str, int], NDArray[np.int64]] = {}
        """How many values of old documents have each code, by both attributes."""
        self._olds: dict[str, list[tuple[Axis, NDArray[np.int64]]]] = {}
        self._is_stale = True
        self._waited = 0
        """How many searches have come since the last change that matters."""
        self._patience = rules.size // _RULES_PER_SEARCH
        self._mask: NDArray[np.uint8] | None = None
        names = {number: name for name, number in rules.dictionary.attributes.items()}
        news: set[int] = set()
        replaced: set[int] = set()
        conjunction = list_numbers(rules.forms.conjunction_start)
        for number, join in joins.items():
            concerned = self._find_conjunctions(number, conjunction)
            if concerned is None or join.aggregate is not None:
                continue
            for comparison in compared_in_all_cases(join):
                found = self._constrain(comparison, concerned, conjunction)
                if found is None:
                    continue
                new, constraints = found
                news.add(new)
                self._by_new.setdefault(new, []).append(constraints)
                key = constraints.old, new
                if key not in self._counts:
                    self._counts[key] = np.zeros(self._axes[new].size, np.int64)
                    counted = self._axes[new], self._counts[key]
                    self._olds.setdefault(constraints.old, []).append(counted)
                if self._says_all(join, constraints, new, concerned):
                    replaced.add(number)
        self.singles = frozenset(names[new] for new in news)
        self.replaced = frozenset(replaced)

    def __bool__(self) -> bool:
        return bool(self._by_new)

    # --- Documents ---

    def fill(self, index: Callable[[str], AttributeIndex]) -> None:
        """Count the values of all documents."""
        for old, counted in self._olds.items():
            values = index(old).all_values()
            for axis, counts in counted:
                counts[:] = 0
                for codes in _codes_of(axis, values):
                    counts += np.bincount(codes, minlength=axis.size)
        self._is_stale = True

    def add(self, document: FlatEvent) -> None:
        """Count the values of a new document."""
        for old, counted in self._olds.items():
            for value in document.get(old, ()):
                for axis, counts in counted:
                    code = axis.code(value)
                    counts[code] += 1
                    self._note(counts[code] == 1)

    def remove(self, document: FlatEvent) -> None:
        """No longer count the values of a document."""
        for old, counted in self._olds.items():
            for value in document.get(old, ()):
                for axis, counts in counted:
                    code = axis.code(value)
                    counts[code] -= 1
                    self._note(counts[code] == 0)

    # --- Rules ---

    def is_ready(self) -> bool:
        """Whether `find_mask` knows the mask, or is worth its time; call it for each search.

        While many documents come that matter, a mask would be computed for each of them.
        """
        self._waited += 1
        return not self._is_stale or self._waited > self._patience

    def find_mask(self) -> NDArray[np.uint8] | None:
        """A mask of the rules that an event may satisfy, by place; None if it may be any.

        It never changes; call it with the documents' lock.
        """
        if self._is_stale:
            self._is_stale = False
            self._mask = self._compute_mask()
        return self._mask

    def count_ruled_out(self) -> int:
        """How many rules no event can satisfy now."""
        mask = self.find_mask()
        return 0 if mask is None else int(np.count_nonzero(mask == 0))

    def _note(self, matters: bool) -> None:
        if matters:
            self._is_stale, self._waited = True, 0

    def _compute_mask(self) -> NDArray[np.uint8] | None:
        forms = self._rules.forms
        count = len(forms.conjunction_start) - 1
        fails = np.zeros(count, np.bool_)
        for new, all_constraints in self._by_new.items():
            for constraints in all_constraints:
                holds = _can_hold(constraints, self._counts[constraints.old, new], self._axes[new])
                fails[constraints.conjunction[~holds]] = True
        if not fails.any():
            return None
        if not len(forms.owner):
            return (~fails).view(np.uint8)
        mask = np.zeros(self._rules.size, np.uint8)
        mask[forms.program_rule] = 1
        alive = ~fails[list_numbers(forms.owner_start)]
        mask[forms.owner[alive]] = 1
        # A rule without a conjunction or a program is FALSE.
        return None if mask.all() else mask

    def _find_conjunctions(
        self, number: int, conjunction: NDArray[np.int64]
    ) -> NDArray[np.int64] | None:
        """The conjunctions with a join predicate; None if it is negated or in a program."""
        forms, table = self._rules.forms, self._rules.atoms.table
        of_name = table[:, 0] == number
        if (table[of_name, 1] & (NEGATED | IF_ABSENT)).any():
            return None
        if len(forms.program) and of_name[forms.program[forms.program[:, 0] >= 0, 0]].any():
            return None
        return np.unique(conjunction[of_name[forms.conjunction_atom]])

    def _constrain(
        self, comparison: Comparison, concerned: NDArray[np.int64], conjunction: NDArray[np.int64]
    ) -> tuple[int, _Constraints] | None:
        """The constraints of all conjunctions that confine the attribute compared."""
        rules, atoms = self._rules, self._rules.atoms
        new = rules.dictionary.attributes.get(comparison.new)
        if new is None or comparison.negated or comparison.shift is not None:
            return None
        test = atoms.table[:, 1]
        says = (test & (NEGATED | IF_ABSENT) == 0) & (test & 3 != TEXT)
        says &= atoms.table[:, 0] == new
        entries = np.flatnonzero(says[rules.forms.conjunction_atom])
        entries = entries[np.isin(conjunction[entries], concerned)]
        if not len(entries):
            return None
        own, place = np.unique(conjunction[entries], return_inverse=True)
        rows = atoms.table[rules.forms.conjunction_atom[entries]]
        first, last = rows[:, 2].astype(np.int64), rows[:, 3].astype(np.int64)
        is_set = rows[:, 1] & 3 == SET
        first[is_set] = atoms.codes[rows[is_set, 2]]
        last[is_set] = atoms.codes[rows[is_set, 3] - 1]
        low = np.zeros(len(own), np.int64)
        high = np.full(len(own), self._axes[new].size - 1, np.int64)
        np.maximum.at(low, place, first)
        np.minimum.at(high, place, last)
        return new, _Constraints(comparison.old, comparison.op, own, low, high)

    def _says_all(
        self, join: Join, constraints: _Constraints, new: int, concerned: NDArray[np.int64]
    ) -> bool:
        """Whether the constraints say as much as the join predicate: Example 6.

        The mask has rules, so it cannot decide for one of several conjunctions of a rule.
        """
        forms = self._rules.forms
        if len(forms.owner):
            is_concerned = np.isin(list_numbers(forms.owner_start), concerned)
            if (np.bincount(forms.owner)[forms.owner[is_concerned]] > 1).any():
                return False
        is_alone = join.quantifier is Quantifier.EXISTS and isinstance(join.where, Comparison)
        is_point = (constraints.low == constraints.high) & _are_values(
            self._axes[new], constraints.low
        )
        return is_alone and len(constraints.conjunction) == len(concerned) and bool(is_point.all())


def compared_in_all_cases(join: Join) -> Iterator[Comparison]:
    """The comparisons that some document has to satisfy if a join predicate is true."""
    if join.quantifier is Quantifier.ALL:
        return
    if join.compared is not None:
        yield join.compared
    where = join.where
    for part in where.children if isinstance(where, Every) else (where,):
        if isinstance(part, Comparison):
            yield part


def _can_hold(
    constraints: _Constraints, counts: NDArray[np.int64], axis: Axis
) -> NDArray[np.bool_]:
    """Whether some document satisfies each constraint."""
    low, high, op = constraints.low, constraints.high, constraints.op
    occupied = counts > 0
    if op is Op.EQ:
        before = np.concatenate([[0], np.cumsum(occupied)])
        return np.asarray((low <= high) & (before[np.maximum(high, low - 1) + 1] > before[low]))
    holds = np.ones(len(low), np.bool_)
    for kind in Kind:
        first, last = axis.codes_of_kind(kind)
        within = (low >= first) & (high <= last)
        codes = np.flatnonzero(occupied[first : last + 1]) + first
        if not len(codes):
            holds[within] = False
        elif op in (Op.LT, Op.LE):
            # A document below the highest value that the rule allows.
            holds[within] = codes[0] <= high[within]
            if op is Op.LT:
                holds[within] &= ~((codes[0] == high[within]) & _are_values(axis, high[within]))
        else:
            holds[within] = codes[-1] >= low[within]
            if op is Op.GT:
                holds[within] &= ~((codes[-1] == low[within]) & _are_values(axis, low[within]))
    return holds & (low <= high)


def _are_values(axis: Axis, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each code stands for one value, and not for a gap between two."""
    is_value = np.zeros(len(codes), np.bool_)
    for kind in Kind:
        first, last = axis.codes_of_kind(kind)
        within = (codes >= first) & (codes <= last)
        is_value |= within if kind is Kind.BOOLEAN else within & ((codes - first) % 2 == 1)
    return is_value


def _codes_of(axis: Axis, values: Mapping[Kind, list[object]]) -> Iterator[NDArray[np.int64]]:
    """The codes of all values, block by block."""
    for kind, blocks in values.items():
        for block in blocks:
            if kind is Kind.TIMESTAMP:
                yield axis.codes_of_times(np.asarray(block, np.int64)).astype(np.int64)
            elif kind is Kind.BOOLEAN:
                yield axis.codes_of_booleans(np.asarray(block, np.bool_)).astype(np.int64)
            else:
                size = len(block)  # type: ignore[arg-type]  # an array or a list
                yield np.fromiter(map(axis.code, block), np.int64, size)  # type: ignore[call-overload]
