"""Merges posting lists in the order of their current entries, with skipping (Algorithm 1).

The lists that an event chooses are *opened* one partition at a time. If the first K lists do not
stand at the same thing, nothing before the thing of the Kth list can be in K lists, so all of them
skip to it. `dnf.py` and `cnf.py` decide what to do with a thing that is in K lists.

Ranking skips further, as WAND does: a thing is scored at most the sum of the bounds of the lists up
to it. If the sum up to the Kth list is below the floor, lists are added until it is not, and all of
them skip to the last one added. If that never happens, nothing is left in the partition.

A *head* is a list's current entry, with the list's number among the open ones in its lower bits, so
that the order of heads is that of lists. The lists that a step looks at, the *front*, are sorted;
the others are in a heap. A list that skips takes the place of the heap's first one if it comes
after it. A list at its end is dropped.

`trace_lists` is called at each step. It does nothing and is compiled away; tests replace it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.encode.arrays.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.kernel import kernel
from tamis.engines.kernels.scores import ROUNDING
from tamis.engines.papers.kindex.postings import PostingArrays

__all__ = [
    "NO_FLOOR",
    "Cursors",
    "bound_partition",
    "bound_thing",
    "choose_lists",
    "is_below",
    "new_cursors",
    "open_lists",
    "skip_to_common",
    "slot_of",
    "stands_in",
    "thing_of",
    "trace_lists",
]

_SHIFT = 32
_SLOT = (1 << _SHIFT) - 1
NO_FLOOR = -1.0
"""A floor below all scores, so that nothing is pruned."""


class Cursors(NamedTuple):
    """The chosen lists of one event, and where they stand. Belongs to one thread."""

    place: NDArray[np.int32]
    """For each posting list, 1 plus its place among the chosen ones if it was chosen for an
    attribute with several values; else 0."""
    chosen: NDArray[np.int32]
    """The chosen lists."""
    weight: NDArray[np.float64]
    """The event's weight of the key of each, summed over the values under it."""
    start: NDArray[np.int64]
    order: NDArray[np.int32]
    """The places of the chosen lists by partition, and where those of each partition begin."""
    at: NDArray[np.int64]
    stop: NDArray[np.int64]
    """The place of each open list, and where it ends."""
    factor: NDArray[np.float64]
    """The event's weight of the key of each open list."""
    worth: NDArray[np.float64]
    """The most that the key of each open list adds to a score: UB times the event's weight."""
    head: NDArray[np.int64]
    """The heads of the front, rising."""
    heap: NDArray[np.int64]
    """The heads of the other open lists; those at 2i + 1 and 2i + 2 are not below the one at i."""
    heaviest: NDArray[np.float64]
    """Room for the K highest worths in a partition."""


def new_cursors(postings: PostingArrays) -> Cursors:
    """Allocate cursors that hold no event."""
    lists = len(postings.partition)
    return Cursors(
        np.zeros(lists, np.int32),
        np.empty(lists, np.int32),
        np.empty(lists, np.float64),
        np.zeros(len(postings.size) + 1, np.int64),
        np.empty(lists, np.int32),
        np.empty(lists, np.int64),
        np.empty(lists, np.int64),
        np.empty(lists, np.float64),
        np.empty(lists, np.float64),
        np.empty(lists, np.int64),
        np.empty(lists, np.int64),
        np.empty(int(postings.size.max(initial=0)) + 1, np.float64),
    )


@kernel
def trace_lists(cursors, partition, front, rest, needed, bound):
    """Called when the first lists of a partition are known; `bound` is -1 if none was computed."""


@kernel
def thing_of(head):
    """The thing at which a list stands."""
    return head >> (_SHIFT + 1)


@kernel
def stands_in(head):
    """Whether a list's current entry is a ∈."""
    return (head >> _SHIFT) & 1 == 1


@kernel
def slot_of(head):
    """The number of a list among the open ones."""
    return head & _SLOT


