"""A BE-Tree over rules that are added one at a time and found at once.

The tree uses the codes of a dictionary that grows with the rules
(`tamis.encode.growing_dictionary`). A rule that these codes cannot express, or that is not a small
OR of conjunctions, is stored under a weaker condition, or under none. Such a rule is *doubtful*:
when it is found, the caller must evaluate the rule itself.

The tree adapts while it is used: it keeps every few events that it matches, and `adapt` has it
observe them. A search may still find a rule that was removed a moment ago, and callers skip it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tamis.encode.arrays import NO_INT32, AtomArrays, Events
from tamis.encode.event_rows import concatenate_events
from tamis.encode.events import AxesEncoder
from tamis.encode.growing_dictionary import CODES, GrowingDictionary
from tamis.engines.betree.tree import BeTree
from tamis.expr.model import And, Atom, Expr, Op
from tamis.expr.normalize import cover, dnf
from tamis.forks import hold_during_forks

__all__ = ["LiveTree"]

_BUDGET = 64
"""The most atoms of a rule's DNF, unless twice the atoms of the rule are more."""

_MOST = 16
"""The most expressions of the tree for one rule."""

_EVERY = 8
"""One event in this number is kept to be observed, …"""

_SAMPLE = 256
"""… the last of them."""

_ENOUGH = 32
"""How many events are kept before they are observed, …"""

_AT_ONCE = 64
"""… and how many are observed at once, while searches wait."""

_NUMBERS = np.arange(1024, dtype=np.int32)


class LiveTree:
    """Rules by rising numbers.

    One thread adds, and one adapts or removes, while any number of threads match.
    """

    def __init__(self) -> None:
        self._dictionary = GrowingDictionary()
        self.encoder = AxesEncoder(self._dictionary.axes)
        """Encodes events for all rules that were added before."""
        self._tree = BeTree(())
        self._owner: list[int] = []
        """The rule of each expression of the tree."""
        self.doubtful: set[int] = set()
        """The rules that may be found although they do not match."""
        self._sample: deque[Events] = deque(maxlen=_SAMPLE)
        self._turn = 0
        self._lock = threading.Lock()
        """Taken to change or search the tree, for a few microseconds."""
        hold_during_forks(self._lock, rank=1)

    @property
    def nbytes(self) -> int:
        """The size of the tree."""
        return self._tree.nbytes

    def containers(self) -> list[list[Any] | dict[Any, Any] | set[Any]]:
        """What holds many objects; freeing all at once takes milliseconds."""
        return [self._owner, self.doubtful, *self._dictionary.containers()]

    def is_busy(self) -> bool:
        """Whether a thread is changing or searching the tree right now."""
        return self._lock.locked()

    def add(self, number: int, tree: Expr) -> None:
        """Add a rule in negation normal form under a number above all others."""
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
            np.array(codes, np.int32) if codes else NO_INT32,
        )
        size = len(atoms.table)
        conjunction = _NUMBERS[:size] if size <= len(_NUMBERS) else np.arange(size, dtype=np.int32)
        expression = len(self._owner)
        self._owner.append(number)
        with self._lock:
            self._tree.ensure_attributes(len(self._dictionary.axes), CODES)
            self._tree.insert(expression, atoms, conjunction)

    def match(self, event: Events) -> list[int]:
        """Find the numbers of the rules that an event matches, rising; some may be doubtful."""
        with self._lock:
            # The event may have an attribute of a rule that is being added.
            self._tree.ensure_attributes(len(self._dictionary.axes), CODES)
            found = self._tree.match(event)
            self._turn += 1
            if self._turn % _EVERY == 0:
                self._sample.append(event)
        owner = self._owner
        return list(dict.fromkeys([owner[expression] for expression in found]))

    def adapt(self, least: int = _ENOUGH) -> bool:
        """Observe the events that were kept, if there are at least `least`.

        Returns whether there were. Many are observed at once: between two short times that one
        thread holds the lock, another one that waits for it often does not get it.
        """
        size = len(self._sample)
        if size < least:
            return False
        for done in range(0, size, _AT_ONCE):
            count = min(size - done, _AT_ONCE)
            events = concatenate_events([self._sample.popleft() for _ in range(count)])
            with self._lock:
                self._tree.ensure_attributes(len(self._dictionary.axes), CODES)
                self._tree.observe(events)
        return True

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove rules, by their numbers."""
        owner = self._owner
        for number in numbers:
            expressions = range(bisect_left(owner, number), bisect_left(owner, number + 1))
            with self._lock:
                self._tree.delete_many(np.array(expressions, np.int64))


def _list_expressions(tree: Expr) -> tuple[Sequence[Sequence[Atom]], bool]:
    """Conjunctions such that one holds if the rule does, and whether the converse is true, too."""
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
    """A guess at how often an atom holds, from its form alone."""
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
