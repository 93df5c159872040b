"""The BE-Tree: its invariance, the paper's example, deletion and adaptation.

`Structure` reads trees on its own; it shares only the names of columns with the kernels. Work is
counted, never timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, log2
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE, SET, TEXT, Events, rows_between
from tamis.encode.events import EventEncoder
from tamis.encode.ragged import Lists
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.betree import BeTree
from tamis.engines.betree.arrays import (
    ATTRIBUTE,
    CAPACITY,
    CLOCK,
    CNODES,
    DIRECTORY,
    EMPTY,
    FREE_CNODE,
    FREE_PNODE,
    HEADER,
    HIGH,
    LEAF,
    LEFT,
    LENGTH,
    LEVEL,
    LOSS,
    LOW,
    MAX_CAP,
    NOWHERE,
    OWNER,
    P_ATTRIBUTE,
    PARENT,
    PARTITIONS,
    PNODES,
    RANK,
    RIGHT,
    ROOM,
    ROOT,
    RUNS,
    SIZE,
    SLOTS,
    TESTED,
    TOP,
    TOTAL,
    UNSPLIT,
    USED,
    WORDS_USED,
)
from tamis.engines.betree.tree import _FEW_EVENTS, choose_capacity
from tamis.engines.papers.betree import Betree, BetreeBatch
from tamis.engines.papers.betree.leaves import BY_ROW
from tamis.engines.papers.betree.statistics import rarest_attributes
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import flatten
from tamis.expr.model import LOGICS, Atom
from tamis.expr.text.grammar import parse
from tamis.workloads.begen import Distribution, Workload
from tests import randoms
from tests.interpreted import interpret
from tests.randoms import EVERYTHING

Interval = tuple[int, int]


class Expressions(NamedTuple):
    """Conjunctions to insert into trees, and their meaning."""

    rules: EncodedRules
    atoms: list[Atom]

    def __len__(self) -> int:
        return len(self.rules.forms.conjunction_start) - 1

    def of(self, number: int) -> list[int]:
        start, atom, *_ = self.rules.forms
        return [int(a) for a in atom[start[number] : start[number + 1]]]

    def lists(self) -> Lists:
        start, atom, *_ = self.rules.forms
        return start.astype(np.int64), atom

    def tree(self, **options: int) -> BeTree:
        return BeTree(np.diff(self.rules.dictionary.base), self.rules.texts.size, **options)

    def insert(self, tree: BeTree, *numbers: int) -> None:
        for number in numbers:
            tree.insert(number, self.rules.atoms, self.of(number))

    def build_tree(self, numbers: Sequence[int], **options: int) -> BeTree:
        tree = self.tree(**options)
        self.insert(tree, *numbers)
        return tree

    def encode(self, events: Sequence[dict[str, Any]]) -> Events:
        return EventEncoder(self.rules).encode_many(list(events))

    def find_matching(self, numbers: Sequence[int], event: dict[str, Any]) -> list[int]:
        flat = flatten(event)
        holds = [evaluate_flat(atom, flat, "strong") is True for atom in self.atoms]
        return sorted(n for n in numbers if all(holds[atom] for atom in self.of(n)))

    def interval(self, number: int, attribute: int) -> Interval | None:
        """Table 1 of the paper, over codes."""
        found = []
        last = int(self.rules.dictionary.axes[attribute].size) - 1
        for atom in self.of(number):
            its, test, low, high = self.rules.atoms.table[atom].tolist()
            if its != attribute or test & IF_ABSENT:
                continue
            if test & NEGATED or test & 3 == TEXT:
                low, high = 1, last
            elif test & 3 == SET:
                low, high = self.rules.atoms.codes[[low, high - 1]].tolist()
            found.append((low, high))
        return min(found, key=lambda run: (run[1] - run[0], run[0]), default=None)


def encode(rules: Sequence[Any], logics: Sequence[Any] = ("strong",)) -> Expressions:
    encoder = RuleEncoder()
    for place, rule in enumerate(rules):
        tree = parse(rule) if isinstance(rule, str) else rule
        encoder.add(tree, logics[place % len(logics)])
    return Expressions(encoder.finish(), encoder._atoms)


class Bucket(NamedTuple):
    """A c-node as found on the path from the root."""

    c: int
    row: list[int]
    path: tuple[tuple[int, int, int], ...]
    """The buckets on the path: an attribute, and the first and last code of each."""
    attributes: tuple[int, ...]
    """The attributes of the p-nodes on the path."""

    @property
    def is_split(self) -> bool:
        return self.row[LEFT] != UNSPLIT

    @property
    def is_atomic(self) -> bool:
        return self.row[LOW] == self.row[HIGH]


class Structure:
    """A tree, read from its arrays."""

    def __init__(self, tree: BeTree) -> None:
        self.tree = tree
        self.buckets = list(self._walk(ROOT, (), ()))

    def _walk(self, c: int, path: Any, attributes: Any) -> Iterator[Bucket]:
        nodes = self.tree.nodes
        row = nodes.cnode[c].tolist()
        yield Bucket(c, row, path, attributes)
        for half in row[LEFT], row[RIGHT]:
            if half > EMPTY:
                child = nodes.cnode[half]
                step = (row[ATTRIBUTE], int(child[LOW]), int(child[HIGH]))
                yield from self._walk(half, (*path, step), attributes)
        for attribute, p in self.directory(c).items():
            child = nodes.cnode[nodes.pnode[p, TOP]]
            step = (attribute, int(child[LOW]), int(child[HIGH]))
            yield from self._walk(int(nodes.pnode[p, TOP]), (*path, step), (*attributes, attribute))

    def directory(self, c: int) -> dict[int, int]:
        """The p-nodes of a c-node by attribute."""
        row = self.tree.nodes.cnode[c]
        slots = self.tree.nodes.slot[row[DIRECTORY] : row[DIRECTORY] + row[SLOTS]]
        return {a: p for a, p in slots.tolist() if a != NOWHERE}

    def entries(self, c: int) -> list[list[int]]:
        """The words of each expression of an l-node."""
        row = self.tree.nodes.cnode[c]
        words = self.tree.nodes.word[row[LEAF] : row[LEAF] + row[USED]].tolist()
        found, at = [], 0
        while at < len(words):
            found.append(words[at : at + words[at + LENGTH]])
            at += words[at + LENGTH]
        return found

    def leaf(self, c: int) -> list[int]:
        """The numbers of the expressions of an l-node."""
        return sorted(entry[0] for entry in self.entries(c))

    def below(self, path: Any) -> list[int]:
        """All expressions in the bucket at the end of a path, and in the buckets below it."""
        size = len(path)
        found = [self.leaf(b.c) for b in self.buckets if b.path[:size] == path]
        return sorted(number for leaf in found for number in leaf)

    @property
    def placement(self) -> dict[Any, list[int]]:
        """The nonempty l-node at the end of each path."""
        return {b.path: self.leaf(b.c) for b in self.buckets if b.row[SIZE]}


# --- What always holds ------------------------------------------------------------------


def encloses(bucket: Interval, interval: Interval | None) -> bool:
    return interval is not None and bucket[0] <= interval[0] and interval[1] <= bucket[1]


def halves(row: Sequence[int]) -> tuple[Interval, Interval]:
    middle = (row[LOW] + row[HIGH]) // 2
    return (row[LOW], middle), (middle + 1, row[HIGH])


def check(tree: BeTree, expressions: Expressions, alive: Sequence[int]) -> Structure:
    """Check the invariance of the paper, and that the books agree with the tree."""
    seen = Structure(tree)
    assert sorted(n for b in seen.buckets for n in seen.leaf(b.c)) == sorted(alive)
    assert len(tree) == len(alive)
    for bucket in seen.buckets:
        check_home(seen, bucket, expressions)
        check_node(seen, bucket)
        check_ranks(seen, bucket)
        if bucket.c != ROOT:
            check_boundary(seen, bucket, expressions)
        for entry in seen.entries(bucket.c):
            check_words(entry, bucket, expressions)
    check_pools(seen)
    check_height(seen, expressions)
    return seen


def check_home(seen: Structure, bucket: Bucket, expressions: Expressions) -> None:
    """Each expression resides in the smallest bucket that encloses it."""
    row = bucket.row
    for number in seen.leaf(bucket.c):
        assert seen.tree.books.home[number] == bucket.c
        for attribute, low, high in bucket.path:
            assert encloses((low, high), expressions.interval(number, attribute))
        if bucket.c != ROOT and bucket.is_split:
            own = expressions.interval(number, row[ATTRIBUTE])
            assert not any(encloses(half, own) for half in halves(row))
    # … and the c-node of a non-atomic leaf bucket is never partitioned.
    if bucket.c != ROOT and not bucket.is_split and not bucket.is_atomic:
        assert row[PARTITIONS] == 0
    assert len(set(bucket.attributes)) == len(bucket.attributes)


def check_node(seen: Structure, bucket: Bucket) -> None:
    nodes, row = seen.tree.nodes, bucket.row
    directory = seen.directory(bucket.c)
    assert row[PARTITIONS] == len(directory)
    assert row[LEVEL] == len(bucket.attributes)
    assert row[SIZE] == len(seen.leaf(bucket.c)) <= row[CAPACITY]
    assert row[USED] <= row[ROOM]
    assert row[TOTAL] == len(seen.below(bucket.path))
    # Empty nodes are removed.
    assert bucket.c == ROOT or row[TOTAL] > 0
    for attribute, p in directory.items():
        assert nodes.pnode[p, P_ATTRIBUTE] == attribute
        assert nodes.pnode[p, OWNER] == bucket.c
        assert nodes.cnode[nodes.pnode[p, TOP], PARENT] == ~p
        assert nodes.cnode[nodes.pnode[p, TOP], ATTRIBUTE] == attribute
    for half, ends in zip((row[LEFT], row[RIGHT]), halves(row), strict=True):
        if half > EMPTY:
            assert nodes.cnode[half, PARENT] == bucket.c
            assert nodes.cnode[half, [LOW, HIGH]].tolist() == list(ends)


def check_height(seen: Structure, expressions: Expressions) -> None:
    """The height is at most k log N, for k predicates and N codes, however many expressions."""
    most = max((len(expressions.of(number)) for number in range(len(expressions))), default=0)
    codes = max(int(axis.size) for axis in expressions.rules.dictionary.axes)
    assert all(len(b.path) <= most * (1 + ceil(log2(codes))) for b in seen.buckets)


def check_boundary(seen: Structure, bucket: Bucket, expressions: Expressions) -> None:
    """The minimal boundary of a bucket encloses its expressions, and lies within the bucket."""
    row = bucket.row
    low, high = seen.tree.nodes.bound[bucket.c].tolist()
    for number in seen.below(bucket.path):
        assert encloses((low, high), expressions.interval(number, row[ATTRIBUTE]))
    assert row[LOW] <= low
    assert high <= row[HIGH]


def check_ranks(seen: Structure, bucket: Bucket) -> None:
    """The rank of a node is the gain of all l-nodes below it minus all losses."""
    books, nodes = seen.tree.books, seen.tree.nodes
    row = bucket.row
    rank = row[LEVEL] * row[SIZE] - books.crank[bucket.c, LOSS]
    rank += sum(books.crank[half, RANK] for half in (row[LEFT], row[RIGHT]) if half > EMPTY)
    for p in seen.directory(bucket.c).values():
        top = nodes.pnode[p, TOP]
        assert books.prank[p, RANK] == pytest.approx(books.crank[top, RANK] - books.prank[p, LOSS])
        rank += books.prank[p, RANK]
    assert books.crank[bucket.c, RANK] == pytest.approx(rank, abs=1e-6)


def predicates(entry: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Where each predicate of an expression begins, and its words."""
    at = HEADER
    while at < len(entry):
        size = 2 + entry[at + 1] if entry[at] & 3 == SET else 3
        yield at, tuple(entry[at : at + size])
        at += size


