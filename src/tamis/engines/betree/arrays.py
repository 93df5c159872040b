"""The arrays of a BE-Tree: node pools that a search reads, and the books that changes keep.

Nodes stand in rows of tables and are known by their numbers; a *block* is a stretch of a pool that
belongs to one node. Everything may be larger than what is in use, since pools grow by doubling.
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
    "WORDS_USED",
    "Books",
    "Nodes",
]

ROOT: Final = 0
"""The c-node that everything begins with. It is no bucket, and nobody's half."""

NOWHERE: Final = -1
"""In place of a node where there is none."""

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
"""The columns of a c-node, which fill a line of memory; see `Nodes.cnode`."""

UNSPLIT: Final = -1
EMPTY: Final = 0
"""In place of a bucket's half: the bucket was not split, or nothing is in that half."""

P_ATTRIBUTE: Final = 0
OWNER: Final = 1
TOP: Final = 2
"""The columns of a p-node: its attribute, the c-node whose directory it is in, and the c-node of
the bucket that spans all codes of the attribute."""

LIMBO_HEADER: Final = 2
"""How many words there are before an expression in `Books.limbo`."""

LENGTH: Final = 1
TESTED: Final = 2
RUNS: Final = 3
HEADER: Final = 4
"""The words of an expression behind its number, and how many there are before its predicates; see
`Nodes.word`."""

RANK: Final = 0
LOSS: Final = 1
"""The columns of ranks: that of all that is below a node, and the loss of the node by itself."""

OPERATIONS: Final = 0
DISCARDED: Final = 1
BEGAN: Final = 2
"""The columns of watches: what was done at a node in its window, how many predicates were tested in
vain there, and how many events the tree had seen when the window began."""

CLASSES: Final = 128
"""How many sizes of blocks there may be."""

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
"""The numbers in `Books.state`: how much of each pool was ever used, the first free node of
either kind, how many c-nodes wait to be relieved, the c-node that may hold too little, where the
expressions begin and end that wait for a place, how many nodes wait to be recycled, a serial
number, how many events were observed, the two parameters of the paper, what the next step needs,
and how many nodes were recycled."""


class Nodes(NamedTuple):
    """What a search reads."""

    cnode: NDArray[np.int32]
    """A row for each c-node with its bucket and its l-node. PARENT: the bucket that it is a half
    of, or ~p-node. ATTRIBUTE, LOW, HIGH: the bucket. LEFT, RIGHT: its halves. LEVEL: how many
    p-nodes are above. DIRECTORY, SLOTS, PARTITIONS: where its p-directory begins in `slot`, how
    long it is, and how many p-nodes are in it. LEAF, ROOM, USED: where its l-node begins in `word`,
    how long that may get, and how long it is. SIZE, CAPACITY: how many expressions the l-node
    holds, and when it overflows. TOTAL: how many are in the l-nodes below and in this one."""
    pnode: NDArray[np.int32]
    """A row for each p-node."""
    slot: NDArray[np.int32]
    """The p-directories: hash tables from an attribute to a p-node, probed linearly. NOWHERE is in
    place of the attribute where a slot is free."""
    word: NDArray[np.int32]
    """The l-nodes. Each expression has its number, how many words it has, how many of them are to
    be tested, and how many of these are plain runs of codes; then its predicates. Those behind the
    tested ones equal a bucket on the way here (they are *subsumed*), so they hold for whatever
    event comes by."""


class Books(NamedTuple):
    """What changes need besides."""

    state: NDArray[np.int64]
    codes: NDArray[np.int32]
    """How many codes each attribute has."""
    home: NDArray[np.int32]
    """For each expression the c-node that it is in, or NOWHERE."""
    crank: NDArray[np.float64]
    prank: NDArray[np.float64]
    """Ranks of c-nodes and p-nodes."""
    cwatch: NDArray[np.int32]
    pwatch: NDArray[np.int32]
    """Watches over c-nodes and p-nodes."""
    free_words: NDArray[np.int64]
    free_slots: NDArray[np.int64]
    """The first free block of each size; its first word is where the next one is."""
    pending: NDArray[np.int32]
    """C-nodes whose l-nodes may overflow; and a stack for whoever walks the tree."""
    limbo: NDArray[np.int32]
    """Expressions that wait for a place: the attribute to avoid, that to be partitioned by at the
    root, either of which may be NOWHERE, and then as in an l-node."""
    retired: NDArray[np.int32]
    """Nodes that wait to be recycled: a c-node, or ~p-node."""
    tally: NDArray[np.int64]
    """For each attribute how many expressions of an l-node could be partitioned by it."""
    stamp: NDArray[np.int64]
    """For each attribute the serial number of the expression it was last counted for."""
    touched: NDArray[np.int32]
    """The attributes whose tallies are not zero."""
    burden: NDArray[np.float64]
    """For each attribute by how much, for each expression, its partitions stay behind what they
    gain by themselves: what was learned so far."""
