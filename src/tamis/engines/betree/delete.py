"""Deletion, merging and recycling.

The paper searches for an expression to delete; here each expression knows its c-node. An l-node
underflows when it has fewer expressions than a partition must have. The merge rule then says where
they go. Two halves are merged into their bucket if none of the three is partitioned or split
further and everything fits. The last expressions of a p-node are inserted into the tree again.
Empty nodes are removed, up to the root.

A bucket takes back both of its halves or none: if it took back only one, it would keep expressions
whose smallest bucket is that half.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel
from tamis.engines.betree.arrays import (
    ATTRIBUTE,
    DIRECTORY,
    EMPTY,
    HIGH,
    LEAF,
    LEFT,
    LENGTH,
    LEVEL,
    LIMBO_END,
    LIMBO_HEADER,
    LOW,
    MAX_CAP,
    MIN_SIZE,
    NOWHERE,
    OWNER,
    P_ATTRIBUTE,
    PARENT,
    PARTITIONS,
    RANK,
    RECYCLED,
    RETIRED,
    RIGHT,
    ROOT,
    SIZE,
    SLOTS,
    TOP,
    TOTAL,
    UNDERFLOW,
    UNSPLIT,
    USED,
    WHOLE,
)
from tamis.engines.betree.cost_model import count_uses, find_least_exposed, has_learned, propagate
from tamis.engines.betree.expressions import unsubsume, unsubsume_all
from tamis.engines.betree.insert import append_expression, update_capacity
from tamis.engines.betree.pools import block_size, fit_leaf, free_cnode, free_pnode, lacks_room

__all__ = ["recycle_next", "remove_expression", "tidy_next"]


@kernel
def remove_expression(nodes, books, number):
    """Remove an expression from its l-node, which may then underflow."""
    cnode, word = nodes.cnode, nodes.word
    c = books.home[number]
    books.home[number] = NOWHERE
    at = cnode[c, LEAF]
    while word[at] != number:
        at += word[at + LENGTH]
    count_uses(books, word, at, -1)
    length, end = word[at + LENGTH], cnode[c, LEAF] + cnode[c, USED]
    for i in range(at, end - length):
        word[i] = word[i + length]
    cnode[c, USED] -= length
    cnode[c, SIZE] -= 1
    propagate(nodes, books, c, -1, -cnode[c, LEVEL], 1)
    books.state[UNDERFLOW] = c


# --- Underflow --------------------------------------------------------------------------


@kernel
def _is_open_leaf(cnode, c):
    """Whether a half is empty, or neither split nor partitioned."""
    return c == EMPTY or (cnode[c, LEFT] == UNSPLIT and cnode[c, PARTITIONS] == 0)


@kernel
def _can_fold(cnode, state, bucket):
    """Whether the halves of a bucket may be merged with it."""
    return (
        cnode[bucket, PARTITIONS] == 0
        and cnode[bucket, TOTAL] <= state[MAX_CAP]
        and _is_open_leaf(cnode, cnode[bucket, LEFT])
        and _is_open_leaf(cnode, cnode[bucket, RIGHT])
    )


@kernel
def _fold_half(nodes, books, bucket, half):
    cnode, word = nodes.cnode, nodes.word
    attribute, low, high = cnode[half, ATTRIBUTE], cnode[half, LOW], cnode[half, HIGH]
    at, end = cnode[half, LEAF], cnode[half, LEAF] + cnode[half, USED]
    while at < end:
        moved = append_expression(nodes, books, bucket, word, at)
        unsubsume(word, moved, attribute, low, high)
        at += word[at + LENGTH]
    _drop_cnode(nodes, books, half)


@kernel
def _fold(nodes, books, bucket):
    """Merge the halves of a bucket with it."""
    cnode = nodes.cnode
    used = cnode[bucket, USED]
    halves = cnode[bucket, LEFT], cnode[bucket, RIGHT]
    for half in halves:
        used += cnode[half, USED] if half != EMPTY else 0
    fit_leaf(nodes, books, bucket, used)
    for half in halves:
        if half != EMPTY:
            count = cnode[half, SIZE]
            _fold_half(nodes, books, bucket, half)
            propagate(nodes, books, bucket, count, count * cnode[bucket, LEVEL], 0)
    cnode[bucket, LEFT], cnode[bucket, RIGHT] = UNSPLIT, UNSPLIT
    update_capacity(nodes, books, bucket)


@kernel
def _drop_cnode(nodes, books, c):
    """Remove a c-node that is a half, and subtract it from the books above."""
    cnode = nodes.cnode
    bucket = cnode[c, PARENT]
    propagate(nodes, books, bucket, -cnode[c, TOTAL], -books.crank[c, RANK], 0)
    cnode[bucket, LEFT if cnode[bucket, LEFT] == c else RIGHT] = EMPTY
    free_cnode(nodes, books, c)


@kernel
def _drop_pnode(nodes, books, p):
    """Remove a p-node that has only its top c-node; returns its owner."""
    cnode, pnode = nodes.cnode, nodes.pnode
    owner, top = pnode[p, OWNER], pnode[p, TOP]
    propagate(nodes, books, owner, -cnode[top, TOTAL], -books.prank[p, RANK], 0)
    free_cnode(nodes, books, top)
    free_pnode(nodes, books, p)
    return owner


@kernel
def _move_to_limbo(nodes, books, c, avoid):
    """Move all expressions of an l-node to limbo."""
    cnode, word, limbo = nodes.cnode, nodes.word, books.limbo
    at, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
    to = books.state[LIMBO_END]
    while at < end:
        length = word[at + LENGTH]
        limbo[to], limbo[to + 1] = avoid, NOWHERE
        if has_learned(books):
            limbo[to] = NOWHERE
            limbo[to + 1] = find_least_exposed(books, word, at)[0]
        to += LIMBO_HEADER
        for i in range(length):
            limbo[to + i] = word[at + i]
        # In limbo no predicate is subsumed.
        unsubsume_all(limbo, to)
        books.home[word[at]] = NOWHERE
        at += length
        to += length
    books.state[LIMBO_END] = to
    cnode[c, USED] = 0
    cnode[c, SIZE] = 0


@kernel
def tidy_next(nodes, books):
    """Take one step to merge or remove what underflows; False if room is lacking."""
    cnode, state = nodes.cnode, books.state
    c = state[UNDERFLOW]
    state[UNDERFLOW] = NOWHERE
    if cnode[c, LEFT] == EMPTY and cnode[c, RIGHT] == EMPTY and cnode[c, PARTITIONS] == 0:
        cnode[c, LEFT], cnode[c, RIGHT] = UNSPLIT, UNSPLIT
    update_capacity(nodes, books, c)
    if c == ROOT or not _is_open_leaf(cnode, c) or cnode[c, SIZE] >= state[MIN_SIZE]:
        return True
    above = cnode[c, PARENT]
    if above < 0:
        owner = nodes.pnode[~above, OWNER]
        limbo = cnode[c, USED] + LIMBO_HEADER * cnode[c, SIZE]
        if lacks_room(nodes, books, 0, 2 * cnode[owner, SLOTS] + 4, limbo):
            state[UNDERFLOW] = c
            return False
        count = cnode[c, SIZE]
        _move_to_limbo(nodes, books, c, NOWHERE)
        propagate(nodes, books, c, -count, -count * cnode[c, LEVEL], 0)
        state[UNDERFLOW] = _drop_pnode(nodes, books, ~above)
    elif _can_fold(cnode, state, above):
        if lacks_room(nodes, books, 2 * block_size(_words_below(cnode, above)), 0, 0):
            state[UNDERFLOW] = c
            return False
        _fold(nodes, books, above)
        state[UNDERFLOW] = above
    elif cnode[c, SIZE] == 0:
        _drop_cnode(nodes, books, c)
        state[UNDERFLOW] = above
    return True


@kernel
def _words_below(cnode, bucket):
    """How many words a bucket and its halves use."""
    used = cnode[bucket, USED]
    for half in (cnode[bucket, LEFT], cnode[bucket, RIGHT]):
        used += cnode[half, USED] if half != EMPTY else 0
    return used


# --- Recycling --------------------------------------------------------------------------


@kernel
def _list_below(nodes, books, top):
    """Write `top` and the c-nodes below it to `pending`, each before those below it."""
    cnode, pnode, slot, found = nodes.cnode, nodes.pnode, nodes.slot, books.pending
    found[0] = top
    size, done = 1, 0
    while done < size:
        c = found[done]
        done += 1
        for half in (cnode[c, LEFT], cnode[c, RIGHT]):
            if half > EMPTY:
                found[size] = half
                size += 1
        first = cnode[c, DIRECTORY]
        for i in range(first, first + cnode[c, SLOTS]):
            if slot[i, 0] != NOWHERE:
                found[size] = pnode[slot[i, 1], TOP]
                size += 1
    return size


@kernel
def _empty_pnode(nodes, books, p):
    """Move all expressions below a p-node to limbo, and remove it; False if room is lacking."""
    cnode, pnode, state, below = nodes.cnode, nodes.pnode, books.state, books.pending
    owner, top, attribute = pnode[p, OWNER], pnode[p, TOP], pnode[p, P_ATTRIBUTE]
    size = _list_below(nodes, books, top)
    words, slots = 0, 2 * cnode[owner, SLOTS] + 4
    for i in range(size):
        words += cnode[below[i], USED] + LIMBO_HEADER * cnode[below[i], SIZE]
        slots += 2 * cnode[below[i], SLOTS] + 4
    if lacks_room(nodes, books, 0, slots, words):
        return False
    propagate(nodes, books, owner, -cnode[top, TOTAL], -books.prank[p, RANK], 0)
    for i in range(size - 1, -1, -1):
        c = below[i]
        _move_to_limbo(nodes, books, c, attribute)
        above = cnode[c, PARENT]
        free_cnode(nodes, books, c)
        if above < 0:
            free_pnode(nodes, books, ~above)
    state[UNDERFLOW] = owner
    return True


@kernel
def _empty_cnode(nodes, books, c):
    """Move all expressions in and below a half to limbo, and remove it; False if room is lacking.

    The c-node of a bucket that spans all codes goes with its p-node.
    """
    cnode, below = nodes.cnode, books.pending
    bucket = cnode[c, PARENT]
    if bucket < 0:
        return _empty_pnode(nodes, books, ~bucket)
    size = _list_below(nodes, books, c)
    words, slots = 0, 0
    for i in range(size):
        words += cnode[below[i], USED] + LIMBO_HEADER * cnode[below[i], SIZE]
        slots += 2 * cnode[below[i], SLOTS] + 4
    if lacks_room(nodes, books, 0, slots, words):
        return False
    propagate(nodes, books, bucket, -cnode[c, TOTAL], -books.crank[c, RANK], 0)
    cnode[bucket, LEFT if cnode[bucket, LEFT] == c else RIGHT] = EMPTY
    attribute = cnode[c, ATTRIBUTE]
    for i in range(size - 1, -1, -1):
        _move_to_limbo(nodes, books, below[i], attribute)
        above = cnode[below[i], PARENT]
        free_cnode(nodes, books, below[i])
        if above < 0:
            free_pnode(nodes, books, ~above)
    books.state[UNDERFLOW] = bucket
    return True


@kernel
def _empty_leaf(nodes, books, c):
    """Move all expressions of an l-node to limbo; False if room is lacking."""
    cnode = nodes.cnode
    if lacks_room(nodes, books, 0, 0, cnode[c, USED] + LIMBO_HEADER * cnode[c, SIZE]):
        return False
    count = cnode[c, SIZE]
    _move_to_limbo(nodes, books, c, cnode[c, ATTRIBUTE])
    propagate(nodes, books, c, -count, -count * cnode[c, LEVEL], 0)
    fit_leaf(nodes, books, c, 0)
    books.state[UNDERFLOW] = c
    return True


@kernel
def recycle_next(nodes, books):
    """Empty the last retired node, unless it was removed since; False if room is lacking."""
    state = books.state
    node = books.retired[state[RETIRED] - 1]
    has_room = True
    if node < 0 and nodes.pnode[~node, P_ATTRIBUTE] != NOWHERE:
        has_room = _empty_pnode(nodes, books, ~node)
    elif node >= WHOLE:
        if nodes.cnode[node - WHOLE, ATTRIBUTE] != NOWHERE:
            has_room = _empty_cnode(nodes, books, node - WHOLE)
    elif node == ROOT or (node >= 0 and nodes.cnode[node, ATTRIBUTE] != NOWHERE):
        has_room = _empty_leaf(nodes, books, node)
    if has_room:
        state[RETIRED] -= 1
        state[RECYCLED] += 1
    return has_room