@kernel
def _choose(postings, cursors, key, weight, several, count):
    """Choose the lists of a key; returns how many lists are chosen now."""
    for number in range(postings.list_start[key], postings.list_start[key + 1]):
        if several:
            if cursors.place[number]:
                cursors.weight[cursors.place[number] - 1] += weight
                continue
            cursors.place[number] = count + 1
        cursors.chosen[count] = number
        cursors.weight[count] = weight
        count += 1
    return count


@kernel
def choose_lists(postings, events, row, loaded, cursors):
    """Choose the lists of all keys of the loaded event.

    Returns whether an attribute has several values. Then a thing may be in K lists although not all
    of its predicates are satisfied.
    """
    count = 0
    any_several = False
    zero = len(postings.list_start) - 2
    count = _choose(postings, cursors, zero, 0.0, False, count)
    for i in range(events.start[row], events.start[row + 1]):
        attribute = events.attribute[i]
        several = loaded.span[attribute, 1] - loaded.span[attribute, 0] > 1
        any_several |= several
        weight = events.weight[i] if len(events.weight) else 1.0
        node = postings.axis_size[attribute] + events.code[i]
        while node > 0:
            key = postings.node_base[attribute] + node
            count = _choose(postings, cursors, key, weight, several, count)
            node >>= 1
    for i in range(events.text_start[row], events.text_start[row + 1]):
        weight = events.text_weight[i] if len(events.text_weight) else 1.0
        key = postings.first_text + events.text[i]
        count = _choose(postings, cursors, key, weight, False, count)
    for attribute in postings.null_attribute:
        if loaded.span[attribute, 0] == loaded.span[attribute, 1]:
            key = postings.node_base[attribute] + postings.axis_size[attribute]
            count = _choose(postings, cursors, key, 0.0, False, count)
    _sort_by_partition(postings.partition, cursors, count)
    return any_several


@kernel
def _sort_by_partition(partition, cursors, count):
    """Sort the chosen lists by partition, and clear their marks."""
    start = cursors.start
    start[:] = 0
    for i in range(count):
        start[partition[cursors.chosen[i]]] += 1
        cursors.place[cursors.chosen[i]] = 0
    total = 0
    for i in range(len(start)):
        total += start[i]
        start[i] = total
    for i in range(count):
        of = partition[cursors.chosen[i]]
        start[of] -= 1
        cursors.order[start[of]] = i


