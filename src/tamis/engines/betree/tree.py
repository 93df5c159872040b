"""The BE-Tree: a dynamic index of expressions, inserted and deleted one at a time.

After "BE-Tree: An Index Structure to Efficiently Match Boolean Expressions over High-dimensional
Discrete Space". docs/decisions/0010 says where we differ.

The tree knows nothing of rules. Its *expressions* are conjunctions over the codes of attributes, as
`tamis.encode` encodes them. The caller fixes how many codes each attribute has, numbers the
expressions (with small numbers, because the tree keeps an array of them), and passes their atoms as
`AtomArrays` and lists of atom numbers. ::

    tree = BeTree(np.diff(rules.dictionary.base))
    tree.insert(7, rules.atoms, atoms_of_the_conjunction)
    tree.match(events)                  # one event, encoded by the same dictionary
    tree.observe(events)                # the tree adapts to what events cost
    tree.delete(7)

Callers map rules that are not plain conjunctions to expressions, as `live_tree.py` does. There is
no locking: while one thread inserts, deletes or observes, no other thread may search. `match` does
not change the tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.encode.arrays import NO_INT32, AtomArrays, Events
from tamis.engines.betree.arrays import (
    ATTRIBUTE,
    CAPACITY,
    CLASSES,
    CNODES,
    FREE_CNODE,
    FREE_PNODE,
    LACKS_LIMBO,
    LACKS_SLOTS,
    LACKS_WORDS,
    LEFT,
    LIMBO_END,
    MAX_CAP,
    MIN_SIZE,
    NOWHERE,
    PNODES,
    RECYCLED,
    RIGHT,
    ROOT,
    SLOTS_USED,
    STATES,
    TOTAL,
    UNDERFLOW,
    UNSPLIT,
    WORDS_USED,
    Books,
    Nodes,
)
from tamis.engines.betree.compact import compact_nodes
from tamis.engines.betree.observe import observe_all, observe_few, search_and_count
from tamis.engines.betree.search import (
    SearchState,
    begin_search,
    end_search,
    find_matches,
    new_search_state,
)
from tamis.engines.betree.update import delete_all, insert_all, insert_few

__all__ = ["MAX_CAPACITY", "MIN_PARTITION", "BeTree", "Work"]

MAX_CAPACITY = 20
"""How many expressions an l-node holds before it overflows; the paper's choice for 1 to 10 %."""

_MOST_CAPACITY = 160
_CAPACITY_PER_MATCH = 800
"""With more matches larger l-nodes pay: their expressions are tested one after the other, most of
them not in vain. Figure 4 found 20 best up to 1 % and 80 at 9 %."""

MIN_PARTITION = 3
"""How many expressions with an attribute make a partition; the paper's choice."""

_MOST_RETIRED = 64
"""The most nodes that are recycled after one event."""

_FEW_EVENTS = 64
"""How many events are observed while other threads wait."""

_FEWEST = 8
"""How many nodes the pools have room for at first."""


class Work(NamedTuple):
    """The cost of searches."""

    nodes: int
    """Visited c-nodes."""
    expressions: int
    """Tested expressions."""
    discarded: int
    """Predicates tested in vain."""
    matches: int
    """Expressions that were found."""


def choose_capacity(match_rate: float) -> int:
    """The capacity of l-nodes that suits a share of matching expressions; see figure 4."""
    return min(max(round(_CAPACITY_PER_MATCH * match_rate), MAX_CAPACITY), _MOST_CAPACITY)


