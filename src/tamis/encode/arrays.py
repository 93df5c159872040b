"""The flat arrays that kernels read. A list of lists is a flat array and a `…_start` array.

Everything is numbered from 0: attributes, atoms, conjunctions, programs, text predicates, and
the rules in the order in which they were added.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "GOTO_FALSE",
    "GOTO_TRUE",
    "IF_ABSENT",
    "LONG",
    "NEGATED",
    "NO_DOUBLES",
    "NO_INT32",
    "NO_INT64",
    "NO_UINT8",
    "RANGE",
    "SET",
    "TEXT",
    "AtomArrays",
    "Choices",
    "DictionaryArrays",
    "Events",
    "FormArrays",
    "ScoreArrays",
    "TextArrays",
    "rows_between",
]

RANGE: Final = 0
SET: Final = 1
TEXT: Final = 2
"""How an atom is tested: by a range of codes, by a list of codes, or by its text id."""

NEGATED: Final = 4
IF_ABSENT: Final = 8
"""Flags, stored in the same word as the test."""

GOTO_TRUE: Final = -1
GOTO_FALSE: Final = -2
"""Jump targets that end a program."""

LONG: Final = 0xFFFF
"""In `DictionaryArrays.number_below`: the number is a decimal that has its digits elsewhere."""

NO_INT32: Final = np.empty(0, np.int32)
NO_INT64: Final = np.empty(0, np.int64)
NO_UINT8: Final = np.empty(0, np.uint8)
NO_DOUBLES: Final = np.empty(0, np.float64)


class AtomArrays(NamedTuple):
    """Each distinct atom, in terms of codes."""

    table: NDArray[np.int32]
    """A row for each atom: attribute, test and flags, low, high. They are stored together since
    they are read together."""
    codes: NDArray[np.int32]
    """The codes of all SET atoms, rising within each."""

    @property
    def attribute(self) -> NDArray[np.int32]:
        """The attribute's number."""
        return self.table[:, 0]

    @property
    def test(self) -> NDArray[np.int32]:
        """RANGE, SET or TEXT."""
        return self.table[:, 1] & 3

    @property
    def flags(self) -> NDArray[np.int32]:
        """NEGATED and IF_ABSENT."""
        return self.table[:, 1] & ~3

    @property
    def low(self) -> NDArray[np.int32]:
        """RANGE: the first code. SET: where its codes begin in `codes`. TEXT: its text id."""
        return self.table[:, 2]

    @property
    def high(self) -> NDArray[np.int32]:
        """RANGE: the last code. SET: where its codes end in `codes`."""
        return self.table[:, 3]


class FormArrays(NamedTuple):
    """How rules consist of atoms: as conjunctions, or as programs where those are too many."""

    conjunction_start: NDArray[np.int32]
    conjunction_atom: NDArray[np.int32]
    """The distinct atoms of each conjunction, in the order of the first rule with it. No two
    conjunctions have the same atoms, except for a few where conjunction i is rule i."""
    owner_start: NDArray[np.int64]
    owner: NDArray[np.int32]
    """The rules that each conjunction belongs to, rising. Both arrays are empty where conjunction i
    is rule i (`rule_forms.py`): then a match needs no look-up."""
    program_start: NDArray[np.int64]
    program: NDArray[np.int32]
    """A row for each instruction: an atom, and the next instruction of the program if it holds and
    if it does not; or GOTO_TRUE, or GOTO_FALSE."""
    program_rule: NDArray[np.int32]
    """The rule that each program is."""
    cover_start: NDArray[np.int64]
    cover_atom: NDArray[np.int32]
    """One of these atoms holds whenever the program does; empty where nothing covers it."""


class ScoreArrays(NamedTuple):
    """How each rule is scored: its tree in postfix order, before any simplification.

    All arrays are empty where conjunction i is rule i, no rule has weights, and the score of each
    is the sum over its conjunction's atoms from first to last.
    """

    start: NDArray[np.int64]
    code: NDArray[np.int32]
    """An atom, or for an operator with k operands -(2k + 1) (AND) or -(2k + 2) (OR)."""
    weights: NDArray[np.int32]
    """For an atom, where its weights begin in `weight`; -1 if they are all 1. Empty if all weights
    of all rules are 1."""
    weight: NDArray[np.float64]
    """One weight for a RANGE or TEXT atom, one for each code of a SET atom."""
    depth: int
    """The greatest number of operands on the stack."""


class DictionaryArrays(NamedTuple):
    """The attributes, and the values that rules mention for each of them.

    Numbers, strings and timestamps are each laid end to end, attribute after attribute, sorted and
    distinct within an attribute.
    """

    name_start: NDArray[np.int64]
    name: NDArray[np.uint8]
    """The names of the attributes, in UTF-8."""
    number_start: NDArray[np.int64]
    """Where each attribute's numbers begin; likewise for strings and timestamps."""
    number: NDArray[np.float64]
    """The least double that is not below the number."""
    number_below: NDArray[np.uint16]
    """How far the number lies below that double; empty if every number equals its double. LONG for
    a decimal that no integer or double equals: `long_place` has the place of each of these among
    all numbers, rising, and `long_text` its digits."""
    string_start: NDArray[np.int64]
    text_start: NDArray[np.int64]
    text: NDArray[np.uint8]
    """Each string, in UTF-8."""
    time_start: NDArray[np.int64]
    time: NDArray[np.int64]
    """Microseconds since 1970."""
    orders_strings: NDArray[np.uint8]
    """For each attribute, whether some rule does more with strings than test them for equality."""
    long_place: NDArray[np.int64] = NO_INT64
    long_start: NDArray[np.int64] = NO_INT64
    long_text: NDArray[np.uint8] = NO_UINT8


class TextArrays(NamedTuple):
    """The text predicates, by id."""

    attribute: NDArray[np.int32]
    start: NDArray[np.int64]
    text: NDArray[np.uint8]
    """The operator and its operands, as a JSON list of strings."""


class Events(NamedTuple):
    """Events in terms of codes, with the present attributes that some rule mentions."""

    start: NDArray[np.int64]
    attribute: NDArray[np.int32]
    """The entries of one attribute are adjacent within an event."""
    code: NDArray[np.int32]
    """One entry for each distinct value of the attribute."""
    text_start: NDArray[np.int64]
    text: NDArray[np.int32]
    """The text predicates that the event satisfies, by id."""
    weight: NDArray[np.float64]
    """The weight of each entry; empty if all weights are 1."""
    text_weight: NDArray[np.float64]
    """For each of `text`, the sum of the weights of the values that satisfy it."""


class Choices(NamedTuple):
    """The codes that an event expression leaves open; see `tamis.encode.event_expressions`.

    An entry is a range of codes of which the attribute has one, or a listed string.
    """

    span: NDArray[np.int64]
    """Where the entries of each attribute begin and end; equal if it is absent."""
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    """The first and the last code of each entry; both are possible."""
    is_endless: NDArray[np.uint8]
    """Whether text predicates may hold on some of an entry's values and not on others."""
    text_start: NDArray[np.int64]
    text: NDArray[np.int32]
    """The text predicates that an entry satisfies, by id, rising; where it is not endless."""
    hollow_span: NDArray[np.int64]
    hollow: NDArray[np.int32]
    """For each attribute of the event, the codes that no value has, rising: gaps without room."""
    present: NDArray[np.int32]
    """The attributes with entries."""


def rows_between(events: Events, first: int, last: int) -> Events:
    """The events from `first` up to, not including, `last`."""
    return events._replace(
        start=events.start[first : last + 1], text_start=events.text_start[first : last + 1]
    )
