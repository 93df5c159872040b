"""A BE-Tree over rules that come one by one and are found at once.

The tree is over the codes of a dictionary that grows with the rules
(`tamis.encode.growing_dictionary`). What these codes cannot tell, and what is no small OR of
conjunctions, is in the tree by something that it needs, or under no condition at all: then what is
found is *doubtful*, and whoever asked looks at the rule itself.

Rules are never taken out. Whoever removes one passes over it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from tamis.encode.arrays import AtomArrays, Events
from tamis.encode.events import AxesEncoder
from tamis.encode.growing_dictionary import CODES, GrowingDictionary
from tamis.engines.betree.tree import BeTree
from tamis.expr.model import And, Atom, Expr, Op
from tamis.expr.normalize import cover, dnf

__all__ = ["LiveTree"]

_BUDGET = 64
"""How many atoms the conjunctions of a rule may have, or twice as many as the rule has."""

_MOST = 16
"""In how many places of the tree a rule may be."""

_NUMBERS = np.arange(1024, dtype=np.int32)
_NO_CODES = np.empty(0, np.int32)


class LiveTree:
    """Rules by numbers that rise. One thread adds; any number of threads ask meanwhile."""

    def __init__(self) -> None:
        self._dictionary = GrowingDictionary()
        self.encoder = AxesEncoder(self._dictionary.axes)
        """Encodes events, for all rules that were added before."""
        self._tree = BeTree(())
        self._owner: list[int] = []
        """The rule of each expression of the tree."""
        self.doubtful: set[int] = set()
        """The rules that may not match although they are found."""
        self._lock = threading.Lock()
        """Held to change or to search the tree, which takes some microseconds."""

    @property
    def nbytes(self) -> int:
        """The size of the tree."""
        return self._tree.nbytes

    def is_busy(self) -> bool:
        """Whether somebody changes or searches the tree right now."""
        return self._lock.locked()

    def add(self, number: int, tree: Expr) -> None:
        """Add a rule in negation normal form under a number above all that are there."""
        conjunctions, is_exact = _list_expressions(tree)
        encode = self._dictionary.encode
        for conjunction in conjunctions:
            table: list[int] = []
            codes: list[int] = []
            if not encode(conjunction, table, codes) or not is_exact:
                self.doubtful.add(number)
            self._insert(number, table, codes)

    def _insert(self, number: int, table: list[int], codes: list[int]) -> None:
        atoms = AtomArrays(
            np.array(table, np.int32).reshape(-1, 4),
            np.array(codes, np.int32) if codes else _NO_CODES,
        )
        size = len(atoms.table)
        conjunction = _NUMBERS[:size] if size <= len(_NUMBERS) else np.arange(size, dtype=np.int32)
        expression = len(self._owner)
        self._owner.append(number)
        with self._lock:
            self._tree.ensure_attributes(len(self._dictionary.axes), CODES)
            self._tree.insert(expression, atoms, conjunction)

    def match(self, event: Events) -> list[int]:
        """The numbers of rules that an event matches, rising; some of them may be doubtful."""
        with self._lock:
            # The event may have an attribute of a rule that is only just being added.
            self._tree.ensure_attributes(len(self._dictionary.axes), CODES)
            found = self._tree.match(event)
        owner = self._owner
        return list(dict.fromkeys([owner[expression] for expression in found]))


def _list_expressions(tree: Expr) -> tuple[Sequence[Sequence[Atom]], bool]:
    """Conjunctions one of which holds where the rule does, and whether the rule does, too."""
    if isinstance(tree, Atom):
        return ((tree,),), True
    if isinstance(tree, And) and all(isinstance(child, Atom) for child in tree.children):
        return (tree.children,), True  # type: ignore[return-value]
    conjunctions = dnf(tree, _BUDGET)
    if conjunctions is not None and len(conjunctions) <= _MOST:
        return conjunctions, True
    atoms = cover(tree, _cost)
    if atoms is not None and len(atoms) <= _MOST:
        return [(atom,) for atom in atoms], False
    return ((),), False


def _cost(atom: Atom) -> float:
    """How common it may be that an atom holds, as far as its form tells."""
    match atom.predicate.op:
        case Op.EQ:
            return 1.0
        case Op.IN:
            return float(len(atom.predicate.values))
        case Op.BETWEEN:
            return 8.0
        case Op.LT | Op.LE | Op.GT | Op.GE:
            return 16.0
        case _:
            return 32.0
