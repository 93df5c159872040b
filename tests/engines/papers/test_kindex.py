"""The worked examples of "Indexing Boolean Expressions", step by step, and what it leaves out.

Kernels run as plain Python with their trace hooks replaced, to see each step. Things are numbered
from 0 here and from 1 in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from tamis.encode.arrays import Events
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine, Parts
from tamis.engines.kernels import ranking
from tamis.engines.normal_forms import are_sums, with_absorbed
from tamis.engines.papers.kindex import KIndex, KIndexCnf, cnf, dnf, walk
from tamis.engines.papers.kindex.clauses import build_clauses
from tamis.engines.papers.kindex.postings import LOOSE, UNBOUNDED, PostingArrays
from tamis.engines.scan import Scan
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import flatten
from tamis.expr.model import LOGICS, And, Expr, Logic, Or
from tamis.expr.text.grammar import parse
from tamis.expr.weights import EventWeights, RuleWeights
from tests import randoms
from tests.randoms import EVERYTHING

Key = tuple[str, Any]
Weights = dict[Any, float]

Z: Key = ("Z", None)
NULL = object()
IN, OUT = "∈", "∉"


class Indexed(NamedTuple):
    """An engine, and the names of the keys that its rules mention."""

    engine: Engine
    names: dict[int, Key]

    @property
    def postings(self) -> PostingArrays:
        return self.engine.arrays.postings  # type: ignore[attr-defined, no-any-return]  # of both

    @property
    def key_of_list(self) -> list[Key]:
        lists = np.diff(self.postings.list_start)
        return [self.names[key] for key in np.repeat(np.arange(len(lists)), lists).tolist()]

    def entry(self, place: int) -> tuple[Any, ...]:
        entry = int(self.postings.entry[place])
        plain = (entry // 2 + 1, IN if entry % 2 else OUT)
        if len(self.postings.disjunction) == 0:
            return plain
        return (*plain, int(self.postings.disjunction[place]))

    def lists(self, size: int) -> list[tuple[Key, list[tuple[Any, ...]]]]:
        """The lists of a K-index, in the order of their first entries."""
        found = []
        for number, key in enumerate(self.key_of_list):
            if self.postings.size[self.postings.partition[number]] == size:
                places = range(*self.postings.entry_start[number : number + 2])
                found.append((key, [self.entry(place) for place in places]))
        return sorted(found, key=lambda item: (item[1][0][0], item[1][0][1] == IN))

    def encode_event(self, event: Mapping[str, Any], weights: Weights | None = None) -> Events:
        encoder = EventEncoder(self.engine.rules)
        if weights is None:
            return encoder.encode(dict(event))
        return encoder.encode_weighted(flatten(dict(event)), EventWeights.of(weights))

    def with_bounds(self, bounds: Mapping[Key, float]) -> Indexed:
        """The same index with other upper bounds."""
        bound = np.array([bounds[key] for key in self.key_of_list])
        arrays: Any = self.engine.arrays
        arrays = arrays._replace(postings=self.postings._replace(bound=bound))
        parts = Parts(self.engine.rules, self.engine.order, arrays)
        return Indexed(type(self.engine)(self.engine.rules, parts), self.names)


def encode(rules: Sequence[str | Expr], logic: Logic, weights: Sequence[Weights] = ()) -> Any:
    encoder = RuleEncoder()
    for number, rule in enumerate(rules):
        tree = parse(rule) if isinstance(rule, str) else rule
        own = RuleWeights.of(weights[number], tree) if weights else None
        encoder.add(tree, logic, own)
    return encoder.finish()


def build_index(
    kind: type[Engine], rules: EncodedRules, values: Mapping[str, Sequence[Any]]
) -> Indexed:
    engine = kind(rules)
    trees = rules.dictionary.base * 2
    names = {int(trees[-1]) + rules.texts.size: Z}
    for attribute, among in values.items():
        number = rules.dictionary.attributes[attribute]
        axis = rules.dictionary.axes[number]
        leaf = int(trees[number]) + axis.size
        names |= {leaf + axis.code(value): (attribute, value) for value in among}
        names[leaf] = (attribute, NULL)
    return Indexed(engine, names)


class Step(NamedTuple):
    """The sorted lists of a K-index, and the bound that was computed."""

    size: int
    lists: list[tuple[Key, Any]]
    """The key of each list, and its current id and annotation; None at its end."""
    bound: float | None


@pytest.fixture
def steps(interpreted, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that traces an index; returns the list to which steps are added."""

    def watch(index: Indexed) -> list[Step]:
        found: list[Step] = []
        keys = index.key_of_list

        def trace_lists(
            cursors: Any, partition: int, front: int, rest: int, needed: int, bound: float
        ) -> None:
            first, last = cursors.start[partition], cursors.start[partition + 1]
            heads, others = cursors.head[:front].tolist(), cursors.heap[:rest].tolist()
            assert heads == sorted(heads)
            assert max(heads) < min(others, default=np.inf)
            lists: list[tuple[Key, Any]] = []
            ended = set(range(last - first))
            for head in [*heads, *sorted(others)]:
                slot = walk.slot_of(head)
                ended.remove(slot)
                at = (walk.thing_of(head) + 1, IN if walk.stands_in(head) else OUT)
                assert index.entry(cursors.at[slot])[:2] == at
                lists.append((keys[cursors.chosen[cursors.order[first + slot]]], at))
            for slot in sorted(ended):
                assert cursors.at[slot] == cursors.stop[slot]
                lists.append((keys[cursors.chosen[cursors.order[first + slot]]], None))
            size = int(index.postings.size[partition])
            found.append(Step(size, lists, None if bound == walk.NO_FLOOR else bound))

        monkeypatch.setattr(walk, "trace_lists", trace_lists)
        return found

    return watch


