"""Kernels that test whether an atom or a program holds on an event.

An event is *loaded* into arrays indexed by attribute, so that a test finds its values in one step.
Unloading it clears only what loading touched.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import GOTO_TRUE, IF_ABSENT, NEGATED, RANGE, SET
from tamis.encode.kernel import kernel

__all__ = [
    "SEVERAL",
    "LoadedEvent",
    "atom_holds",
    "find_code",
    "load_event",
    "lower_bound",
    "new_loaded_event",
    "program_holds",
    "unload_event",
]


SEVERAL = -1
"""In place of the code of an attribute that has several values."""


class LoadedEvent(NamedTuple):
    """One event, ready to be tested. Belongs to one thread."""

    span: NDArray[np.int64]
    """For each attribute, where its entries in `Events.code` begin and end; equal if absent."""
    text: NDArray[np.uint8]
    """1 for each text predicate that a value satisfies."""


def new_loaded_event(attributes: int, texts: int) -> LoadedEvent:
    """Allocate a `LoadedEvent` that holds no event."""
    return LoadedEvent(np.zeros((attributes, 2), np.int64), np.zeros(texts, np.uint8))


@kernel
def load_event(events, row, loaded):
    """Load the event `row`."""
    attributes, span = events.attribute, loaded.span
    i = events.start[row]
    stop = events.start[row + 1]
    while i < stop:
        attribute = attributes[i]
        span[attribute, 0] = i
        i += 1
        while i < stop and attributes[i] == attribute:
            i += 1
        span[attribute, 1] = i
    for i in range(events.text_start[row], events.text_start[row + 1]):
        loaded.text[events.text[i]] = 1


@kernel
def unload_event(events, row, loaded):
    """Clear what `load_event` wrote."""
    attributes, span = events.attribute, loaded.span
    for i in range(events.start[row], events.start[row + 1]):
        span[attributes[i], 0] = 0
        span[attributes[i], 1] = 0
    for i in range(events.text_start[row], events.text_start[row + 1]):
        loaded.text[events.text[i]] = 0


@kernel
def lower_bound(codes, begin, end, code):
    """The place of the first of the rising codes[begin:end] that is not below `code`, or `end`."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_code(codes, begin, end, code):
    """The place of `code` in the rising codes[begin:end], or -1."""
    at = lower_bound(codes, begin, end, code)
    return at if at < end and codes[at] == code else -1


@kernel
def atom_holds(table, codes, event_code, span, text, atom):
    """Whether `atom` holds on the loaded event."""
    attribute = table[atom, 0]
    test = table[atom, 1]
    begin = span[attribute, 0]
    end = span[attribute, 1]
    if begin == end:
        return (test & IF_ABSENT) != 0
    low = table[atom, 2]
    high = table[atom, 3]
    satisfied = False
    if test & 3 == RANGE:
        for i in range(begin, end):
            if low <= event_code[i] <= high:
                satisfied = True
                break
    elif test & 3 == SET:
        for i in range(begin, end):
            if find_code(codes, low, high, event_code[i]) >= 0:
                satisfied = True
                break
    else:
        satisfied = text[low] != 0
    return satisfied != ((test & NEGATED) != 0)


@kernel
def program_holds(table, codes, event_code, span, text, instructions, start):
    """Whether the program at `start` holds on the loaded event."""
    at = 0
    while at >= 0:
        atom = instructions[start + at, 0]
        holds = atom_holds(table, codes, event_code, span, text, atom)
        at = instructions[start + at, 1 if holds else 2]
    return at == GOTO_TRUE
