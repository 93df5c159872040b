"""The ways through a tree: each takes one child of every OR that it meets, and all of every AND.

Finding a way without contradictions is as hard as SAT, so the search is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from tamis.deadline import check_time
from tamis.expr.model import And, Atom, Expr, Or

__all__ = ["TooManyWays", "walk_ways"]

_MOST_STEPS: Final = 10_000
"""How many partial ways are tried."""

_MOST_ATOMS: Final = 100_000
"""How many atoms they have together: large rules have long ways."""

_State = TypeVar("_State")
_Pending: TypeAlias = "tuple[Expr, _Pending] | None"
"""The nodes that remain on a way: a linked list."""


class TooManyWays(Exception):
    """The search was given up before all ways were tried."""


def walk_ways(
    tree: Expr,
    state: _State,
    narrow: Callable[[Sequence[Atom], _State], _State | None],
    order: Callable[[Sequence[Expr]], Sequence[Expr]] = lambda children: children,
) -> Iterator[_State]:
    """Yield the state at the end of each way.

    Parameters
    ----------
    tree
        A tree of And, Or and Atom.
    state
        The state at the beginning.
    narrow
        Gives the state after some atoms have to hold, too; None if that is impossible.
    order
        Gives the order in which the children of an OR are tried.

    Raises
    ------
    TooManyWays
        Not all ways were tried.
    """
    opened: list[tuple[_Pending, _State]] = [((tree, None), state)]
    atoms = 0
    for _ in range(_MOST_STEPS):
        check_time()
        if not opened:
            return
        pending, here = opened.pop()
        while pending is not None:
            node, pending = pending
            if isinstance(node, Or):
                opened += [((child, pending), here) for child in reversed(order(node.children))]
                break
            if isinstance(node, And):
                # Atoms come before ORs: what they exclude is not tried for each child of an OR.
                for child in sorted(node.children, key=lambda child: isinstance(child, Atom)):
                    pending = child, pending
                continue
            assert isinstance(node, Atom)
            group = [node]
            while pending is not None and isinstance(pending[0], Atom):
                group.append(pending[0])
                pending = pending[1]
            atoms += len(group)
            if atoms > _MOST_ATOMS:
                raise TooManyWays
            check_time()
            left = narrow(group, here)
            if left is None:
                break
            here = left
        else:
            yield here
    raise TooManyWays