def ids(index: Indexed, events: Events) -> list[int]:
    return sorted((index.engine.match(events).rule + 1).tolist())


# --- Conjunctions: figures 1 to 6 -------------------------------------------------------

FIGURE_1 = [
    "age IN (3) AND state IN ('NY')",
    "age IN (3) AND gender IN ('F')",
    "age IN (3) AND gender IN ('M') AND state NOT IN ('CA')",
    "state IN ('CA') AND gender IN ('M')",
    "age IN (3, 4)",
    "state NOT IN ('CA', 'NY')",
]
DNF_VALUES = {"age": (3, 4), "state": ("CA", "NY"), "gender": ("F", "M")}

AGE_3, AGE_4 = ("age", 3), ("age", 4)
CA, NY = ("state", "CA"), ("state", "NY")
F, M = ("gender", "F"), ("gender", "M")

DNF_WEIGHTS: list[Weights] = [
    {AGE_3: 0.1, NY: 4.0},
    {AGE_3: 0.1, F: 0.3},
    {AGE_3: 0.2, M: 0.5},
    {CA: 1.5, M: 0.9},
    {AGE_3: 0.1, AGE_4: 0.5},
    {},
]
DNF_BOUNDS = {AGE_3: 1.0, AGE_4: 3.0, CA: 2.0, NY: 5.0, F: 2.0, M: 1.0, Z: 0.0}


@pytest.fixture
def figure_2() -> Indexed:
    return build_index(KIndex, encode(FIGURE_1, "weak", DNF_WEIGHTS), DNF_VALUES)


def test_posting_lists_are_those_of_figure_2(figure_2: Indexed) -> None:
    assert figure_2.postings.size.tolist() == [0, 1, 2]
    assert figure_2.lists(0) == [(CA, [(6, OUT)]), (NY, [(6, OUT)]), (Z, [(6, IN)])]
    assert figure_2.lists(1) == [(AGE_3, [(5, IN)]), (AGE_4, [(5, IN)])]
    # The first entries of two pairs of lists are equal, so the paper allows either order.
    assert figure_2.lists(2) == [
        (AGE_3, [(1, IN), (2, IN), (3, IN)]),
        (NY, [(1, IN)]),
        (F, [(2, IN)]),
        (CA, [(3, OUT), (4, IN)]),
        (M, [(3, IN), (4, IN)]),
    ]


