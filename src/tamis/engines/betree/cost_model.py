"""The cost model (section 5): the gain and loss of nodes, and the best attribute to partition by.

An l-node gains one point for each predicate that an event need not test there, because the path to
the l-node covers or subsumes it: one for each expression and each p-node above. A node loses what
each event of its window tested in vain there: the predicates of expressions that did not match, and
the step into a node below which nothing matched. The rank of a node is the gain of all l-nodes
below minus all losses; a change updates it from the changed node upwards.

Both kinds of gain weigh 1, as in the paper; losses weigh more. The score of an attribute for a new
partition is the number of expressions minus the expected loss. The expected loss is 0 at first (the
optimistic choice), and then follows what was learned about the attribute, its *burden*: by how much
the rank of its partitions stays below their own gain. Each window replaces half of it, and recycled
expressions avoid the attribute they were recycled from, so other attributes are explored and none
is given up for good.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel
from tamis.engines.betree.arrays import (
    BEGAN,
    CLOCK,
    DIRECTORY,
    DISCARDED,
    HEADER,
    LEAF,
    LENGTH,
    LEVEL,
    LOSS,
    MIN_SIZE,
    NOWHERE,
    OPERATIONS,
    OWNER,
    P_ATTRIBUTE,
    PARENT,
    RANK,
    RETIRED,
    ROOT,
    SERIAL,
    SIZE,
    SLOTS,
    TOP,
    TOTAL,
    USED,
)
from tamis.engines.betree.expressions import attribute_of, is_partitionable, predicate_length

__all__ = [
    "best_attribute",
    "clear_tallies",
    "count_attributes",
    "propagate",
    "record_waste",
]

_SHARE = 10
"""A window ends after one operation for this many expressions below the node, …"""

_LEAST_WINDOW = 64
"""… but not before this many operations: a rank should not depend on a single event."""

_THRESHOLD = 0.0
"""The rank below which a node is recycled."""

_LOSS_WEIGHT = 8.0
"""The points that a predicate tested in vain costs; see docs/decisions/0010."""

_RULED_OUT = -(1 << 40)
"""A tally that counting cannot make positive."""

_MEMORY = 0.5
"""The share of the old burden that is kept when a window ends."""


@kernel
def propagate(nodes, books, c, count, gain, operations):
    """Add to the totals, ranks and operations of a c-node and all nodes above it."""
    cnode, pnode = nodes.cnode, nodes.pnode
    while True:
        cnode[c, TOTAL] += count
        books.crank[c, RANK] += gain
        books.cwatch[c, OPERATIONS] += operations
        if c == ROOT:
            return
        above = cnode[c, PARENT]
        if above < 0:
            p = ~above
            books.prank[p, RANK] += gain
            books.pwatch[p, OPERATIONS] += operations
            above = pnode[p, OWNER]
        c = above


# --- Attributes of an l-node ------------------------------------------------------------


@kernel
def _tally_expression(word, entry, books, touched):
    """Count each attribute that an expression could be partitioned by.

    Returns how many attributes are touched now.
    """
    books.state[SERIAL] += 1
    serial = books.state[SERIAL]
    at, end = entry + HEADER, entry + word[entry + LENGTH]
    while at < end:
        attribute = attribute_of(word, at)
        if is_partitionable(word, at) and books.stamp[attribute] != serial:
            books.stamp[attribute] = serial
            if books.tally[attribute] == 0:
                books.touched[touched] = attribute
                touched += 1
            books.tally[attribute] += 1
        at += predicate_length(word, at)
    return touched


@kernel
def _rule_out(books, attribute):
    """Exclude an attribute of the l-node from the choice."""
    if books.tally[attribute] > 0:
        books.tally[attribute] = _RULED_OUT


@kernel
def count_attributes(nodes, books, c):
    """Tally the attributes of an l-node, except those of p-nodes above it and of its own c-node.

    An l-node may have expressions for a p-node of its c-node if that was created for expressions
    that preferred the attribute.
    """
    cnode, word, slot = nodes.cnode, nodes.word, nodes.slot
    touched = 0
    at, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
    while at < end:
        touched = _tally_expression(word, at, books, touched)
        at += word[at + LENGTH]
    first = cnode[c, DIRECTORY]
    for i in range(first, first + cnode[c, SLOTS]):
        if slot[i, 0] != NOWHERE:
            _rule_out(books, slot[i, 0])
    while c != ROOT:
        above = cnode[c, PARENT]
        if above < 0:
            _rule_out(books, nodes.pnode[~above, P_ATTRIBUTE])
            above = nodes.pnode[~above, OWNER]
        c = above
    return touched


@kernel
def best_attribute(books, touched):
    """The attribute with the highest score, or the first of equals; NOWHERE if all are too rare."""
    best, best_score = NOWHERE, 0.0
    for i in range(touched):
        attribute = books.touched[i]
        tally = books.tally[attribute]
        if tally < books.state[MIN_SIZE]:
            continue
        score = tally * (1.0 - books.burden[attribute])
        if best == NOWHERE or score > best_score or (score == best_score and attribute < best):
            best, best_score = attribute, score
    return best


@kernel
def clear_tallies(books, touched):
    """Reset all tallies to zero."""
    for i in range(touched):
        books.tally[books.touched[i]] = 0


# --- Windows ----------------------------------------------------------------------------


@kernel
def _window(total):
    return max(total // _SHARE, _LEAST_WINDOW)


@kernel
def _close_window(watch, clock):
    """End a window and begin another; returns the loss for each event of the ended one."""
    loss = _LOSS_WEIGHT * watch[DISCARDED] / max(clock - watch[BEGAN], 1)
    watch[OPERATIONS], watch[DISCARDED], watch[BEGAN] = 0, 0, clock
    return loss


@kernel
def _retire(books, node):
    """List a node to be recycled; if the list is full, its next window will do so."""
    if books.state[RETIRED] < len(books.retired):
        books.retired[books.state[RETIRED]] = node
        books.state[RETIRED] += 1


@kernel
def _record_at_cnode(nodes, books, c, discarded):
    cnode = nodes.cnode
    watch = books.cwatch[c]
    watch[OPERATIONS] += 1
    watch[DISCARDED] += discarded
    if c == ROOT or watch[OPERATIONS] < _window(cnode[c, SIZE]):
        return
    loss = _close_window(watch, books.state[CLOCK])
    propagate(nodes, books, c, 0, books.crank[c, LOSS] - loss, 0)
    books.crank[c, LOSS] = loss
    if cnode[c, SIZE] > 0 and cnode[c, LEVEL] * cnode[c, SIZE] - loss < _THRESHOLD:
        _retire(books, c)


@kernel
def _record_at_pnode(nodes, books, p, discarded):
    pnode = nodes.pnode
    watch = books.pwatch[p]
    watch[OPERATIONS] += 1
    watch[DISCARDED] += discarded
    top = pnode[p, TOP]
    total = nodes.cnode[top, TOTAL]
    if watch[OPERATIONS] < _window(total):
        return
    loss = _close_window(watch, books.state[CLOCK])
    gain = books.prank[p, LOSS] - loss
    books.prank[p, LOSS] = loss
    books.prank[p, RANK] += gain
    propagate(nodes, books, pnode[p, OWNER], 0, gain, 0)
    attribute = pnode[p, P_ATTRIBUTE]
    shortfall = total * nodes.cnode[top, LEVEL] - books.prank[p, RANK]
    news = max(shortfall, 0.0) / max(total, 1)
    books.burden[attribute] = _MEMORY * books.burden[attribute] + (1.0 - _MEMORY) * news
    if books.prank[p, RANK] < _THRESHOLD:
        _retire(books, ~p)


@kernel
def record_waste(nodes, books, c, discarded, in_vain):
    """Record an event's visit: predicates tested in vain, and whether nothing matched below."""
    _record_at_cnode(nodes, books, c, discarded + in_vain)
    above = nodes.cnode[c, PARENT]
    if c != ROOT and above < 0:
        _record_at_pnode(nodes, books, ~above, in_vain)