def check_words(entry: list[int], bucket: Bucket, expressions: Expressions) -> None:
    """An expression keeps its meaning, and only predicates that surely hold are not tested."""
    assert entry[LENGTH] == len(entry)
    found = []
    for at, words in predicates(entry):
        attribute, test = words[0] >> 4, words[0] & 15
        found.append((attribute, test, *words[1:]))
        if at < entry[TESTED]:
            assert (test == RANGE) == (at < entry[RUNS]), "plain runs come first"
        else:
            assert test == RANGE
            assert (attribute, *words[1:]) in bucket.path
    atoms = expressions.rules.atoms
    expected = []
    for atom in expressions.of(entry[0]):
        attribute, test, low, high = atoms.table[atom].tolist()
        is_set = test & 3 == SET
        rest = (high - low, *atoms.codes[low:high].tolist()) if is_set else (low, high)
        expected.append((attribute, test, *rest))
    assert sorted(found) == sorted(expected)


def check_pools(seen: Structure) -> None:
    """Every node is in the tree or free, and no two l-nodes share a word."""
    tree = seen.tree
    state = tree.books.state
    pnodes = [p for b in seen.buckets for p in seen.directory(b.c).values()]
    assert len(seen.buckets) + chain(tree.nodes.cnode[:, LEFT], state[FREE_CNODE]) == state[CNODES]
    assert len(pnodes) + chain(tree.nodes.pnode[:, TOP], state[FREE_PNODE]) == state[PNODES]
    blocks = sorted((b.row[LEAF], b.row[ROOM]) for b in seen.buckets if b.row[ROOM])
    for (start, room), (following, _) in zip(
        blocks, [*blocks[1:], (int(state[WORDS_USED]), 0)], strict=True
    ):
        assert start + room <= following


