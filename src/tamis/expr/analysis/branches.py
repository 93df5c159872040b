"""The ways through a tree's ORs: each takes one child of every OR it meets, and all of every AND.

To tell whether one of them is open is as hard as SAT, so that a walk may be given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from tamis.expr.model import And, Atom, Expr, Or

__all__ = ["TooManyWays", "walk_ways"]

_MOST_STEPS: Final = 10_000
"""How many parts of ways are tried."""

_State = TypeVar("_State")
_Pending: TypeAlias = "tuple[Expr, _Pending] | None"
"""What has still to hold: a linked list."""


class TooManyWays(Exception):
    """There are more ways than were tried."""


def walk_ways(
    tree: Expr,
    state: _State,
    narrow: Callable[[Atom, _State], _State | None],
    order: Callable[[Sequence[Expr]], Sequence[Expr]] = lambda children: children,
) -> Iterator[_State]:
    """What is left of `state` at the end of each way.

    Parameters
    ----------
    tree
        A tree of And, Or and Atom.
    state
        What is known at the beginning.
    narrow
        What is left of a state once an atom has to hold too; None where nothing is.
    order
        In which order the children of an OR are tried.

    Raises
    ------
    TooManyWays
        Not all were tried.
    """
    opened: list[tuple[_Pending, _State]] = [((tree, None), state)]
    for _ in range(_MOST_STEPS):
        if not opened:
            return
        pending, here = opened.pop()
        while pending is not None:
            node, pending = pending
            if isinstance(node, Or):
                opened += [((child, pending), here) for child in reversed(order(node.children))]
                break
            if isinstance(node, And):
                # Atoms come before ORs: what they exclude need not be tried in each of these.
                for child in sorted(node.children, key=lambda child: isinstance(child, Atom)):
                    pending = child, pending
                continue
            assert isinstance(node, Atom)
            left = narrow(node, here)
            if left is None:
                break
            here = left
        else:
            yield here
    raise TooManyWays
