"""The worked examples of "Index Structures and Algorithms for Efficient Profile Matching".

Its figures are not available, so Example 4 is reconstructed from the text: the keys 35 and 25,
their lists, and what x = 20 finds. All other nodes were computed by hand. In trees grown without
rules, a value is its own code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from tamis.encode.dictionary import FIRST
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.papers.intervals import arrays, match
from tamis.engines.papers.intervals.arrays import LISTED, NO_NODE, PASS, STOP, TreeArrays
from tamis.engines.papers.intervals.cluster_index import Splits, best_key, grow_cluster
from tamis.engines.papers.intervals.count_predicates import (
    count_evaluations,
    evaluate_event,
    members,
    search_tree,
)
from tamis.engines.papers.intervals.engine import IntervalEngine
from tamis.engines.papers.intervals.hybrid_index import grow_hybrid
from tamis.engines.papers.intervals.interval_index import grow_interval
from tamis.engines.papers.intervals.interval_tree import grow_interval_tree
from tamis.engines.papers.intervals.intervals import Intervals, cut_elementary
from tamis.engines.papers.intervals.segment_tree import grow_segment
from tamis.engines.papers.intervals.tree import Tree, balance, middle, plant_trees
from tamis.engines.registry import load_engine
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import flatten
from tamis.expr.model import LOGICS
from tamis.expr.text.grammar import parse
from tests import randoms
from tests.randoms import EVERYTHING

CODES = 100
EXAMPLE_4 = (
    (15, 25), (10, 40), (12, 45), (60, 70), (2, 50), (28, 30), (5, 55), (35, 58), (65, 80)
)  # fmt: skip
MATCHING = {4, 6, 1, 2, 0}
"""The intervals that contain x = 20."""

GROWN: dict[str, Callable[[Intervals, int], Tree]] = {
    "cluster": grow_cluster,
    "interval": grow_interval,
    "hybrid": grow_hybrid,
    "segment": grow_segment,
    "interval-tree": grow_interval_tree,
}
ALL = (*GROWN, "naive", "lazy")


def intervals_of(pairs: Sequence[tuple[int, int]]) -> Intervals:
    low, high = np.array(pairs, np.int64).reshape(-1, 2).T
    return Intervals(low, high, np.arange(len(pairs)))


def grow_trees(name: str) -> TreeArrays:
    return plant_trees([(0, GROWN[name](intervals_of(EXAMPLE_4), CODES))], 1)


def members_of(trees: TreeArrays, node: int) -> set[int]:
    return set(members(trees.vector, node))


def row(trees: TreeArrays, node: int) -> tuple[int, ...]:
    return tuple(trees.node[node].tolist())


def read_lists(trees: TreeArrays, node: int) -> tuple[list[int], list[int]]:
    run = slice(*trees.list_start[node : node + 2])
    return trees.rising[run, 0].tolist(), trees.falling[run, 0].tolist()


# --- Elementary intervals and keys ------------------------------------------------------


def test_every_endpoint_and_every_gap_is_an_elementary_interval() -> None:
    pieces = cut_elementary(intervals_of([(2, 18), (5, 30)]), 100)
    assert list(zip(*(part.tolist() for part in pieces), strict=True)) == [
        (0, 1), (2, 2), (3, 4), (5, 5), (6, 17), (18, 18), (19, 29), (30, 30), (31, 99)
    ]  # fmt: skip


def test_the_codes_of_numbers_are_the_elementary_intervals() -> None:
    """2n + 1 for n endpoints, including the open ones at both ends."""
    (axis,) = encode("x BETWEEN 2 AND 18", "x BETWEEN 5 AND 30").dictionary.axes
    values = (-1e300, 2, 3.5, 5, 17.9, 18, 29, 30, 1e300)
    assert [axis.code(value) for value in values] == [FIRST + i for i in range(9)]
    assert axis.strings_at == FIRST + 9


def test_neighbouring_endpoints_have_no_gap() -> None:
    pieces = cut_elementary(intervals_of([(0, 1), (2, 4)]), 5)
    assert pieces.first.tolist() == pieces.last.tolist() == [0, 1, 2, 3, 4]


def test_a_key_is_scored_by_balance_and_repetition() -> None:
    """Three of five intervals begin before 21, and four do not end before it; for 48, 5 and 2."""
    intervals = intervals_of([(2, 6), (6, 23), (19, 48), (21, 50), (23, 23)])
    splits = Splits.of(intervals)
    assert splits.key.tolist() == [2, 6, 19, 21, 23, 48, 50]
    score = dict(zip(splits.key.tolist(), splits.score.tolist(), strict=True))
    assert score[21] == 3
    assert score[48] == 5
    assert best_key(intervals) == 21


def test_a_key_is_found_unless_all_intervals_overlap() -> None:
    random = Random(9)
    split = 0
    for _ in range(300):
        lows = random.choices(range(30), k=random.randint(2, 12))
        intervals = intervals_of([(low, low + random.randint(0, 30)) for low in lows])
        key = best_key(intervals)
        assert (key is None) == (intervals.high.min() >= intervals.low.max())
        if key is not None:
            split += 1
            assert 0 < (intervals.low < key).sum() < intervals.size
            assert 0 < (intervals.high >= key).sum() < intervals.size
    assert 50 < split < 290


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12, 100])
def test_a_balanced_tree_has_the_middle_of_every_run_on_top(size: int) -> None:
    """Two runs at once, the second of the same size."""
    first = np.array([0, size])
    left, right = balance(first, first + size, 2 * size)

    def check(node: int, first: int, stop: int) -> None:
        if first == stop:
            assert node == NO_NODE
            return
        assert node == first + -(-(stop - first) // 2) - 1
        check(int(left[node]), first, node)
        check(int(right[node]), node + 1, stop)

    for begin, root in zip((0, size), middle(first, first + size).tolist(), strict=True):
        check(root, begin, begin + size)


# --- The trees of Example 4 -------------------------------------------------------------


def test_the_cluster_index() -> None:
    trees = grow_trees("cluster")

    def outline(node: int) -> Any:
        _, key, _, left, right = row(trees, node)
        if left == NO_NODE:
            return members_of(trees, node)
        assert not members_of(trees, node)
        return key, outline(left), outline(right)

    assert set(trees.node[:, 0].tolist()) == {PASS}
    assert outline(int(trees.root[0])) == (
        35,
        (28, MATCHING, {1, 2, 4, 5, 6}),
        (60, {1, 2, 4, 6, 7}, {3, 8}),
    )


def test_the_interval_index() -> None:
    trees = grow_trees("interval")
    node = int(trees.root[0])
    path = []
    while node != NO_NODE:
        kind, low, high, left, right = row(trees, node)
        assert kind == STOP
        path.append(((low, high), members_of(trees, node)))
        node = NO_NODE if low <= 20 <= high else left if low > 20 else right
    assert path == [
        ((35, 35), {1, 2, 4, 6, 7}),
        ((13, 14), {1, 2, 4, 6}),
        ((26, 27), {1, 2, 4, 6}),
        ((16, 24), MATCHING),
    ]
    # 18 endpoints, and 16 covered gaps: all but the one from 58 to 60.
    assert len(trees.node) == 34
    assert search_tree(trees, 0, 59).found == []


def test_the_hybrid_index() -> None:
    """The Cluster Index above, and below it elementary intervals of the codes that lead there."""
    trees = grow_trees("hybrid")
    kind, key, _, left, right = row(trees, int(trees.root[0]))
    assert (kind, key) == (PASS, 35)
    assert row(trees, left)[:2] == (PASS, 28)
    assert row(trees, right)[:2] == (PASS, 60)
    node = row(trees, left)[3]
    path = []
    while node != NO_NODE:
        kind, low, high, left, right = row(trees, node)
        assert kind == STOP
        path.append(((low, high), members_of(trees, node)))
        node = NO_NODE if low <= 20 <= high else left if low > 20 else right
    assert path == [
        ((11, 11), {1, 4, 6}),
        ((15, 15), MATCHING),
        ((25, 25), MATCHING),
        ((16, 24), MATCHING),
    ]


def test_groups_are_split_down_to_the_least_cluster() -> None:
    intervals = intervals_of([(3, 7), (20, 40)])
    assert grow_hybrid(intervals, CODES, least_cluster=2).node[:, 0].tolist() == [STOP] * 6
    tree = grow_hybrid(intervals, CODES, least_cluster=1)
    assert tree.node[tree.root].tolist() == [PASS, 20, 20, 1, 4]
    assert tree.node[[1, 4]].tolist() == [[STOP, 4, 6, 0, 2], [STOP, 21, 39, 3, 5]]


def test_the_segment_tree() -> None:
    """Leaves 0 to 36; leaf 10 is the gap from 15 to 25. Its ancestors, from the top."""
    trees = grow_trees("segment")
    node = int(trees.root[0])
    path = []
    while node != NO_NODE:
        kind, key, _, left, right = row(trees, node)
        assert kind == PASS
        path.append((key, members_of(trees, node)))
        node = left if key > 20 else right
    assert path == [
        (66, set()),
        (31, set()),
        (13, set()),
        (26, {1, 2, 4, 6}),
        (16, set()),
        (25, {0}),
        (16, set()),
    ]
    assert len(trees.node) == 2 * 37 - 1


def test_the_interval_tree() -> None:
    trees = grow_trees("interval-tree")
    root = int(trees.root[0])
    kind, key, _, left, right = row(trees, root)
    assert (kind, key) == (LISTED, 35)
    assert read_lists(trees, root) == ([4, 6, 1, 2, 7], [7, 6, 4, 2, 1])
    assert row(trees, left)[:4] == (LISTED, 25, 25, NO_NODE)
    assert read_lists(trees, left) == ([0], [0])
    assert row(trees, row(trees, left)[4])[1:] == (28, 28, NO_NODE, NO_NODE)
    assert row(trees, right)[1:] == (65, 65, NO_NODE, NO_NODE)
    assert read_lists(trees, right) == ([3, 8], [8, 3])
    # In the order of the paper; then 7 is compared, which does not contain it.
    assert search_tree(trees, 0, 20).found == [4, 6, 1, 2, 0]


def test_evaluations_are_counted_as_the_paper_describes_the_search() -> None:
    evaluations = {name: search_tree(grow_trees(name), 0, 20).evaluations for name in GROWN}
    assert evaluations == {
        "cluster": 2,
        "interval": 4,
        "hybrid": 2 + 4,
        "segment": 6,
        "interval-tree": (1 + 5) + (1 + 1),
    }


# --- Trees compared with all intervals ---------------------------------------------


@pytest.mark.parametrize("name", GROWN)
def test_a_search_finds_the_intervals_that_contain_the_value(name: str) -> None:
    random = Random(name)
    for size in (1, 2, 3, 10, 70, 200):
        most = random.choice((1, 5, 60))
        pairs = [(low, low + random.randrange(most)) for low in random.choices(range(90), k=size)]
        pairs = [(low, min(high, 89)) for low, high in pairs]
        trees = plant_trees([(1, GROWN[name](intervals_of(pairs), 90))], 2)
        for code in range(90):
            expected = [i for i, (low, high) in enumerate(pairs) if low <= code <= high]
            found = search_tree(trees, 1, code).found
            reached = np.zeros(-(-size // 64), np.uint64)
            match.search(trees, 1, np.int32(code), reached)
            compiled = [i for i in range(size) if int(reached[i >> 6]) >> (i & 63) & 1]
            assert compiled == sorted(set(found))
            if name == "cluster":
                assert set(expected) <= set(found)
            else:
                assert sorted(found) == expected
        assert search_tree(trees, 0, 5).found == []


# --- Engines ----------------------------------------------------------------------------


def encode(*rules: str) -> EncodedRules:
    encoder = RuleEncoder()
    for rule in rules:
        encoder.add(parse(rule), "strong")
    return encoder.finish()


def build_engine(name: str, rules: EncodedRules) -> IntervalEngine:
    engine = load_engine(name)(rules)
    assert isinstance(engine, IntervalEngine)
    return engine


@pytest.mark.parametrize("name", ALL)
def test_the_document_of_example_4(name: str) -> None:
    engine = build_engine(name, encode(*(f"x BETWEEN {low} AND {high}" for low, high in EXAMPLE_4)))
    events = EventEncoder(engine.rules).encode({"x": 20})
    assert set(engine.match(events).rule.tolist()) == MATCHING


def test_baselines_evaluate_all_atoms_or_up_to_the_first_that_fails() -> None:
    rules = encode("x = 1 AND y = 1 AND z = 1", "x = 2 AND y = 1", "x = 1 AND y = 2 AND z = 1")
    events = EventEncoder(rules).encode_many([{"x": 1, "y": 1, "z": 1}, {}, {"x": 2, "y": 5}])
    assert count_evaluations(build_engine("naive", rules), events).tolist() == [8, 8, 8]
    assert count_evaluations(build_engine("lazy", rules), events).tolist() == [6, 3, 4]


def mean_evaluations(width: int) -> dict[str, float]:
    """The mean for 100 rules with two intervals, over 50 events."""
    random = Random(1)

    def between(name: str) -> str:
        low = random.randrange(1_000)
        return f"{name} BETWEEN {low} AND {low + width}"

    rules = encode(*(f"{between('x')} AND {between('y')}" for _ in range(100)))
    some = [{name: random.randrange(1_000) for name in "xy"} for _ in range(50)]
    events = EventEncoder(rules).encode_many(some)
    return {name: count_evaluations(build_engine(name, rules), events).mean() for name in ALL}


def test_overlap_costs_what_the_paper_says() -> None:
    """Figure 8: overlap costs two indexes nothing and two much; the hybrid is in between."""
    apart, together = mean_evaluations(10), mean_evaluations(900)
    for name in ("interval", "segment"):
        assert together[name] == pytest.approx(apart[name], rel=0.1)
    for name in ("cluster", "interval-tree"):
        assert together[name] > 3 * apart[name]
    assert apart["cluster"] < apart["hybrid"] < apart["segment"] < apart["interval-tree"]
    assert together["hybrid"] < together["cluster"]
    assert apart["naive"] == together["naive"] == 200


def test_only_atoms_outside_of_trees_are_verified() -> None:
    """The wider of two atoms on an attribute, negations, texts, and atoms that hold on absence."""
    rules = encode(
        "x BETWEEN 1 AND 9 AND x BETWEEN 8 AND 12 AND y IN (1, 2)",
        "x = 3 AND y <> 7",
        "s LIKE '%a%' AND y = 2",
        "x IS NULL",
    )
    engine = build_engine("interval", rules)
    tests = np.diff(engine.arrays.test_start).tolist()
    assert tests == [1, 1, 1, 1]
    assert np.diff(build_engine("cluster", rules).arrays.test_start).tolist() == [3, 2, 2, 1]
    assert members(engine.arrays.mention, rules.dictionary.attributes["x"]) == [0, 1]
    assert members(engine.arrays.mention, rules.dictionary.attributes["y"]) == [0, 2]


@pytest.mark.parametrize("name", ALL)
def test_counting_finds_the_rules_of_evaluate(name: str) -> None:
    random = Random(4)
    encoder = RuleEncoder()
    rules = [(randoms.rule(random, EVERYTHING, 3), random.choice(LOGICS)) for _ in range(80)]
    for rule, logic in rules:
        encoder.add(rule, logic)
    engine = build_engine(name, encoder.finish())
    some = [randoms.event(random, EVERYTHING, several=0.4) for _ in range(20)]
    events = EventEncoder(engine.rules).encode_many(some)
    counts = count_evaluations(engine, events)
    for number, event in enumerate(some):
        matching = [
            i for i, rule in enumerate(rules) if evaluate_flat(rule[0], flatten(event), rule[1])
        ]
        found = evaluate_event(engine, events, number)
        assert found.found == matching
        assert found.evaluations == counts[number] > 0


def test_bit_vectors_have_the_items_of_lists() -> None:
    lists = [[0, 63, 64, 300], [], [5, 5, 4], [299]]
    start = np.cumsum([0, *map(len, lists)])
    vectors = arrays.pack_vectors((start, np.concatenate(lists).astype(np.int32)))
    assert [members(vectors, i) for i in range(4)] == [sorted(set(items)) for items in lists]
    assert vectors.place.tolist() == [0, 1, 4, 0, 4]