@kernel
def open_lists(postings, cursors, partition):
    """Open the chosen lists of a partition; returns how many there are, all outside the front."""
    first = cursors.start[partition]
    count = cursors.start[partition + 1] - first
    for slot in range(count):
        place = cursors.order[first + slot]
        number = cursors.chosen[place]
        at = postings.entry_start[number]
        cursors.at[slot] = at
        cursors.stop[slot] = postings.entry_start[number + 1]
        cursors.factor[slot] = cursors.weight[place]
        cursors.worth[slot] = postings.bound[number] * cursors.weight[place]
        cursors.heap[slot] = (np.int64(postings.entry[at]) << _SHIFT) | slot
    for at in range(count // 2 - 1, -1, -1):
        _sink(cursors.heap, count, at, cursors.heap[at])
    return count


@kernel
def _sink(heap, size, at, head):
    """Put a head into the heap at `at` or below."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= head:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = head


@kernel
def _take_next(heads, front, heap, rest):
    """Move the first list of the heap to the end of the front."""
    heads[front] = heap[0]
    if rest > 1:
        _sink(heap, rest - 1, 0, heap[rest - 1])


@kernel
def _skip_to(entry, at, stop, target):
    """The first place from `at` on, below `stop`, whose entry is not below `target`.

    Gallops: steps double until they pass the target; a binary search follows.
    """
    step = 1
    while at + step < stop and entry[at + step] < target:
        at += step
        step <<= 1
    low, high = at, min(at + step, stop)
    while low < high:
        middle = (low + high) >> 1
        if entry[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _skip_front(entry, at, stop, heads, front, heap, rest, target):
    """Skip the lists of the front that are before `target`.

    Returns how many lists are in the front, which stays sorted, and in the heap.
    """
    kept = 0
    for i in range(front):
        head = heads[i]
        if head >> _SHIFT < target:
            slot = head & _SLOT
            place = _skip_to(entry, at[slot], stop[slot], target)
            at[slot] = place
            if place < stop[slot]:
                head = (np.int64(entry[place]) << _SHIFT) | slot
                if rest > 0 and heap[0] < head:
                    first = heap[0]
                    _sink(heap, rest, 0, head)
                    head = first
            elif rest > 0:
                head = heap[0]
                rest -= 1
                if rest > 0:
                    _sink(heap, rest, 0, heap[rest])
            else:
                continue
        to = kept
        while to > 0 and heads[to - 1] > head:
            heads[to] = heads[to - 1]
            to -= 1
        heads[to] = head
        kept += 1
    return kept, rest


@kernel
def is_below(bound, floor):
    """Whether a score of at most `bound` is certainly below `floor`."""
    return bound * ROUNDING < floor


@kernel
def skip_to_common(entry, cursors, partition, front, rest, target, needed, floor):
    """Skip until at least the first `needed` lists stand at the same thing.

    All lists first skip to the entry `target`. Unless `floor` is NO_FLOOR, things that certainly
    score below it are skipped: the paper's first pruning technique. Returns how many lists are in
    the front and outside of it, and how many lists stand at the thing, which is 0 at the end.
    """
    at, stop, heads, heap = cursors.at, cursors.stop, cursors.head, cursors.heap
    while True:
        front, rest = _skip_front(entry, at, stop, heads, front, heap, rest, target)
        while front < needed and rest > 0:
            _take_next(heads, front, heap, rest)
            front += 1
            rest -= 1
        if front < needed:
            return front, rest, 0
        pivot = heads[needed - 1] >> (_SHIFT + 1)
        while rest > 0 and heap[0] >> (_SHIFT + 1) <= pivot:
            _take_next(heads, front, heap, rest)
            front += 1
            rest -= 1
        lists = needed
        while lists < front and heads[lists] >> (_SHIFT + 1) == pivot:
            lists += 1
        bound = NO_FLOOR
        if floor != NO_FLOOR:
            bound = 0.0
            for i in range(lists):
                bound += cursors.worth[heads[i] & _SLOT]
        trace_lists(cursors, partition, front, rest, needed, bound)
        if floor != NO_FLOOR and is_below(bound, floor):
            while is_below(bound, floor):
                if lists == front:
                    if rest == 0:
                        return front, rest, 0
                    _take_next(heads, front, heap, rest)
                    front += 1
                    rest -= 1
                bound += cursors.worth[heads[lists] & _SLOT]
                lists += 1
            target = 2 * (heads[lists - 1] >> (_SHIFT + 1))
        elif heads[0] >> (_SHIFT + 1) == pivot:
            return front, rest, lists
        else:
            target = 2 * pivot


@kernel
def bound_thing(postings, cursors, lists):
    """The most that the thing at which the first `lists` lists stand scores, by its entries."""
    total = 0.0
    for i in range(lists):
        slot = cursors.head[i] & _SLOT
        if len(postings.weight):
            total += postings.weight[cursors.at[slot]] * cursors.factor[slot]
        elif stands_in(cursors.head[i]):
            total += cursors.factor[slot]
    return total


@kernel
def bound_partition(cursors, count, size, several):
    """The most that a thing of the open partition scores: the second pruning technique.

    A thing of size K has ∈ in K lists, so it scores no more than the K highest worths, or than all
    worths if an attribute has several values.
    """
    total = 0.0
    kept = 0
    for slot in range(count if size else 0):
        worth = cursors.worth[slot]
        if several:
            total += worth
            continue
        if kept < size:
            kept += 1
        elif worth <= cursors.heaviest[kept - 1]:
            continue
        i = kept - 1
        while i > 0 and cursors.heaviest[i - 1] < worth:
            cursors.heaviest[i] = cursors.heaviest[i - 1]
            i -= 1
        cursors.heaviest[i] = worth
    for i in range(kept):
        total += cursors.heaviest[i]
    return total
