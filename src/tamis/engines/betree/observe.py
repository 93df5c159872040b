"""Matching that learns: the same search, which notes at each node what it cost there.

It answers as `search` does, and after it nodes whose rank is too low wait to be recycled. It also
counts its work, by which two trees can be compared without a clock.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from tamis.encode.kernel import kernel
from tamis.engines.betree.arrays import CLOCK, LEAF, OWNER, PARENT, ROOT, USED
from tamis.engines.betree.expressions import tested_in_vain
from tamis.engines.betree.ranking import discard
from tamis.engines.betree.search import step_down

__all__ = ["observed_search"]


@kernel
def observed_search(nodes, books, events, desk, present, visited, waste, useful, work):
    """As `search`; adds to `work` how many nodes were visited and expressions tested.

    `visited` and `waste` have room for all c-nodes; `useful` has a zero for each.
    """
    cnode, word, stack = nodes.cnode, nodes.word, desk.stack
    code_of, event_code, hits = desk.code_of, events.code, desk.hits
    span, text = desk.loaded
    found = visits = 0
    stack[0] = ROOT
    height = 1
    while height > 0:
        height -= 1
        c = stack[height]
        at, end = cnode[c, LEAF], cnode[c, LEAF] + cnode[c, USED]
        discarded = 0
        while at < end:
            tested = tested_in_vain(word, at, code_of, event_code, span, text)
            work[1] += 1
            work[2] += tested
            discarded += tested
            if tested == 0:
                useful[c] = 1
                hits[found] = word[at]
                found += 1
            at += word[at + 1]
        visited[visits], waste[visits] = c, discarded
        visits += 1
        height = step_down(nodes, c, desk, event_code, present, height)
    work[0] += visits
    books.state[CLOCK] += 1
    # A node is visited before those below it, so backwards each knows of all that was found below.
    for i in range(visits - 1, -1, -1):
        c = visited[i]
        discard(nodes, books, c, waste[i], 1 - useful[c])
        if useful[c] and c != ROOT:
            above = cnode[c, PARENT]
            useful[above if above >= 0 else nodes.pnode[~above, OWNER]] = 1
        useful[c] = 0
    return found