def test_the_conjunction_algorithm_goes_through_figures_3_to_6(figure_2: Indexed, steps) -> None:
    seen = steps(figure_2)
    event = figure_2.encode_event({"age": 3, "state": "CA", "gender": "M"})
    assert ids(figure_2, event) == [4, 5]
    figure_4, figure_5, figure_6, of_size_1, of_size_0 = seen
    assert figure_4 == Step(2, [(AGE_3, (1, IN)), (CA, (3, OUT)), (M, (3, IN))], None)
    # c1 and c2 are skipped.
    assert figure_5.lists[0] == (CA, (3, OUT))
    assert sorted(figure_5.lists[1:]) == [(AGE_3, (3, IN)), (M, (3, IN))]
    # c3 is rejected by the ∉ that comes first.
    assert sorted(figure_6.lists[:2]) == [(M, (4, IN)), (CA, (4, IN))]
    assert figure_6.lists[2] == (AGE_3, None)
    assert of_size_1 == Step(1, [(AGE_3, (5, IN))], None)
    assert of_size_0 == Step(0, [(CA, (6, OUT)), (Z, (6, IN))], None)


# --- CNF: figures 7 to 9 ----------------------------------------------------------------

FIGURE_7 = [
    "(A = 1 OR B = 1) AND (C = 1 OR D = 1)",
    "(A = 1 OR C = 2) AND (B = 1 OR D = 1)",
    "(A = 1 OR B = 1) AND (C = 2 OR D = 1)",
    "(A = 1 OR B = 1) AND (A IN (1, 2) OR D = 1)",
    "(A = 1 OR B = 1) AND (C NOT IN (1, 2) OR D <> 1 OR E = 1)",
    "A <> 1 OR B = 1",
]
CNF_VALUES = {"A": (1, 2), "B": (1,), "C": (1, 2), "D": (1,), "E": (1,)}

A1, A2, B1, C1, C2, D1, E1 = (("A", 1), ("A", 2), ("B", 1), ("C", 1), ("C", 2), ("D", 1), ("E", 1))

CNF_WEIGHTS: list[Weights] = [
    {A1: 0.1, B1: 0.3, C1: 0.2, D1: 2.1},
    {A1: 0.3, B1: 0.5, C2: 2.5, D1: 2.5},
    {A1: 0.3, B1: 0.3, C2: 2.7, D1: 1.7},
    {A1: 0.1, A2: 0.1, B1: 0.5, D1: 1.9},
    {A1: 0.1, B1: 0.7, E1: 3.9},
    {B1: 0.1},
]
CNF_BOUNDS = {A1: 0.5, A2: 1.0, B1: 1.5, C1: 2.5, C2: 3.0, D1: 3.5, E1: 4.5, Z: 0.0}


@pytest.fixture
def figure_8() -> Indexed:
    return build_index(KIndexCnf, encode(FIGURE_7, "weak", CNF_WEIGHTS), CNF_VALUES)


