"""The arrays of a BE-Tree: the nodes that a search reads, and the books that changes need.

Nodes are rows of tables and are identified by their row numbers. A *block* is a part of a pool that
belongs to one node. Pools grow by doubling, so every array may be larger than what is in use.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ATTRIBUTE",
    "BEGAN",
    "CAPACITY",
    "CLASSES",
    "CLOCK",
    "CNODES",
    "DIRECTORY",
    "DISCARDED",
    "EMPTY",
    "FREE_CNODE",
    "FREE_PNODE",
    "HEADER",
    "HIGH",
    "LACKS_LIMBO",
    "LACKS_SLOTS",
    "LACKS_WORDS",
    "LEAF",
    "LEFT",
    "LENGTH",
    "LEVEL",
    "LIMBO",
    "LIMBO_END",
    "LIMBO_HEADER",
    "LOSS",
    "LOW",
    "MAX_CAP",
    "MIN_SIZE",
    "NOWHERE",
    "OPERATIONS",
    "OWNER",
    "PARENT",
    "PARTITIONS",
    "PENDING",
    "PNODES",
    "P_ATTRIBUTE",
    "RANK",
    "RECYCLED",
    "RETIRED",
    "RIGHT",
    "ROOM",
    "ROOT",
    "RUNS",
    "SERIAL",
    "SIZE",
    "SLOTS",
    "SLOTS_USED",
    "STATES",
    "TESTED",
    "TOP",
    "TOTAL",
    "UNDERFLOW",
    "UNSPLIT",
    "USED",
    "WHOLE",
    "WORDS_USED",
    "Books",
    "Nodes",
]

ROOT: Final = 0
"""The root c-node. It has no bucket and no parent."""

NOWHERE: Final = -1
"""In place of a node, an attribute or a block that does not exist."""

PARENT: Final = 0
ATTRIBUTE: Final = 1
LOW: Final = 2
HIGH: Final = 3
LEFT: Final = 4
RIGHT: Final = 5
LEVEL: Final = 6
DIRECTORY: Final = 7
SLOTS: Final = 8
PARTITIONS: Final = 9
LEAF: Final = 10
ROOM: Final = 11
USED: Final = 12
SIZE: Final = 13
CAPACITY: Final = 14
TOTAL: Final = 15
"""The columns of a c-node, which fill a cache line; see `Nodes.cnode`."""

UNSPLIT: Final = -1
EMPTY: Final = 0
"""In place of a bucket's half: the bucket is not split, or the half is empty."""

P_ATTRIBUTE: Final = 0
OWNER: Final = 1
TOP: Final = 2
"""The columns of a p-node: its attribute, the c-node whose directory lists it, and the c-node of
the bucket that spans all codes of the attribute."""

LIMBO_HEADER: Final = 2
"""How many words precede an expression in `Books.limbo`."""

WHOLE: Final = 1 << 30
"""Added to a c-node in `Books.retired`: with everything below it."""

LENGTH: Final = 1
TESTED: Final = 2
RUNS: Final = 3
HEADER: Final = 4
"""The words of an expression that follow its number, and how many words precede its predicates;
see `Nodes.word`."""

RANK: Final = 0
LOSS: Final = 1
"""The columns of ranks: the rank of everything below a node, and the loss of the node itself."""

OPERATIONS: Final = 0
DISCARDED: Final = 1
BEGAN: Final = 2
"""The columns of watches: how many operations a node saw in its window, how many predicates were
tested in vain there, and how many events the tree had observed when the window began."""

CLASSES: Final = 128
"""How many sizes of blocks there are."""