class BeTree:
    """An index of expressions over codes, for events over the same codes.

    Parameters
    ----------
    codes
        The number of codes of each attribute; the codes of events and expressions are lower.
    texts
        The number of text predicates.
    max_capacity, min_partition
        The paper's max_cap and min_size. Without a max_cap, `observe` chooses it.
    """

    def __init__(
        self,
        codes: ArrayLike,
        texts: int = 0,
        max_capacity: int | None = None,
        min_partition: int = MIN_PARTITION,
    ) -> None:
        sizes = np.array(codes, np.int32)
        self._adapts_capacity = max_capacity is None
        max_capacity = MAX_CAPACITY if max_capacity is None else max_capacity
        self._texts = texts
        self.nodes = Nodes(
            np.zeros((_FEWEST, 16), np.int32),
            np.zeros((_FEWEST, 3), np.int32),
            np.zeros((_FEWEST, 2), np.int32),
            np.zeros((_FEWEST, 2), np.int32),
            np.zeros(_FEWEST, np.int32),
        )
        self.books = _new_books(sizes, max_capacity, min_partition)
        root = self.nodes.cnode[ROOT]
        root[[LEFT, RIGHT, ATTRIBUTE]] = UNSPLIT, UNSPLIT, NOWHERE
        root[CAPACITY] = max_capacity
        self._state: SearchState | None = None
        self._number, self._span = np.zeros(1, np.int64), np.zeros(2, np.int64)
        """Arguments of a single `insert`, allocated once."""

    def __len__(self) -> int:
        return int(self.nodes.cnode[ROOT, TOTAL])

    def __contains__(self, number: int) -> bool:
        return 0 <= number < len(self.books.home) and self.books.home[number] != NOWHERE

    @property
    def nbytes(self) -> int:
        """The size of all pools and books, including unused room."""
        return sum(array.nbytes for array in (*self.nodes, *self.books))

    @property
    def recycled(self) -> int:
        """The number of nodes recycled so far."""
        return int(self.books.state[RECYCLED])

    def ensure_attributes(self, count: int, codes: int) -> None:
        """Have at least `count` attributes; new ones get `codes` codes."""
        books = self.books
        if len(books.codes) < count:
            self.books = books._replace(
                codes=_enlarge(books.codes, count, codes),
                tally=_enlarge(books.tally, count),
                stamp=_enlarge(books.stamp, count),
                touched=_enlarge(books.touched, count),
                uses=_enlarge(books.uses, count),
                mass=_enlarge(books.mass, count),
                presence=_add_attributes(books.presence, count),
            )

    def insert(self, number: int, atoms: AtomArrays, conjunction: ArrayLike) -> None:
        """Add a conjunction of atoms under a new number."""
        if number >= len(self.books.home):
            self._ensure_numbers(number + 1)
        elif number in self:
            raise ValueError(f"expression {number} is already there")
        atom = np.asarray(conjunction, np.int32)
        self._number[0], self._span[1] = number, len(atom)
        self._insert(self._number, atoms, self._span, atom, NO_INT32)

    def insert_many(
        self,
        numbers: NDArray[np.int64],
        atoms: AtomArrays,
        start: NDArray[np.int64],
        conjunction_atom: NDArray[np.int32],
        preferred: NDArray[np.int32] = NO_INT32,
    ) -> None:
        """Add conjunctions one after the other; the i-th one has the atoms from start[i] on.

        If `preferred` is given, the root partitions the i-th one by the attribute preferred[i]. The
        conjunction must have a predicate on it that fails where the attribute is absent. NOWHERE
        leaves the choice to the tree.
        """
        known = self.books.home[numbers[numbers < len(self.books.home)]] != NOWHERE
        if known.any():
            raise ValueError(f"expression {numbers[: len(known)][known][0]} is already there")
        self._ensure_numbers(int(numbers.max(initial=-1)) + 1)
        self._insert(numbers, atoms, start, conjunction_atom, preferred)

    def _insert(
        self,
        numbers: NDArray[np.int64],
        atoms: AtomArrays,
        start: NDArray[np.int64],
        conjunction_atom: NDArray[np.int32],
        preferred: NDArray[np.int32],
    ) -> None:
        insert = insert_few if len(numbers) == 1 else insert_all
        done = ~0
        while done < 0:
            done = insert(
                self.nodes, self.books, numbers, *atoms, start, conjunction_atom, preferred, ~done
            )
            if done < 0:
                self._grow()

    def delete(self, number: int) -> None:
        """Remove an expression."""
        self.delete_many(np.array([number]))

    def delete_many(self, numbers: NDArray[np.int64]) -> None:
        """Remove expressions one after the other."""
        for number in numbers.tolist():
            if number not in self:
                raise KeyError(number)
        done = ~0
        while done < 0:
            done = delete_all(self.nodes, self.books, numbers, ~done)
            if done < 0:
                self._grow()

    def match(self, events: Events, row: int = 0) -> list[int]:
        """Find the numbers of the expressions that an event matches, rising."""
        state = self._search_state()
        found = find_matches(self.nodes, events, row, state)
        return sorted(state.hits[:found].tolist())

    def measure_work(self, events: Events) -> Work:
        """Measure the cost of matching events."""
        work, state = np.zeros(4, np.int64), self.new_search_state()
        for row in range(len(events.start) - 1):
            self._search_counting(events, row, state, work)
        return Work(*work.tolist())

    def observe(self, events: Events) -> None:
        """Match events, and adapt the tree to the cost of each.

        The capacity of l-nodes follows the share of expressions that an event matches.
        """
        work, size = np.zeros(4, np.int64), len(events.start) - 1
        observe = observe_few if size <= _FEW_EVENTS else observe_all
        done = ~0
        while done < 0:
            state, room = self._search_state(), self._counting_room()
            done = observe(self.nodes, self.books, events, ~done, state, *room, work)
            if done < 0:
                self._grow()
        tested = len(self) * size
        if tested and self._adapts_capacity:
            self.books.state[MAX_CAP] = choose_capacity(int(work[3]) / tested)

    def new_search_state(self) -> SearchState:
        """Allocate a search state that is large enough until the next change."""
        return new_search_state(
            self.nodes, len(self.books.codes), self._texts, len(self.books.home)
        )

    def compact_nodes(self) -> Nodes:
        """Copy the nodes without the room that changes would need."""
        return compact_nodes(self.nodes, self.books)

    def _search_counting(
        self, events: Events, row: int, state: SearchState, work: NDArray[np.int64]
    ) -> tuple[int, int, NDArray[np.int64], NDArray[np.uint8]]:
        """How many attributes an event has.

        How many nodes it visits, the waste at each, and which c-nodes have matches.
        """
        waste, useful = self._counting_room()
        present = begin_search(events, row, state)
        visits = search_and_count(self.nodes, events, state, present, waste, useful, work)
        end_search(events, row, state)
        return present, visits, waste, useful

    def _counting_room(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Room for the waste of each c-node, and for whether it has matches."""
        nodes = len(self.nodes.cnode)
        return np.empty(nodes, np.int64), np.zeros(nodes, np.uint8)

    def _search_state(self) -> SearchState:
        """The tree's own search state, allocated again when the tree has outgrown it."""
        state = self._state
        is_outgrown = state is None or (
            len(state.stack) <= len(self.nodes.cnode)
            or len(state.hits) < len(self.books.home)
            or len(state.code_of) < len(self.books.codes)
        )
        if state is None or is_outgrown:
            state = self._state = self.new_search_state()
        return state

    def _ensure_numbers(self, size: int) -> None:
        home = self.books.home
        if len(home) < size:
            self.books = self.books._replace(home=_enlarge(home, size, NOWHERE))

    def _grow(self) -> None:
        """Enlarge the pools for the step that lacked room."""
        state = self.books.state
        cnodes, pnodes = int(state[CNODES]) + 2, int(state[PNODES]) + 1
        self.nodes = Nodes(
            _enlarge(self.nodes.cnode, cnodes),
            _enlarge(self.nodes.pnode, pnodes),
            _enlarge(self.nodes.slot, int(state[SLOTS_USED] + state[LACKS_SLOTS])),
            _enlarge(self.nodes.bound, cnodes),
            _enlarge(self.nodes.word, int(state[WORDS_USED] + state[LACKS_WORDS])),
        )
        self.books = self.books._replace(
            crank=_enlarge(self.books.crank, cnodes),
            cwatch=_enlarge(self.books.cwatch, cnodes),
            pending=_enlarge(self.books.pending, cnodes),
            prank=_enlarge(self.books.prank, pnodes),
            pwatch=_enlarge(self.books.pwatch, pnodes),
            limbo=_enlarge(self.books.limbo, int(state[LIMBO_END] + state[LACKS_LIMBO])),
        )


def _new_books(codes: NDArray[np.int32], max_capacity: int, min_partition: int) -> Books:
    attributes = len(codes)
    state = np.zeros(STATES, np.int64)
    state[CNODES] = 1
    state[[FREE_CNODE, FREE_PNODE, UNDERFLOW]] = NOWHERE
    state[MAX_CAP], state[MIN_SIZE] = max_capacity, min_partition
    return Books(
        state,
        codes,
        np.empty(0, np.int32),
        np.zeros((_FEWEST, 2), np.float64),
        np.zeros((_FEWEST, 2), np.float64),
        np.zeros((_FEWEST, 3), np.int32),
        np.zeros((_FEWEST, 3), np.int32),
        np.full(CLASSES, NOWHERE, np.int64),
        np.full(CLASSES, NOWHERE, np.int64),
        np.empty(_FEWEST, np.int32),
        np.empty(_FEWEST, np.int32),
        np.empty(_MOST_RETIRED, np.int32),
        np.zeros(attributes, np.int64),
        np.zeros(attributes, np.int64),
        np.empty(attributes, np.int32),
        np.zeros(attributes, np.int64),
        np.zeros(attributes, np.float64),
        np.zeros(attributes + 1, np.float64),
    )


def _add_attributes(presence: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """`presence` with at least `count` attributes; the number of events stays last."""
    grown = np.zeros(max(count, 2 * len(presence)) + 1)
    grown[: len(presence) - 1] = presence[:-1]
    grown[-1] = presence[-1]
    return grown


def _enlarge(array: NDArray[Any], size: int, filler: int = 0) -> NDArray[Any]:
    """`array` if it has `size` rows; else a copy with twice its rows, or `size` if that is more."""
    if len(array) >= size:
        return array
    grown = np.full((max(size, 2 * len(array)), *array.shape[1:]), filler, array.dtype)
    grown[: len(array)] = array
    return grown