def chain(following: np.ndarray, first: int) -> int:
    """The length of a list of free nodes."""
    size = 0
    while first != NOWHERE:
        size += 1
        first = following[first]
    return size


def everything(seed: int, size: int) -> Expressions:
    """Conjunctions of all kinds: repeated attributes, negations, texts, lists, both logics."""
    random = Random(seed)
    few = [*EVERYTHING[:5], EVERYTHING[-2]]
    rules = [randoms.conjunction(random, few, random.randint(1, 4)) for _ in range(size)]
    return encode([*rules, parse("TRUE"), parse("small IS NULL")], LOGICS)


def random_operations(seed: int, steps: int) -> None:
    random, expressions = Random(seed), everything(seed, steps)
    tree = expressions.tree(max_capacity=3, min_partition=2)
    events = [randoms.event(random, EVERYTHING, several=0.3) for _ in range(steps)]
    rows = expressions.encode(events)
    alive: list[int] = []
    for step in range(steps):
        absent = [n for n in range(len(expressions)) if n not in alive]
        if absent and (not alive or random.random() < (0.75 if step < steps / 2 else 0.3)):
            alive.append(random.choice(absent))
            expressions.insert(tree, alive[-1])
        else:
            tree.delete(alive.pop(random.randrange(len(alive))))
        check(tree, expressions, alive)
        assert tree.match(rows, step) == expressions.find_matching(alive, events[step])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_invariance_holds_after_every_operation(seed: int) -> None:
    random_operations(seed, 300)


