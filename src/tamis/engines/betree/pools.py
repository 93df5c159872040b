"""Allocates and frees nodes, and the blocks of l-nodes and p-directories.

A kernel cannot allocate memory. Before each step it calls `lacks_room`; if a pool is too small, the
kernel returns, its caller enlarges the pools, and the kernel goes on.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel
from tamis.engines.betree.arrays import (
    ATTRIBUTE,
    BEGAN,
    CAPACITY,
    CLOCK,
    CNODES,
    DIRECTORY,
    EMPTY,
    FREE_CNODE,
    FREE_PNODE,
    HIGH,
    LACKS_LIMBO,
    LACKS_SLOTS,
    LACKS_WORDS,
    LEAF,
    LEFT,
    LEVEL,
    LIMBO_END,
    LOW,
    MAX_CAP,
    NOWHERE,
    OWNER,
    P_ATTRIBUTE,
    PARENT,
    PARTITIONS,
    PENDING,
    PNODES,
    RIGHT,
    ROOM,
    SIZE,
    SLOTS,
    SLOTS_USED,
    TOP,
    UNSPLIT,
    USED,
    WORDS_USED,
)
from tamis.engines.betree.expressions import FIRST_CODE

__all__ = [
    "add_partition",
    "block_size",
    "enqueue_overflow",
    "find_partition",
    "fit_leaf",
    "free_cnode",
    "free_pnode",
    "half_bounds",
    "half_of",
    "lacks_room",
    "new_cnode",
    "new_pnode",
    "remove_partition",
    "widen_bounds",
]

_FINEST = 2
"""Blocks have four sizes for each power of two, from 2^2 words on."""

_FEWEST_SLOTS = 4


@kernel
def _class_of(size):
    """The smallest class of blocks with room for `size` words, and the size of its blocks."""
    exponent = _FINEST
    while 1 << exponent + 1 <= size:
        exponent += 1
    quarter = 1 << exponent - 2
    steps = (max(size, 1 << exponent) - (1 << exponent) + quarter - 1) // quarter
    return 4 * (exponent - _FINEST) + steps, (1 << exponent) + steps * quarter


@kernel
def block_size(size):
    """The size of the block allocated for `size` words."""
    return _class_of(size)[1]


@kernel
def lacks_room(nodes, books, words, slots, limbo):
    """Whether pools lack room for this much, plus two c-nodes and a p-node; records the need."""
    state = books.state
    state[LACKS_WORDS], state[LACKS_SLOTS], state[LACKS_LIMBO] = words, slots, limbo
    return (
        state[CNODES] + 2 > len(nodes.cnode)
        or state[PNODES] + 1 > len(nodes.pnode)
        or state[WORDS_USED] + words > len(nodes.word)
        or state[SLOTS_USED] + slots > len(nodes.slot)
        or state[LIMBO_END] + limbo > len(books.limbo)
    )


@kernel
def _take_words(nodes, books, size):
    """Allocate a block for `size` words; returns its place and size."""
    kind, room = _class_of(size)
    at = books.free_words[kind]
    if at != NOWHERE:
        books.free_words[kind] = nodes.word[at]
    else:
        at = books.state[WORDS_USED]
        books.state[WORDS_USED] += room
    return at, room


@kernel
def _give_words(nodes, books, at, room):
    kind = _class_of(room)[0]
    nodes.word[at] = books.free_words[kind]
    books.free_words[kind] = at


@kernel
def fit_leaf(nodes, books, c, used):
    """Move an l-node to a block that fits `used` words, unless its own block does."""
    cnode, word = nodes.cnode, nodes.word
    if cnode[c, ROOM] > 0 and used == 0:
        _give_words(nodes, books, cnode[c, LEAF], cnode[c, ROOM])
        cnode[c, LEAF], cnode[c, ROOM] = 0, 0
    if used > cnode[c, ROOM] or 2 * block_size(used) < cnode[c, ROOM]:
        at, room = _take_words(nodes, books, used)
        for i in range(cnode[c, USED]):
            word[at + i] = word[cnode[c, LEAF] + i]
        if cnode[c, ROOM] > 0:
            _give_words(nodes, books, cnode[c, LEAF], cnode[c, ROOM])
        cnode[c, LEAF], cnode[c, ROOM] = at, room


@kernel
def new_cnode(nodes, books, parent, attribute, low, high, level):
    """Allocate the c-node of a bucket, with an empty l-node."""
    cnode, state = nodes.cnode, books.state
    c = state[FREE_CNODE]
    if c != NOWHERE:
        state[FREE_CNODE] = cnode[c, LEFT]
    else:
        c = state[CNODES]
        state[CNODES] += 1
    cnode[c] = 0
    cnode[c, PARENT], cnode[c, ATTRIBUTE] = parent, attribute
    cnode[c, LOW], cnode[c, HIGH] = low, high
    cnode[c, LEFT], cnode[c, RIGHT] = UNSPLIT, UNSPLIT
    cnode[c, LEVEL] = level
    cnode[c, CAPACITY] = state[MAX_CAP]
    nodes.bound[c, 0], nodes.bound[c, 1] = high, low
    books.crank[c] = 0
    books.cwatch[c] = 0
    books.cwatch[c, BEGAN] = state[CLOCK]
    return c


@kernel
def widen_bounds(nodes, c, low, high):
    """Have the boundaries of a bucket and of those that it is a part of enclose an interval."""
    cnode, bound = nodes.cnode, nodes.bound
    while c >= 0:
        bound[c, 0] = min(bound[c, 0], low)
        bound[c, 1] = max(bound[c, 1], high)
        c = cnode[c, PARENT]


@kernel
def free_cnode(nodes, books, c):
    """Free a c-node with its blocks; no other node may refer to it."""
    cnode = nodes.cnode
    cnode[c, USED] = 0
    fit_leaf(nodes, books, c, 0)
    if cnode[c, SLOTS] > 0:
        _give_slots(nodes, books, cnode[c, DIRECTORY], cnode[c, SLOTS])
    cnode[c] = 0
    cnode[c, ATTRIBUTE] = NOWHERE
    cnode[c, LEFT] = books.state[FREE_CNODE]
    books.state[FREE_CNODE] = c


@kernel
def half_bounds(cnode, c, is_right):
    """The first and the last code of a half of a bucket."""
    low, high = cnode[c, LOW], cnode[c, HIGH]
    middle = (low + high) >> 1
    return (middle + 1, high) if is_right else (low, middle)


@kernel
def half_of(nodes, books, c, is_right):
    """The c-node of a half of a split bucket, allocated if the half was empty."""
    cnode = nodes.cnode
    column = RIGHT if is_right else LEFT
    if cnode[c, column] == EMPTY:
        low, high = half_bounds(cnode, c, is_right)
        cnode[c, column] = new_cnode(
            nodes, books, c, cnode[c, ATTRIBUTE], low, high, cnode[c, LEVEL]
        )
    return cnode[c, column]


@kernel
def new_pnode(nodes, books, owner, attribute):
    """Allocate a p-node for an attribute, and the c-node of the bucket that spans its codes."""
    pnode, state = nodes.pnode, books.state
    p = state[FREE_PNODE]
    if p != NOWHERE:
        state[FREE_PNODE] = pnode[p, TOP]
    else:
        p = state[PNODES]
        state[PNODES] += 1
    books.prank[p] = 0
    books.pwatch[p] = 0
    books.pwatch[p, BEGAN] = state[CLOCK]
    pnode[p, P_ATTRIBUTE], pnode[p, OWNER] = attribute, owner
    pnode[p, TOP] = new_cnode(
        nodes,
        books,
        ~p,
        attribute,
        FIRST_CODE,
        books.codes[attribute] - 1,
        nodes.cnode[owner, LEVEL] + 1,
    )
    add_partition(nodes, books, owner, attribute, p)
    return p


@kernel
def free_pnode(nodes, books, p):
    """Remove a p-node from its directory, and free it."""
    pnode = nodes.pnode
    remove_partition(nodes, books, pnode[p, OWNER], pnode[p, P_ATTRIBUTE])
    pnode[p, P_ATTRIBUTE] = NOWHERE
    pnode[p, TOP] = books.state[FREE_PNODE]
    books.state[FREE_PNODE] = p


@kernel
def enqueue_overflow(nodes, books, c):
    """Push a c-node on the stack of pending ones if its l-node overflows."""
    if nodes.cnode[c, SIZE] > nodes.cnode[c, CAPACITY]:
        books.pending[books.state[PENDING]] = c
        books.state[PENDING] += 1


# --- Partition directories --------------------------------------------------------------


@kernel
def find_partition(cnode, slot, c, attribute):
    """The p-node for an attribute in the directory of a c-node, or NOWHERE."""
    slots = cnode[c, SLOTS]
    if slots == 0:
        return NOWHERE
    first = cnode[c, DIRECTORY]
    i = attribute & (slots - 1)
    while slot[first + i, 0] != attribute:
        if slot[first + i, 0] == NOWHERE:
            return NOWHERE
        i = (i + 1) & (slots - 1)
    return slot[first + i, 1]


@kernel
def _fill_slot(slot, first, slots, attribute, p):
    i = attribute & (slots - 1)
    while slot[first + i, 0] != NOWHERE:
        i = (i + 1) & (slots - 1)
    slot[first + i, 0], slot[first + i, 1] = attribute, p


@kernel
def _take_slots(nodes, books, slots):
    """Allocate an empty directory; `slots` is a power of two."""
    kind = _class_of(slots)[0]
    first = books.free_slots[kind]
    if first != NOWHERE:
        books.free_slots[kind] = nodes.slot[first, 1]
    else:
        first = books.state[SLOTS_USED]
        books.state[SLOTS_USED] += slots
    nodes.slot[first : first + slots, 0] = NOWHERE
    return first


@kernel
def _give_slots(nodes, books, first, slots):
    kind = _class_of(slots)[0]
    nodes.slot[first, 1] = books.free_slots[kind]
    books.free_slots[kind] = first


@kernel
def _rehash(nodes, books, c, slots, without):
    """Move the directory of a c-node to one of `slots` slots, leaving out an attribute."""
    cnode, slot = nodes.cnode, nodes.slot
    old, old_slots = cnode[c, DIRECTORY], cnode[c, SLOTS]
    first = _take_slots(nodes, books, slots) if slots > 0 else 0
    for i in range(old, old + old_slots):
        if slot[i, 0] != NOWHERE and slot[i, 0] != without:
            _fill_slot(slot, first, slots, slot[i, 0], slot[i, 1])
    if old_slots > 0:
        _give_slots(nodes, books, old, old_slots)
    cnode[c, DIRECTORY], cnode[c, SLOTS] = first, slots


@kernel
def add_partition(nodes, books, c, attribute, p):
    """Add a p-node to the directory of a c-node."""
    cnode = nodes.cnode
    slots = cnode[c, SLOTS]
    if 4 * (cnode[c, PARTITIONS] + 1) > 3 * slots:
        _rehash(nodes, books, c, max(2 * slots, _FEWEST_SLOTS), NOWHERE)
    _fill_slot(nodes.slot, cnode[c, DIRECTORY], cnode[c, SLOTS], attribute, p)
    cnode[c, PARTITIONS] += 1


@kernel
def remove_partition(nodes, books, c, attribute):
    """Remove an attribute from the directory of a c-node."""
    cnode = nodes.cnode
    cnode[c, PARTITIONS] -= 1
    slots = cnode[c, SLOTS]
    while slots > 0 and 4 * cnode[c, PARTITIONS] <= slots:
        slots = slots // 2 if slots > _FEWEST_SLOTS else 0
    if cnode[c, PARTITIONS] > 0:
        slots = max(slots, _FEWEST_SLOTS)
    _rehash(nodes, books, c, slots, attribute)
