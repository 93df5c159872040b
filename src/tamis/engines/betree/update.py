"""Runs changes to completion: each finishes all follow-up steps before the next one begins."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# Numba infers the types of kernels; they take the NamedTuples of tamis.engines.betree.arrays.

from __future__ import annotations

from tamis.encode.kernel import brief_kernel, event_kernel, kernel
from tamis.engines.betree.arrays import (
    LIMBO,
    LIMBO_END,
    LIMBO_HEADER,
    NOWHERE,
    PENDING,
    RETIRED,
    UNDERFLOW,
)
from tamis.engines.betree.cost_model import count_uses
from tamis.engines.betree.delete import recycle_next, remove_expression, tidy_next
from tamis.engines.betree.expressions import pack, packed_length
from tamis.engines.betree.insert import place_next, relieve_next
from tamis.engines.betree.pools import lacks_room

__all__ = ["delete_all", "insert_all", "insert_few", "settle"]


@kernel
def settle(nodes, books):
    """Take all pending steps; False if room is lacking."""
    state = books.state
    while True:
        if state[PENDING] > 0:
            has_room = relieve_next(nodes, books)
        elif state[UNDERFLOW] != NOWHERE:
            has_room = tidy_next(nodes, books)
        elif state[LIMBO] < state[LIMBO_END]:
            has_room = place_next(nodes, books)
        elif state[RETIRED] > 0:
            has_room = recycle_next(nodes, books)
        else:
            return True
        if not has_room:
            return False


@event_kernel
def insert_all(nodes, books, numbers, table, codes, start, conjunction_atom, preferred, done):
    """Insert conjunctions from the one numbered `done` on; returns how many are done.

    `preferred` has the attribute to partition each one by at the root, or is empty.

    Where room is lacking, returns ~done. The last conjunction may then be unfinished; the next call
    finishes it.
    """
    while settle(nodes, books):
        if done == len(numbers):
            return done
        first, last = start[done], start[done + 1]
        length = packed_length(table, conjunction_atom, first, last)
        if lacks_room(nodes, books, 0, 0, LIMBO_HEADER + length):
            break
        limbo, at = books.limbo, books.state[LIMBO_END]
        limbo[at] = NOWHERE
        limbo[at + 1] = preferred[done] if len(preferred) else NOWHERE
        at += LIMBO_HEADER
        books.state[LIMBO_END] = pack(
            table, codes, conjunction_atom, first, last, numbers[done], limbo, at
        )
        count_uses(books, limbo, at, 1)
        done += 1
    return ~done


@brief_kernel
def insert_few(nodes, books, numbers, table, codes, start, conjunction_atom, preferred, done):
    """`insert_all` for so few conjunctions that other threads can wait meanwhile."""
    return insert_all(nodes, books, numbers, table, codes, start, conjunction_atom, preferred, done)


@kernel
def delete_all(nodes, books, numbers, done):
    """Delete expressions from the one numbered `done` on; returns how many are done.

    Returns ~done where room is lacking, as `insert_all` does.
    """
    while settle(nodes, books):
        if done == len(numbers):
            return done
        remove_expression(nodes, books, numbers[done])
        done += 1
    return ~done