(
    CNODES,
    PNODES,
    WORDS_USED,
    SLOTS_USED,
    FREE_CNODE,
    FREE_PNODE,
    PENDING,
    UNDERFLOW,
    LIMBO,
    LIMBO_END,
    RETIRED,
    SERIAL,
    CLOCK,
    MAX_CAP,
    MIN_SIZE,
    LACKS_WORDS,
    LACKS_SLOTS,
    LACKS_LIMBO,
    RECYCLED,
    STATES,
) = range(20)
"""The numbers in `Books.state`: how much of each pool was ever used, the first free node of each
kind, how many c-nodes wait in `pending`, the c-node that may underflow, where the waiting
expressions in `limbo` begin and end, how many nodes wait in `retired`, the serial number of the
last counted expression, how many events were observed, the two parameters of the paper, the room
that the next step needs, and how many nodes were recycled."""


class Nodes(NamedTuple):
    """What a search reads."""

    cnode: NDArray[np.int32]
    """A row for each c-node with its bucket and its l-node. PARENT: the bucket of which it is a
    half, or ~p-node. ATTRIBUTE, LOW, HIGH: the bucket. LEFT, RIGHT: its halves. LEVEL: the number
    of p-nodes above. DIRECTORY, SLOTS, PARTITIONS: where its p-directory begins in `slot`, its
    length, and the number of its p-nodes. LEAF, ROOM, USED: where its l-node begins in `word`, the
    size of its block, and how much of it is used. SIZE, CAPACITY: the number of expressions in the
    l-node, and the number above which it overflows. TOTAL: the number of expressions in this l-node
    and all below."""
    pnode: NDArray[np.int32]
    """A row for each p-node, with the columns P_ATTRIBUTE, OWNER and TOP."""
    slot: NDArray[np.int32]
    """The p-directories: hash tables from attribute to p-node with linear probing. A free slot has
    NOWHERE as its attribute."""
    bound: NDArray[np.int32]
    """For each c-node, the minimal boundary of its bucket: the lowest and the highest code that an
    expression in or below it allows. A best effort: deletions do not narrow it, and it may belong
    to expressions that are gone."""
    word: NDArray[np.int32]
    """The l-nodes. An expression is its number, the number of its words, how many of them must be
    tested, how many of these are plain runs of codes, and then its predicates: first the plain runs
    that must be tested, then all others that must be. The predicates after the tested ones equal a
    bucket on the path to the l-node: they are *subsumed*, and hold on every event that reaches
    it."""


class Books(NamedTuple):
    """What changes need in addition."""

    state: NDArray[np.int64]
    codes: NDArray[np.int32]
    """The number of codes of each attribute."""
    home: NDArray[np.int32]
    """The c-node of each expression, or NOWHERE."""
    crank: NDArray[np.float64]
    prank: NDArray[np.float64]
    """The ranks of c-nodes and p-nodes."""
    cwatch: NDArray[np.int32]
    pwatch: NDArray[np.int32]
    """The watches of c-nodes and p-nodes."""
    free_words: NDArray[np.int64]
    free_slots: NDArray[np.int64]
    """The first free block of each size; a free block begins with the place of the next one."""
    pending: NDArray[np.int32]
    """C-nodes whose l-nodes may overflow. Also serves as a stack to walk the tree."""
    limbo: NDArray[np.int32]
    """Expressions that wait to be placed. Each is preceded by the attribute to avoid and the
    attribute to partition by at the root, or NOWHERE."""
    retired: NDArray[np.int32]
    """Nodes that wait to be recycled: c-nodes, alone or with WHOLE, and p-nodes as ~p-node."""
    tally: NDArray[np.int64]
    """For each attribute, how many expressions of an l-node could be partitioned by it."""
    stamp: NDArray[np.int64]
    """For each attribute, the serial number of the last expression that was counted for it."""
    touched: NDArray[np.int32]
    """The attributes with a nonzero tally."""
    uses: NDArray[np.int64]
    """For each attribute, how many expressions of the tree could be partitioned by it."""
    mass: NDArray[np.float64]
    """For each attribute, the sum of the shares of its codes that the expressions of an l-node
    allow: the average bucket of a histogram over its codes."""
    presence: NDArray[np.float64]
    """For each attribute, how many observed events had it; and last, how many events there were.
    Older events count less."""