@pytest.mark.usefixtures("interpreted")
def test_the_invariance_holds_as_plain_python() -> None:
    random_operations(3, 120)


# --- The example of section 6 -----------------------------------------------------------

EXAMPLE = [
    "a BETWEEN 1 AND 8 AND b = 1",
    "c = 1",
    "d = 2 AND c > 3",
    "a BETWEEN 1 AND 7",
    "d < 5",
    "d IN (1, 9)",
    "a BETWEEN 2 AND 8 AND b = 2",
    "a = 8",
    "a >= 1 AND b = 3",
]
"""S1 to S9. The paper gives no predicates for them; these lead to the steps that it describes."""


def test_the_example_of_the_paper() -> None:
    expressions = encode(EXAMPLE)
    a, b, _, d = (expressions.rules.dictionary.attributes[name] for name in "abcd")
    tree = expressions.tree(max_capacity=3, min_partition=2)

    def insert_named(*names: int) -> dict[Any, list[int]]:
        """The expressions along each path, as the paper numbers them."""
        expressions.insert(tree, *(name - 1 for name in names))
        seen = check(tree, expressions, range(names[-1]))
        return {path: [n + 1 for n in leaf] for path, leaf in seen.placement.items()}

    def whole(attribute: int) -> tuple[int, int, int]:
        return attribute, 1, expressions.rules.dictionary.axes[attribute].size - 1

    assert insert_named(1, 2, 3) == {(): [1, 2, 3]}
    # The root's l-node overflows and is partitioned by a.
    assert insert_named(4) == {(): [2, 3], (whole(a),): [1, 4]}
    # It overflows again: d.
    assert insert_named(5, 6) == {(): [2], (whole(a),): [1, 4], (whole(d),): [3, 5, 6]}
    # That of a overflows and is clustered; S8 has a smaller bucket.
    _, low, high = whole(a)
    upper = (a, (low + high) // 2 + 1, high)
    assert insert_named(7, 8) == {
        (): [2],
        (whole(a),): [1, 4, 7],
        (whole(a), upper): [8],
        (whole(d),): [3, 5, 6],
    }
    # The top bucket of a is not a leaf any more, so it is partitioned by b.
    assert insert_named(9) == {
        (): [2],
        (whole(a),): [4],
        (whole(a), upper): [8],
        (whole(a), whole(b)): [1, 7, 9],
        (whole(d),): [3, 5, 6],
    }
    rows = expressions.encode([{"a": 8, "b": 3}, {"d": 1}, {"c": 1, "a": 3, "b": 1}])
    assert [tree.match(rows, row) for row in range(3)] == [[7, 8], [4, 5], [0, 1, 3]]


# --- The order of insertions ------------------------------------------------------------


def build_shuffled(expressions: Expressions, seed: int) -> Structure:
    order = list(range(len(expressions)))
    Random(seed).shuffle(order)
    tree = expressions.build_tree(order, max_capacity=4, min_partition=3)
    return check(tree, expressions, order)


def test_clusters_do_not_depend_on_the_order_of_insertions() -> None:
    """With one attribute the whole tree is the same, bucket by bucket."""
    random = Random(5)
    ends = [sorted(random.sample(range(60), 2)) for _ in range(90)]
    rules = [f"a BETWEEN {low} AND {high}" for low, high in ends]
    expressions = encode([*rules, *(f"a = {value}" for value in range(0, 60, 3))])
    trees = [build_shuffled(expressions, seed) for seed in range(5)]
    assert len(trees[0].placement) > 15
    assert all(tree.placement == trees[0].placement for tree in trees)


def test_a_cluster_directory_depends_only_on_its_expressions() -> None:
    """The order decides by which attribute an expression is partitioned, and so its bucket; but a
    bucket is split if, and only if, it encloses more than an l-node holds.
    """
    workload = Workload(size=300, dimensions=6, event_size=4, rule_size=3, match_probability=0.1)
    expressions = encode([text for _, text in workload.rules()])
    for seed in range(3):
        buckets = build_shuffled(expressions, seed).buckets
        divisible = [b for b in buckets if b.c != ROOT and not b.is_atomic]
        assert sum(b.is_split for b in divisible) > 10
        for bucket in divisible:
            assert bucket.is_split == (bucket.row[TOTAL] > 4)


# --- Capacity ---------------------------------------------------------------------------


def test_an_l_node_that_cannot_be_partitioned_grows_and_shrinks() -> None:
    """Nothing is partitioned by predicates that hold where their attribute is absent."""
    expressions = encode([f"a{i} IS NULL" for i in range(40)])
    tree = expressions.build_tree(range(40), max_capacity=5)
    assert Structure(tree).placement == {(): list(range(40))}
    grown = int(tree.nodes.cnode[ROOT, CAPACITY])
    assert grown >= 40
    for number in range(38):
        tree.delete(number)
        check(tree, expressions, range(number + 1, 40))
    assert tree.nodes.cnode[ROOT, CAPACITY] == 5


def test_a_rare_attribute_gets_no_partition() -> None:
    expressions = encode([f"a{i // 2} = {i % 2}" for i in range(30)])
    assert Structure(expressions.build_tree(range(30), max_capacity=5)).placement == {
        (): list(range(30))
    }
    partitioned = Structure(expressions.build_tree(range(30), max_capacity=5, min_partition=2))
    assert len(partitioned.directory(ROOT)) > 10


# --- Deletion ---------------------------------------------------------------------------


def test_deletion_down_to_an_empty_tree() -> None:
    expressions = everything(7, 250)
    order = list(range(len(expressions)))
    tree = expressions.build_tree(order, max_capacity=4)
    first = check(tree, expressions, order).placement
    assert len(first) > 30
    Random(8).shuffle(order)
    for place, number in enumerate(order, start=1):
        tree.delete(number)
        if place % 25 == 0:
            check(tree, expressions, order[place:])
    (root,) = Structure(tree).buckets
    assert [root.row[column] for column in (SIZE, USED, PARTITIONS, TOTAL)] == [0, 0, 0, 0]
    assert tree.match(expressions.encode([{"small": 1}])) == []
    used = int(tree.books.state[WORDS_USED])
    expressions.insert(tree, *sorted(order))
    assert check(tree, expressions, order).placement == first
    assert tree.books.state[WORDS_USED] <= 1.2 * used


def test_numbers_are_unique() -> None:
    expressions = encode(["a = 1"])
    tree = expressions.build_tree([0])
    assert 0 in tree
    assert 1 not in tree
    with pytest.raises(ValueError, match="expression 0 is already there"):
        expressions.insert(tree, 0)
    tree.delete(0)
    with pytest.raises(KeyError):
        tree.delete(0)
    expressions.insert(tree, 0)
    assert len(tree) == 1


# --- Adaptation -------------------------------------------------------------------------


def test_expressions_tested_in_vain_are_moved() -> None:
    """Events with an `a` test the l-node of all expressions with an `a` in vain. The expressions
    that also have a `b` are then partitioned by `b`.
    """
    by_a = [f"a > 0 AND x{i} = 1" for i in range(40)]
    by_b = [f"b = 1 AND y{i} = 1" for i in range(25)]
    by_either = [f"a > 0 AND b = 1 AND z{i} = 1" for i in range(10)]
    expressions = encode([*by_a, *by_b, *by_either])
    tree = expressions.build_tree(range(75), max_capacity=5, min_partition=20)
    a, b = (expressions.rules.dictionary.attributes[name] for name in "ab")

    def find_kept_by(attribute: int) -> list[int]:
        seen = check(tree, expressions, range(75))
        found = [
            n for p, leaf in seen.placement.items() if p and p[0][0] == attribute for n in leaf
        ]
        return sorted(found)

    assert find_kept_by(a) == [*range(40), *range(65, 75)]
    event = expressions.encode([{"a": 5}])
    assert tree.measure_work(event).expressions == 50
    tree.observe(event)
    assert tree.recycled == 0
    tree.observe(expressions.encode([{"a": 5}] * 200))
    assert tree.recycled > 0
    assert find_kept_by(a) == list(range(40))
    assert find_kept_by(b) == list(range(40, 75))
    assert tree.measure_work(event).expressions == 40
    assert tree.match(expressions.encode([{"b": 1, "z3": 1, "a": 5}])) == [68]


def test_an_observed_tree_tests_hardly_more_than_one_that_knew_everything() -> None:
    """Zipf's law: popular attributes are common in events, so partitions by them prune little."""
    workload = Workload(size=3_000, distribution="zipf")
    expressions = encode([text for _, text in workload.rules()])
    rows = expressions.encode(list(workload.events(500)))
    sample, rest = rows_between(rows, 0, 400), rows_between(rows, 400, 500)
    tree, batch = expressions.tree(), expressions.tree()
    numbers = np.arange(len(expressions))
    insert(tree, expressions, numbers)
    start, atom = expressions.lists()
    preferred = rarest_attributes(expressions.rules.atoms, start, atom, 3)
    batch.insert_many(numbers, expressions.rules.atoms, start, atom, preferred)
    before = tree.measure_work(rest)
    for _ in range(3):
        tree.observe(sample)
    after, aim = tree.measure_work(rest), batch.measure_work(rest)
    assert before.expressions > 2 * aim.expressions
    assert after.expressions <= 1.5 * aim.expressions
    assert after.matches == aim.matches
    assert tree.recycled > 0
    check(tree, expressions, range(len(expressions)))


@pytest.mark.parametrize("size", [_FEW_EVENTS, 2 * _FEW_EVENTS], ids=["few", "many"])
def test_events_observed_at_once_adapt_a_tree_as_one_by_one(size: int) -> None:
    random, expressions = Random(8), everything(8, 300)
    rows = expressions.encode([randoms.event(random, EVERYTHING) for _ in range(size)])
    alive = list(range(len(expressions)))
    at_once, one_by_one = (expressions.build_tree(alive, max_capacity=3) for _ in range(2))
    for _ in range(3):
        at_once.observe(rows)
        for row in range(size):
            one_by_one.observe(rows_between(rows, row, row + 1))
    assert at_once.recycled == one_by_one.recycled > 0
    assert np.array_equal(at_once.books.presence, one_by_one.books.presence)
    assert np.array_equal(at_once.books.home, one_by_one.books.home)
    assert at_once.measure_work(rows) == one_by_one.measure_work(rows)
    check(at_once, expressions, alive)


def test_a_c_node_that_costs_more_than_it_gains_is_recycled_with_all_below() -> None:
    random, expressions = Random(13), everything(13, 200)
    events = [randoms.event(random, EVERYTHING, several=0.3) for _ in range(60)]
    rows = expressions.encode(events)
    alive = list(range(len(expressions)))
    tree = expressions.build_tree(alive, max_capacity=3, min_partition=2)
    recycled = halves_recycled = 0
    for step in range(60):
        state = tree._search_state()
        _, visits, _, _ = tree._search_counting(rows, step, state, np.zeros(4, np.int64))
        cnode = tree.nodes.cnode
        visited = [c for c in state.visited[:visits].tolist() if cnode[c, TOTAL] > cnode[c, SIZE]]
        if not visited[1:]:
            continue
        c = random.choice(visited[1:])
        halves_recycled += bool(cnode[c, PARENT] >= 0)
        # As if its window were at an end in which it cost far too much.
        tree.books.cwatch[c] = 10_000, 1_000_000, tree.books.state[CLOCK]
        before = tree.recycled
        tree.observe(rows_between(rows, step, step + 1))
        recycled += tree.recycled > before
        check(tree, expressions, alive)
        assert tree.match(rows, step) == expressions.find_matching(alive, events[step])
    assert recycled > 10
    assert halves_recycled > 3


def test_operations_and_observations_in_turn_keep_the_invariance() -> None:
    random, expressions = Random(12), everything(12, 150)
    tree = expressions.tree(max_capacity=3, min_partition=2)
    events = [randoms.event(random, EVERYTHING, several=0.3) for _ in range(60)]
    rows = expressions.encode(events)
    alive: list[int] = []
    for step in range(60):
        for _ in range(4):
            absent = [n for n in range(len(expressions)) if n not in alive]
            if absent and (not alive or random.random() < 0.7):
                alive.append(random.choice(absent))
                expressions.insert(tree, alive[-1])
            else:
                tree.delete(alive.pop(random.randrange(len(alive))))
        tree.observe(rows)
        check(tree, expressions, alive)
        assert tree.match(rows, step) == expressions.find_matching(alive, events[step])
    uses = [
        sum(expressions.interval(n, a) is not None for n in alive)
        for a in range(len(expressions.rules.dictionary.axes))
    ]
    assert tree.books.uses.tolist() == uses


def test_the_capacity_follows_the_match_rate() -> None:
    expressions = encode([f"a > {i}" for i in range(200)])
    tree = expressions.build_tree(range(200))
    assert tree.books.state[MAX_CAP] == 20
    tree.observe(expressions.encode([{"a": 20}]))
    assert tree.books.state[MAX_CAP] == choose_capacity(0.1) == 80
    tree.observe(expressions.encode([{"a": 0}]))
    assert tree.books.state[MAX_CAP] == 20
    assert choose_capacity(1.0) == 160
    fixed = expressions.build_tree(range(200), max_capacity=7)
    fixed.observe(expressions.encode([{"a": 200}]))
    assert fixed.books.state[MAX_CAP] == 7


def test_a_boundary_keeps_events_out() -> None:
    """All expressions allow an `a` from 40 to 42: other events visit the root only."""
    rules = [f"a BETWEEN 40 AND 42 AND NOT b = {i}" for i in range(30)]
    expressions = encode([*rules, "a = 7"], ["weak"])
    tree = expressions.build_tree(range(30), max_capacity=5, min_partition=3)
    inside, outside = (tree.measure_work(expressions.encode([{"a": a}])) for a in (41, 7))
    assert (inside.nodes > 1, inside.expressions) == (True, 30)
    assert (outside.nodes, outside.expressions) == (1, 0)


SIZE_OF_WORKLOADS = 1_500


def workloads() -> tuple[Expressions, list[dict[str, int]]]:
    """Uniform rules, then rules by Zipf's law; and events, half of them of either kind."""
    kinds: tuple[Distribution, ...] = ("uniform", "zipf")
    texts, events = [], []
    for kind in kinds:
        workload = Workload(
            size=SIZE_OF_WORKLOADS, dimensions=100, distribution=kind, match_probability=0.01
        )
        texts += [text for _, text in workload.rules()]
        events += workload.events(40)
    return encode(texts), events


def test_a_tree_adapts_from_uniform_to_zipf_and_back() -> None:
    """Like figure 13, but without time: the work returns to that of a new tree."""
    expressions, events = workloads()
    rows = expressions.encode(events)
    size = len(expressions) // 2
    uniform, zipf = np.arange(size), np.arange(size, 2 * size)
    tree = expressions.tree()
    insert(tree, expressions, uniform)
    for old, new in ((uniform, zipf), (zipf, uniform)):
        for part in np.array_split(np.arange(size), 10):
            tree.delete_many(old[part])
            insert(tree, expressions, new[part])
            tree.observe(rows)
        check(tree, expressions, new.tolist())
        fresh = expressions.tree()
        insert(fresh, expressions, new)
        adapted, rebuilt = tree.measure_work(rows), fresh.measure_work(rows)
        assert adapted.expressions <= rebuilt.expressions
        assert adapted.nodes + adapted.expressions <= rebuilt.nodes + rebuilt.expressions


def insert(tree: BeTree, expressions: Expressions, numbers: np.ndarray) -> None:
    atoms = [expressions.of(number) for number in numbers.tolist()]
    start = np.cumsum([0, *map(len, atoms)])
    flat = np.array([atom for each in atoms for atom in each], np.int32)
    tree.insert_many(numbers, expressions.rules.atoms, start, flat)


# --- Engines ----------------------------------------------------------------------------


def test_a_compacted_tree_is_the_same_tree() -> None:
    expressions = everything(9, 200)
    order = list(range(len(expressions)))
    tree = expressions.build_tree(order, max_capacity=3)
    for number in order[::2]:
        tree.delete(number)
    before = Structure(tree).placement
    tree.nodes = tree.compact_nodes()
    after = Structure(tree)
    assert after.placement == before
    assert len(after.buckets) == len(tree.nodes.cnode)
    assert sum(len(entry) for b in after.buckets for entry in after.entries(b.c)) == len(
        tree.nodes.word
    )
    assert [b.row[PARENT] for b in after.buckets[1:]] == [
        parent_of(after, b) for b in after.buckets[1:]
    ]


def parent_of(seen: Structure, bucket: Bucket) -> int:
    (above,) = [b for b in seen.buckets if b.path == bucket.path[:-1]]
    directory = seen.directory(above.c)
    attribute = bucket.row[ATTRIBUTE]
    return ~directory[attribute] if attribute in directory else above.c


def test_a_batch_is_partitioned_by_the_rarest_attribute() -> None:
    common = [f"a = {i} AND b > {i % 3}" for i in range(60)]
    expressions = encode(
        [
            *common,
            *(f"a = {i} AND c = 1" for i in range(10)),
            "c = 2 AND a IS NULL",
            "d = 1",
            "TRUE",
        ]
    )
    start, atom = expressions.lists()
    preferred = rarest_attributes(expressions.rules.atoms, start, atom, 3)
    _, b, c, _ = (expressions.rules.dictionary.attributes[name] for name in "abcd")
    assert preferred.tolist() == [*[b] * 60, *[c] * 11, NOWHERE, NOWHERE]
    engine = BetreeBatch(expressions.rules)
    root = engine.arrays.nodes.cnode[ROOT]
    assert set(engine.arrays.nodes.slot[: root[SLOTS], 0].tolist()) - {NOWHERE} == {b, c}


def test_the_root_partitions_by_the_preferred_attribute() -> None:
    """In any tree: no expression is lost, and no attribute has two partitions."""
    random, expressions = Random(10), everything(10, 200)
    order = list(range(len(expressions)))
    random.shuffle(order)
    tree = expressions.tree(max_capacity=3, min_partition=2)
    for place, number in enumerate(order):
        attributes = range(len(expressions.rules.dictionary.axes))
        needed = [a for a in attributes if expressions.interval(number, a) is not None]
        attribute = random.choice([NOWHERE, *needed])
        atom = np.array(expressions.of(number), np.int32)
        start, preferred = np.array([0, len(atom)]), np.array([attribute], np.int32)
        tree.insert_many(np.array([number]), expressions.rules.atoms, start, atom, preferred)
        seen = check(tree, expressions, order[: place + 1])
        (path,) = [b.attributes for b in seen.buckets if number in seen.leaf(b.c)]
        assert attribute == NOWHERE or path[0] == attribute


def test_an_engine_adapts_to_a_sample_of_events() -> None:
    rules = [f"a > 0 AND x{i} = 1" for i in range(40)]
    encoded_rules = encode(rules).rules
    sample = EventEncoder(encoded_rules).encode_many([{"a": 5}] * 200)
    events = EventEncoder(encoded_rules).encode_many([{"a": 1, "x3": 1}, {"x4": 1}])
    for engine in (Betree(encoded_rules), Betree(encoded_rules, sample=sample)):
        assert engine.match(events).rule.tolist() == [3]


@pytest.mark.parametrize("compiled", [True, False])
def test_packed_l_nodes_match_as_the_tree_does(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs and lists are packed; negations, texts, and distant values are tested by row."""
    random = Random(14)
    texts = [
        *(f"n BETWEEN {i} AND {i + 7} AND m IN ({i}, {i + 2}, {i + 30})" for i in range(40)),
        *(f"n IN ({i}, {i + 300}) AND m > {i}" for i in range(40)),
        *(f"m = {i} AND NOT n = {i} AND s LIKE '%a%'" for i in range(20)),
        *(f"x{i} = 1" for i in range(400)),
        "TRUE",
    ]
    expressions = encode(texts)
    tree = expressions.build_tree(range(len(expressions)))
    engine = Betree(expressions.rules)
    leaves = engine.arrays.leaves
    counts = {int(head >> np.uint64(32)) & 255 for head in leaves.packed[leaves.start[:-1]]}
    assert BY_ROW in counts or len(leaves.row)
    assert len(leaves.row) < len(tree.nodes.word) / 2
    events = [
        {
            "n": [random.randrange(60) for _ in range(random.randint(1, 1 + i % 2))],
            "m": random.randrange(60),
            "s": "aa",
            f"x{i}": 1,
        }
        for i in range(30)
    ]
    rows = expressions.encode(events)
    expected = [tree.match(rows, row) for row in range(len(events))]
    if not compiled:
        interpret(monkeypatch)
        rows = rows_between(rows, 0, 6)
    start, rule = engine.match(rows)
    for row in range(len(start) - 1):
        assert rule[start[row] : start[row + 1]].tolist() == expected[row]
    assert sum(map(len, expected)) > 60
