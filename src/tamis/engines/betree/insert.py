"""Insertion, space partitioning and space clustering (Algorithms 3 to 6).

The paper's procedures call each other. Here a c-node that overflows waits on a stack and is
relieved step by step; the result is the same, since the l-nodes do not depend on each other. A
split bucket gets the c-node of a half when the first expression goes there.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel
from tamis.engines.betree.arrays import (
    ATTRIBUTE,
    CAPACITY,
    EMPTY,
    HEADER,
    HIGH,
    LEAF,
    LEFT,
    LENGTH,
    LEVEL,
    LIMBO,
    LIMBO_END,
    LIMBO_HEADER,
    LOW,
    MAX_CAP,
    NOWHERE,
    PARTITIONS,
    PENDING,
    RANK,
    RIGHT,
    ROOT,
    SIZE,
    SLOTS,
    TOP,
    TOTAL,
    UNSPLIT,
    USED,
)
from tamis.engines.betree.cost_model import (
    best_attribute,
    clear_tallies,
    count_attributes,
    exposure_at,
    has_learned,
    propagate,
)
from tamis.engines.betree.expressions import (
    attribute_of,
    interval_on,
    is_partitionable,
    predicate_length,
    subsume,
    unsubsume_all,
)
from tamis.engines.betree.pools import (
    block_size,
    enqueue_overflow,
    find_partition,
    fit_leaf,
    half_bounds,
    half_of,
    lacks_room,
    new_pnode,
    widen_bounds,
)

__all__ = ["append_expression", "place_next", "relieve_next", "update_capacity"]

_STAY, _GO_LEFT, _GO_RIGHT = 0, 1, 2


# --- Insertion --------------------------------------------------------------------------


@kernel
def _best_partition(nodes, books, c, word, entry, avoid):
    """The p-node of a c-node that an expression should go to, or NOWHERE.

    The highest-ranked one; once events were observed, the one that they reach least often.
    """
    best, best_score = NOWHERE, 0.0
    learned = has_learned(books)
    at, end = entry + HEADER, entry + word[entry + LENGTH]
    while at < end:
        attribute = attribute_of(word, at)
        if is_partitionable(word, at) and attribute != avoid:
            p = find_partition(nodes.cnode, nodes.slot, c, attribute)
            if p != NOWHERE:
                score = -exposure_at(books, word, at) if learned else books.prank[p, RANK]
                if best == NOWHERE or score > best_score:
                    best, best_score = p, score
        at += predicate_length(word, at)
    return best


@kernel
def _find_or_create_partition(nodes, books, attribute):
    """The p-node for an attribute at the root, created if missing."""
    p = find_partition(nodes.cnode, nodes.slot, ROOT, attribute)
    return new_pnode(nodes, books, ROOT, attribute) if p == NOWHERE else p


@kernel
def _side(cnode, c, low, high):
    """Which half of a bucket encloses an interval, if any."""
    middle = (cnode[c, LOW] + cnode[c, HIGH]) >> 1
    if high <= middle:
        return _GO_LEFT
    return _GO_RIGHT if low > middle else _STAY


@kernel
def _home_bucket(nodes, books, top, low, high):
    """The smallest bucket below `top` that encloses an interval (InsertCDir)."""
    cnode = nodes.cnode
    c = top
    while cnode[c, LEFT] != UNSPLIT:
        side = _side(cnode, c, low, high)
        if side == _STAY:
            break
        c = half_of(nodes, books, c, side == _GO_RIGHT)
    return c


@kernel
def append_expression(nodes, books, c, word, entry):
    """Copy an expression into an l-node that has room for it; returns its place."""
    cnode, length = nodes.cnode, word[entry + LENGTH]
    at = cnode[c, LEAF] + cnode[c, USED]
    for i in range(length):
        nodes.word[at + i] = word[entry + i]
    cnode[c, USED] += length
    cnode[c, SIZE] += 1
    books.home[word[entry]] = c
    return at


@kernel
def place_next(nodes, books):
    """Insert the next expression from limbo; False if room is lacking.

    Creates the partition for its preferred attribute and the c-node for the half that is its home
    where they are missing.
    """
    cnode, state, limbo = nodes.cnode, books.state, books.limbo
    first = state[LIMBO]
    avoid, preferred, entry = limbo[first], limbo[first + 1], first + LIMBO_HEADER
    length = limbo[entry + LENGTH]
    if lacks_room(nodes, books, 0, 2 * cnode[ROOT, SLOTS] + 4, 0):
        return False
    c = ROOT
    while cnode[c, PARTITIONS] > 0 or (c == ROOT and preferred != NOWHERE):
        if c == ROOT and preferred != NOWHERE:
            p = _find_or_create_partition(nodes, books, preferred)
        else:
            p = _best_partition(nodes, books, c, limbo, entry, avoid)
            if p == NOWHERE and avoid != NOWHERE:
                p = find_partition(cnode, nodes.slot, c, avoid)
        if p == NOWHERE:
            break
        top = nodes.pnode[p, TOP]
        attribute = cnode[top, ATTRIBUTE]
        low, high = interval_on(limbo, entry, attribute, books.codes[attribute])
        c = _home_bucket(nodes, books, top, low, high)
        widen_bounds(nodes, c, low, high)
        subsume(limbo, entry, attribute, cnode[c, LOW], cnode[c, HIGH])
    if lacks_room(nodes, books, block_size(cnode[c, USED] + length), 0, 0):
        unsubsume_all(limbo, entry)
        return False
    fit_leaf(nodes, books, c, cnode[c, USED] + length)
    append_expression(nodes, books, c, limbo, entry)
    propagate(nodes, books, c, 1, cnode[c, LEVEL], 1)
    enqueue_overflow(nodes, books, c)
    state[LIMBO] += LIMBO_HEADER + length
    if state[LIMBO] == state[LIMBO_END]:
        state[LIMBO], state[LIMBO_END] = 0, 0
    return True


# --- Relief -----------------------------------------------------------------------------


@kernel
def update_capacity(nodes, books, c):
    """Set the capacity of an l-node to the next multiple of the maximum capacity."""
    cnode, most = nodes.cnode, books.state[MAX_CAP]
    cnode[c, CAPACITY] = max((cnode[c, SIZE] + most - 1) // most, 1) * most


@kernel
def _extend(nodes, books, c):
    """Raise the capacity of an l-node that cannot be partitioned.

    It grows in proportion to its size: looking for an attribute in vain takes time in proportion to
    the expressions, so it must not happen at fixed intervals.
    """
    cnode = nodes.cnode
    cnode[c, CAPACITY] = cnode[c, SIZE] + max(books.state[MAX_CAP], cnode[c, SIZE] // 4)


@kernel
def _count_enclosed_words(nodes, books, c, attribute, low, high):
    """How many words the expressions of an l-node have that the bucket low..high encloses."""
    cnode, word, codes = nodes.cnode, nodes.word, books.codes[attribute]
    at, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
    words = 0
    while at < end:
        first, last = interval_on(word, at, attribute, codes)
        if low <= first and last <= high:
            words += word[at + LENGTH]
        at += word[at + LENGTH]
    return words


@kernel
def _move_enclosed(nodes, books, c, target, words):
    """Move the expressions that the bucket of `target` encloses from `c` to the empty `target`.

    They have `words` words in all.
    """
    cnode, word = nodes.cnode, nodes.word
    attribute, low, high = cnode[target, ATTRIBUTE], cnode[target, LOW], cnode[target, HIGH]
    codes = books.codes[attribute]
    fit_leaf(nodes, books, target, words)
    at = kept = cnode[c, LEAF]
    end = at + cnode[c, USED]
    while at < end:
        length = word[at + LENGTH]
        first, last = interval_on(word, at, attribute, codes)
        if low <= first and last <= high:
            moved = append_expression(nodes, books, target, word, at)
            nodes.bound[target, 0] = min(nodes.bound[target, 0], first)
            nodes.bound[target, 1] = max(nodes.bound[target, 1], last)
            subsume(word, moved, attribute, low, high)
            cnode[c, SIZE] -= 1
        else:
            _shift(word, at, kept, length)
            kept += length
        at += length
    cnode[c, USED] = kept - cnode[c, LEAF]
    cnode[target, TOTAL] = cnode[target, SIZE]
    books.crank[target, RANK] = cnode[target, SIZE] * cnode[target, LEVEL]


@kernel
def _shift(word, at, to, length):
    if to < at:
        for i in range(length):
            word[to + i] = word[at + i]


@kernel
def _split(nodes, books, c):
    """Split a bucket into halves, and move the expressions that they enclose."""
    cnode, attribute = nodes.cnode, nodes.cnode[c, ATTRIBUTE]
    cnode[c, LEFT], cnode[c, RIGHT] = EMPTY, EMPTY
    for is_right in (False, True):
        low, high = half_bounds(cnode, c, is_right)
        words = _count_enclosed_words(nodes, books, c, attribute, low, high)
        if words > 0:
            _move_enclosed(nodes, books, c, half_of(nodes, books, c, is_right), words)
    fit_leaf(nodes, books, c, cnode[c, USED])
    for half in (cnode[c, LEFT], cnode[c, RIGHT]):
        if half != EMPTY:
            enqueue_overflow(nodes, books, half)


@kernel
def _move_partition(nodes, books, c, attribute):
    """Create a partition for an attribute, and move the expressions with a predicate on it."""
    p = new_pnode(nodes, books, c, attribute)
    cnode, top = nodes.cnode, nodes.pnode[p, TOP]
    words = _count_enclosed_words(nodes, books, c, attribute, cnode[top, LOW], cnode[top, HIGH])
    _move_enclosed(nodes, books, c, top, words)
    books.prank[p, RANK] = books.crank[top, RANK]
    propagate(nodes, books, c, 0, cnode[top, SIZE], 0)
    enqueue_overflow(nodes, books, top)


@kernel
def _partition(nodes, books, c):
    """Partition an l-node by its best attribute; if there is none, raise its capacity."""
    cnode = nodes.cnode
    touched = count_attributes(nodes, books, c)
    attribute = best_attribute(books, touched)
    if attribute == NOWHERE:
        _extend(nodes, books, c)
    else:
        _move_partition(nodes, books, c, attribute)
        fit_leaf(nodes, books, c, cnode[c, USED])
        if cnode[c, SIZE] <= cnode[c, CAPACITY]:
            update_capacity(nodes, books, c)
    clear_tallies(books, touched)


@kernel
def relieve_next(nodes, books):
    """Take one step to relieve the last pending c-node; False if room is lacking."""
    cnode, state = nodes.cnode, books.state
    c = books.pending[state[PENDING] - 1]
    if cnode[c, SIZE] <= cnode[c, CAPACITY]:
        state[PENDING] -= 1
        return True
    if lacks_room(nodes, books, 4 * block_size(cnode[c, USED]), 2 * cnode[c, SLOTS] + 4, 0):
        return False
    is_whole = c != ROOT and cnode[c, LEFT] == UNSPLIT and cnode[c, LOW] < cnode[c, HIGH]
    # `c` stays on the stack until it no longer overflows; what is pushed above it comes first.
    if is_whole:
        _split(nodes, books, c)
    else:
        _partition(nodes, books, c)
    return True