def test_posting_lists_are_those_of_figure_8(figure_8: Indexed) -> None:
    assert figure_8.lists(0) == [(A1, [(6, OUT, 0)]), (B1, [(6, IN, 0)]), (Z, [(6, IN, -1)])]
    assert figure_8.lists(1) == [
        (C1, [(5, OUT, 1)]),
        (C2, [(5, OUT, 1)]),
        (D1, [(5, OUT, 1)]),
        (A1, [(5, IN, 0)]),
        (B1, [(5, IN, 0)]),
        (E1, [(5, IN, 1)]),
    ]
    assert figure_8.lists(2) == [
        (A1, [(1, IN, 0), (2, IN, 0), (3, IN, 0), (4, IN, 0)]),
        (B1, [(1, IN, 0), (2, IN, 1), (3, IN, 0), (4, IN, 0)]),
        (C1, [(1, IN, 1)]),
        (D1, [(1, IN, 1), (2, IN, 1), (3, IN, 1), (4, IN, 1)]),
        (C2, [(2, IN, 0), (3, IN, 1)]),
        (A1, [(4, IN, 1)]),
        # The figure has disjunction 0, but the expression has A = 2 in the other one.
        (A2, [(4, IN, 1)]),
    ]
    arrays: Any = figure_8.engine.arrays
    fifth = arrays.clause_negated[arrays.clause_start[4] : arrays.clause_start[5]]
    assert fifth.tolist() == [0, 2]


