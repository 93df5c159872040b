"""The cost model (section 5): the gain and loss of nodes, and the best attribute to partition by.

An l-node gains one point for each predicate that an event need not test there, because the path to
the l-node covers or subsumes it: one for each expression and each p-node above. A node loses what
each event of its window tested in vain there: the predicates of expressions that did not match, and
the step into a node below which nothing matched. The rank of a node is the gain of all l-nodes
below minus all losses; a change updates it from the changed node upwards.

Both kinds of gain weigh 1, as in the paper; losses weigh more. The score of an attribute for a new
partition is its expressions minus the expected loss. Before events are observed, the expected loss
is 0 (the paper's optimistic choice). Then it is the average bucket of a histogram of the
expressions over the attribute's codes, as in the paper, times the share of events that have the
attribute, which the tree learns. The product for one expression is its *exposure*: how often an
event would reach it there. An expression goes to the partition where its exposure is least, and an
l-node whose expressions would be exposed far less under other attributes is recycled.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

import numpy as np

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
    MAX_CAP,
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
    WHOLE,
)
from tamis.engines.betree.expressions import (
    attribute_of,
    is_partitionable,
    predicate_length,
    share_of_codes,
)

__all__ = [
    "best_attribute",
    "clear_tallies",
    "count_attributes",
    "count_uses",
    "exposure_at",
    "find_least_exposed",
    "has_learned",
    "learn_attributes",
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

_LEAST_EVENTS = 64.0
"""How many events must be observed before their attributes count."""

_MOST_EVENTS = 4096.0
"""At this count, all counts are halved, so that newer events count more."""

_MUCH_MORE = 2.0
"""An expression is misplaced if its exposure is so many times that under its best attribute …"""

_LEAST_EXPOSURE = 0.002
"""… and at least this: reaching it less often costs next to nothing."""

_LOOK = 16
"""How many operations lie between two looks for misplaced expressions; a look takes about as long
as a search."""


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
            books.mass[attribute] += share_of_codes(word, at, books.codes[attribute])
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
    learned = has_learned(books)
    for i in range(touched):
        attribute = books.touched[i]
        tally = books.tally[attribute]
        if tally < books.state[MIN_SIZE]:
            continue
        score = np.float64(tally)
        if learned:
            loss = share_of_events(books, attribute) * books.mass[attribute] / tally
            score = min(score, books.state[MAX_CAP]) / (loss + _LEAST_EXPOSURE)
        if best == NOWHERE or score > best_score or (score == best_score and attribute < best):
            best, best_score = attribute, score
    return best


@kernel
def clear_tallies(books, touched):
    """Reset all tallies to zero."""
    for i in range(touched):
        books.tally[books.touched[i]] = 0
        books.mass[books.touched[i]] = 0.0


# --- Attributes of events ---------------------------------------------------------------


@kernel
def learn_attributes(books, present, size):
    """Count the attributes of an observed event."""
    presence = books.presence
    last = len(presence) - 1
    if presence[last] >= _MOST_EVENTS:
        for i in range(last + 1):
            presence[i] *= 0.5
    for i in range(size):
        presence[present[i]] += 1.0
    presence[last] += 1.0


@kernel
def has_learned(books):
    """Whether enough events were observed to know how common attributes are."""
    return books.presence[len(books.presence) - 1] >= _LEAST_EVENTS


@kernel
def share_of_events(books, attribute):
    """The share of events that have an attribute."""
    return (books.presence[attribute] + 0.5) / (books.presence[len(books.presence) - 1] + 1.0)


@kernel
def exposure_at(books, word, at):
    """How often an event would reach an expression by its predicate at a place.

    A partition with few expressions has one bucket for all values, so its values do not count.
    """
    attribute = attribute_of(word, at)
    share = share_of_codes(word, at, books.codes[attribute])
    share += books.state[MAX_CAP] / max(books.uses[attribute], 1)
    return share_of_events(books, attribute) * min(share, 1.0)


@kernel
def count_uses(books, word, entry, count):
    """Add to the uses of each attribute that an expression could be partitioned by."""
    books.state[SERIAL] += 1
    serial = books.state[SERIAL]
    at, end = entry + HEADER, entry + word[entry + LENGTH]
    while at < end:
        attribute = attribute_of(word, at)
        if is_partitionable(word, at) and books.stamp[attribute] != serial:
            books.stamp[attribute] = serial
            books.uses[attribute] += count
        at += predicate_length(word, at)


@kernel
def find_least_exposed(books, word, entry):
    """The attribute by which events would reach an expression least often, and how often.

    Only attributes that enough expressions have count: others get no partition.
    """
    best, least = NOWHERE, 1.0
    at, end = entry + HEADER, entry + word[entry + LENGTH]
    while at < end:
        enough = books.uses[attribute_of(word, at)] >= books.state[MIN_SIZE]
        if is_partitionable(word, at) and enough:
            exposure = exposure_at(books, word, at)
            if best == NOWHERE or exposure < least:
                best, least = attribute_of(word, at), exposure
        at += predicate_length(word, at)
    return best, least


@kernel
def _is_misplaced(nodes, books, c):
    """Whether most expressions of an l-node would be exposed far less under other attributes."""
    cnode, word = nodes.cnode, nodes.word
    if not has_learned(books):
        return False
    attribute = _root_attribute(nodes, c)
    misplaced = 0
    entry, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
    while entry < end:
        _, least = find_least_exposed(books, word, entry)
        here = 1.0
        at, stop = entry + HEADER, entry + word[entry + LENGTH]
        while at < stop:
            if attribute_of(word, at) == attribute and is_partitionable(word, at):
                here = min(here, exposure_at(books, word, at))
            at += predicate_length(word, at)
        misplaced += here > max(_MUCH_MORE * least, _LEAST_EXPOSURE)
        entry = stop
    return 2 * misplaced > cnode[c, SIZE]


@kernel
def _root_attribute(nodes, c):
    """The attribute by which the root leads to a c-node; NOWHERE for the root itself."""
    attribute = NOWHERE
    while c != ROOT:
        above = nodes.cnode[c, PARENT]
        if above < 0:
            attribute = nodes.pnode[~above, P_ATTRIBUTE]
            above = nodes.pnode[~above, OWNER]
        c = above
    return attribute


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
    looks = watch[OPERATIONS] % _LOOK == 0 and cnode[c, SIZE] > 0
    if looks and _is_misplaced(nodes, books, c):
        _retire(books, c)
        return
    if c == ROOT or watch[OPERATIONS] < _window(cnode[c, SIZE]):
        return
    loss = _close_window(watch, books.state[CLOCK])
    propagate(nodes, books, c, 0, books.crank[c, LOSS] - loss, 0)
    books.crank[c, LOSS] = loss
    if books.crank[c, RANK] < _THRESHOLD and cnode[c, SIZE] < cnode[c, TOTAL]:
        _retire(books, c | WHOLE)
    elif cnode[c, SIZE] > 0 and cnode[c, LEVEL] * cnode[c, SIZE] - loss < _THRESHOLD:
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
    if books.prank[p, RANK] < _THRESHOLD:
        _retire(books, ~p)


@kernel
def record_waste(nodes, books, c, discarded, in_vain):
    """Record an event's visit: predicates tested in vain, and whether nothing matched below."""
    _record_at_cnode(nodes, books, c, discarded + in_vain)
    above = nodes.cnode[c, PARENT]
    if c != ROOT and above < 0:
        _record_at_pnode(nodes, books, ~above, in_vain)
