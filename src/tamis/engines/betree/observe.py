"""Matching that learns: a search that counts its cost at each node.

It finds what `search` finds. The counts compare two trees without a clock. A tree that learns from
them retires the nodes whose rank is too low.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from tamis.encode.kernel import brief_kernel, event_kernel, kernel
from tamis.engines.betree.arrays import CLOCK, LEAF, LENGTH, OWNER, PARENT, ROOT, USED
from tamis.engines.betree.cost_model import learn_attributes, record_waste
from tamis.engines.betree.expressions import count_tests_to_failure
from tamis.engines.betree.search import begin_search, end_search, visit_nodes
from tamis.engines.betree.update import settle

__all__ = ["observe_all", "observe_few", "search_and_count"]


@event_kernel
def observe_all(nodes, books, events, row, state, waste, useful, work):
    """Match the events from `row` on, and adapt the tree to the cost of each.

    `waste` and `useful` have room for all c-nodes; `useful` is zero before and after. Adds the cost
    to `work`, see `search_and_count`. Returns how many events are done.

    Where room is lacking, returns ~done, as `insert_all` does.
    """
    while settle(nodes, books):
        if row == len(events.start) - 1:
            return row
        present = begin_search(events, row, state)
        visits = search_and_count(nodes, events, state, present, waste, useful, work)
        end_search(events, row, state)
        _learn(nodes, books, state.present, present, state.visited, visits, waste, useful)
        row += 1
    return ~row


@brief_kernel
def observe_few(nodes, books, events, row, state, waste, useful, work):
    """`observe_all` for so few events that other threads can wait meanwhile."""
    return observe_all(nodes, books, events, row, state, waste, useful, work)


@event_kernel
def search_and_count(nodes, events, state, present, waste, useful, work):
    """Like `search`, but adds its cost to `work` (see `Work`); returns how many nodes it visited.

    Writes to `waste` how many predicates were tested in vain at each visited node, and sets
    `useful`, which is zero before, for each c-node whose l-node has a match.
    """
    cnode, word, visited = nodes.cnode, nodes.word, state.visited
    span, text = state.loaded
    visits = visit_nodes(nodes, events, state, present)
    found = 0
    for i in range(visits):
        c = visited[i]
        waste[i] = 0
        at, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
        while at < end:
            tested = count_tests_to_failure(word, at, state.code_of, events.code, span, text)
            waste[i] += tested
            work[1] += 1
            if tested == 0:
                useful[c] = 1
                work[3] += 1
                state.hits[found] = word[at]
                found += 1
            at += word[at + LENGTH]
        work[2] += waste[i]
    work[0] += visits
    return visits


@kernel
def _learn(nodes, books, present, size, visited, visits, waste, useful):
    """Count the event's attributes, and record the waste of each visited node.

    From below, so that a node knows of matches below. Clears `useful`.
    """
    learn_attributes(books, present, size)
    books.state[CLOCK] += 1
    for i in range(visits - 1, -1, -1):
        c = visited[i]
        record_waste(nodes, books, c, waste[i], 1 - useful[c])
        if useful[c] and c != ROOT:
            above = nodes.cnode[c, PARENT]
            useful[above if above >= 0 else nodes.pnode[~above, OWNER]] = 1
        useful[c] = 0