def test_the_counters_of_the_cnf_algorithm_are_those_of_the_text(
    figure_8: Indexed, steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = steps(figure_8)
    counters: dict[int, list[int]] = {}

    def trace_counters(rule: int, counter: np.ndarray, count: int) -> None:
        counters[rule + 1] = counter[:count].tolist()

    monkeypatch.setattr(cnf, "trace_counters", trace_counters)
    event = figure_8.encode_event({"A": 1, "C": 2})
    assert ids(figure_8, event) == [3, 4, 5]
    assert counters == {2: [1, 0], 3: [1, 1], 4: [1, 1], 5: [1, -1], 6: [0]}
    # Figure 9.
    assert seen[0] == Step(2, [(A1, (1, IN)), (C2, (2, IN)), (A1, (4, IN))], None)
    assert Step(1, [(C2, (5, OUT)), (A1, (5, IN))], None) in seen
    assert seen[-1] == Step(0, [(A1, (6, OUT)), (Z, (6, IN))], None)


# --- Ranking: figures 10 to 13 ----------------------------------------------------------


def test_conjunctions_are_ranked_and_pruned_as_in_figures_10_to_12(
    figure_2: Indexed, steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = figure_2.with_bounds(DNF_BOUNDS)
    seen = steps(index)
    bounds: list[tuple[int, float]] = []

    def bound_partition(cursors: Any, count: int, size: int, several: bool) -> float:
        bounds.append((size, plain(cursors, count, size, several)))
        return bounds[-1][1]

    plain: Any = walk.bound_partition
    monkeypatch.setattr(dnf, "bound_partition", bound_partition)
    weights = {AGE_3: 0.8, NY: 1.0, F: 0.9}
    event = index.encode_event({"age": 3, "state": "NY", "gender": "F"}, weights)
    rule, score = index.engine.top_one(event, 1)
    assert (rule + 1).tolist() == [1]
    assert score.tolist() == pytest.approx([4.08])
    figure_10, figure_11 = seen
    assert sorted(figure_10.lists) == [(AGE_3, (1, IN)), (F, (2, IN)), (NY, (1, IN))]
    assert sorted(figure_11.lists[:2]) == [(AGE_3, (2, IN)), (F, (2, IN))]
    assert figure_11.lists[2] == (NY, None)
    assert figure_11.bound == pytest.approx(2.6)
    # Figure 12, and the same for K = 0: neither partition is searched.
    assert bounds == [(1, pytest.approx(0.8)), (0, 0.0)]


def test_cnfs_are_ranked_and_pruned_as_in_figure_13(figure_8: Indexed, steps) -> None:
    index = figure_8.with_bounds(CNF_BOUNDS)
    seen = steps(index)
    event = index.encode_event({"A": 1, "C": 2}, {A1: 0.1, C2: 0.9})
    rule, score = index.engine.top_one(event, 1)
    assert (rule + 1).tolist() == [3]
    assert score.tolist() == pytest.approx([2.46])
    pruned = [step for step in seen if step.lists[0][1] == (4, IN)]
    assert [step.bound for step in pruned] == [pytest.approx(0.1)]
    assert all(step.bound is None for step in seen[: seen.index(pruned[0])])


# --- The contents of lists -----------------------------------------------------------


def test_a_strong_not_in_is_also_a_weak_not_in_of_null() -> None:
    rules = ["a NOT IN (1, 2) AND b = 1"]
    values = {"a": (1, 2), "b": (1,)}
    weak = build_index(KIndex, encode(rules, "weak"), values)
    strong = build_index(KIndex, encode(rules, "strong"), values)
    assert [key for key, _ in weak.lists(1)] == [("a", 1), ("a", 2), ("b", 1)]
    assert [key for key, _ in strong.lists(1)] == [("a", NULL), ("a", 1), ("a", 2), ("b", 1)]
    assert strong.lists(1)[0] == (("a", NULL), [(1, OUT)])
    for event, expected in (({"b": 1}, [[1], []]), ({"a": 3, "b": 1}, [[1], [1]])):
        assert [ids(index, index.encode_event(event)) for index in (weak, strong)] == expected
        assert ids(weak, weak.encode_event({**event, "a": 2})) == []


@pytest.mark.parametrize("kind", [KIndex, KIndexCnf])
def test_a_range_is_few_nodes_of_the_hierarchy(kind: type[Engine]) -> None:
    """Like the paper's 2006/12 to 2009/01, which is two months and two years."""
    rules = [f"month >= {first} AND x = 1" for first in range(500)]
    rules.append("month BETWEEN 37 AND 463")
    encoded = encode(rules, "weak")
    postings: PostingArrays = kind(encoded).arrays.postings  # type: ignore[attr-defined]
    codes = np.diff(encoded.dictionary.base).max()
    entries = int((postings.entry >> 1 == 500).sum())
    assert codes > 427
    assert 1 < entries <= 2 * np.log2(codes)


def test_a_thing_is_in_a_list_at_most_once() -> None:
    """Even with two disjunctions, or with two predicates on an attribute."""
    random = Random(5)
    trees = [randoms.rule(random, EVERYTHING, 3) for _ in range(300)]
    rules = encode(trees, "strong")
    for kind in (KIndex, KIndexCnf):
        postings: PostingArrays = kind(rules).arrays.postings
        first, last = postings.entry_start[:-1], postings.entry_start[1:]
        assert (last > first).all()
        for start, stop in zip(first, last, strict=True):
            assert (np.diff(postings.entry[start:stop] >> 1) > 0).all()


@pytest.mark.usefixtures("interpreted")
def test_skipping_gallops_to_the_first_entry_that_is_not_below() -> None:
    random = Random(1)
    for size in (1, 2, 3, 10, 100):
        entry = np.array(sorted(random.sample(range(3 * size), size)), np.int32)
        for at in range(size):
            for target in range(entry[at] + 1, 3 * size + 2):
                place = walk._skip_to(entry, at, size, target)
                assert place == at + np.searchsorted(entry[at:], target)


# --- Where the CNF and the bounds come from ---------------------------------------------


def test_clauses_hold_where_their_rule_does() -> None:
    random = Random(8)
    rules: list[tuple[Expr, Logic]] = [
        (randoms.rule(random, EVERYTHING, 3), random.choice(LOGICS)) for _ in range(200)
    ]
    encoder = RuleEncoder()
    for tree, logic in rules:
        encoder.add(tree, logic)
    clauses = build_clauses(encoder.finish())
    assert not clauses.traits[:100].all()
    events = [flatten(randoms.event(random, EVERYTHING, several=0.3)) for _ in range(20)]
    for number, (tree, logic) in enumerate(rules):
        own = range(clauses.start[number], clauses.start[number + 1])
        atoms = [
            [encoder._atoms[a] for a in clauses.atom[slice(*clauses.atom_start[c : c + 2])]]
            for c in own
        ]
        for event in events:
            holds = all(any(evaluate_flat(a, event, "strong") for a in any_of) for any_of in atoms)
            expected = evaluate_flat(tree, event, logic) is True
            assert holds == expected or (clauses.traits[number] & LOOSE and holds)


def test_a_rule_without_a_small_cnf_has_a_cover() -> None:
    conjunctions = [And(tuple(parse(f"{a}{i} = 1") for a in "abcd")) for i in range(12)]
    clauses = build_clauses(encode([Or(tuple(conjunctions)), "a0 = 1"], "strong"))
    assert clauses.traits.tolist() == [LOOSE | UNBOUNDED, 0]
    assert np.diff(clauses.start).tolist() == [1, 1]
    assert np.diff(clauses.atom_start).tolist() == [12, 1]


SUMS = {
    "a = 1": True,
    "a = 1 AND b = 2": True,
    "a = 1 AND b = 2 OR c = 3 OR d <> 4 AND a = 2": True,
    "(a = 1 OR b = 2) AND c = 3": True,
    "(a = 1 OR b = 2) AND (a = 1 OR c = 3)": False,
    "a = 1 OR a = 1 AND b = 2": False,
    "a = 1 OR a = 2": False,
    "a > 1 AND a > 2": False,
    "a = 1 AND a = 1": False,
    "a = 1 OR TRUE": False,
}


def test_scores_are_sums_unless_a_rule_was_rewritten() -> None:
    rules = encode(list(SUMS), "strong")
    assert are_sums(rules).tolist() == list(SUMS.values())


def test_conjunctions_that_contain_another_are_indexed_as_they_are_written() -> None:
    written = ["a = 1 OR a = 1 AND b = 2", "a = 1", "a = 1 OR a = 1 AND a = 2", "c = 1 OR c = 1"]
    rules = encode(written, "strong")
    assert are_sums(rules).tolist() == [False, True, False, False]
    all_of, sums = with_absorbed(rules)
    assert sums.tolist() == [True, True, False, True]
    starts, atoms = all_of.forms.conjunction_start, all_of.forms.conjunction_atom
    owned = {
        frozenset(atoms[starts[i] : starts[i + 1]].tolist()): all_of.forms.owner[
            slice(*all_of.forms.owner_start[i : i + 2])
        ].tolist()
        for i in range(len(starts) - 1)
    }
    a, ab = sorted((atoms for atoms, rules in owned.items() if 0 in rules), key=len)
    assert a < ab
    assert owned[a] == [0, 1, 2]
    assert owned[ab] == [0]


@pytest.mark.parametrize("kind", [KIndex, KIndexCnf])
def test_pruning_saves_work_without_changing_answers(
    kind: type[Engine], interpreted, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(9)
    rules, weights = [], []
    base = {(f"a{i}", value): random.choice((0.1, 1, 9)) for i in range(8) for value in range(3)}
    for _ in range(400):
        keys = [(f"a{i}", random.randrange(3)) for i in random.sample(range(8), 3)]
        rules.append(" AND ".join(f"{name} = {value}" for name, value in keys))
        weights.append({key: base[key] * random.choice((0.8, 0.9, 1)) for key in keys})
    encoded = encode(rules, "strong", weights)
    plain, pruned = Scan(encoded), kind(encoded)
    scored = 0

    def score_rule(*arguments: Any) -> Any:
        nonlocal scored
        scored += 1
        return original(*arguments)

    module: Any = ranking if kind is KIndex else cnf
    original = module.score_rule
    monkeypatch.setattr(module, "score_rule", score_rule)
    encoder = EventEncoder(encoded)
    matches = 0
    for _ in range(20):
        event = encoder.encode({f"a{i}": random.randrange(3) for i in range(8)})
        expected = plain.top_one(event, 2)
        found = pruned.top_one(event, 2)
        assert found[0].tolist() == expected[0].tolist()
        assert found[1].tolist() == expected[1].tolist()
        matches += len(plain.match(event).rule)
    assert 0 < scored < 0.7 * matches
