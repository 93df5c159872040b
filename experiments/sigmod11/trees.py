"""BE-Trees that change while they are measured; an engine never does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import Events
from tamis.encode.rules import EncodedRules
from tamis.engines.betree import BeTree
from tamis.engines.betree.search import begin_search, end_search, search
from tamis.engines.betree.tree import MAX_CAPACITY
from tamis.workloads.begen import Workload


@dataclass(frozen=True)
class Both:
    """Two workloads as one: the rules of both, and half of the events from each."""

    first: Workload
    second: Workload

    def rules(self) -> Iterator[tuple[Any, str]]:
        return chain(self.first.rules(), self.second.rules())

    def events(self, count: int) -> list[dict[str, Any]]:
        return [*self.first.events(count // 2), *self.second.events(count // 2)]


def new_tree(rules: EncodedRules, max_capacity: int = MAX_CAPACITY) -> BeTree:
    return BeTree(np.diff(rules.dictionary.base), rules.texts.size, max_capacity)


def insert(tree: BeTree, rules: EncodedRules, numbers: NDArray[np.int64]) -> None:
    """Insert conjunctions with consecutive numbers, one after the other."""
    start = rules.forms.conjunction_start[numbers[0] : numbers[-1] + 2]
    atom = rules.forms.conjunction_atom[start[0] : start[-1]]
    tree.insert_many(numbers, rules.atoms, start - start[0], atom)


def match_call(tree: BeTree) -> Callable[[Events], int]:
    """Return a call that matches an event with the present tree and gives the number of matches."""
    nodes, state = tree.compact_nodes(), tree.new_search_state()

    def match(events: Events) -> int:
        found = search(nodes, events, state, begin_search(events, 0, state))
        end_search(events, 0, state)
        return int(found)

    return match
