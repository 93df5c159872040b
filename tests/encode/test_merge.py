"""Merged sets of rules answer as if their rules had been encoded together."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.encode.arrays import RANGE, SET
from tamis.encode.dictionary import Axis, Dictionary, code_range
from tamis.encode.events import EventEncoder
from tamis.encode.merge.rules import merge_rules
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.encode.serialize import from_arrays, to_arrays
from tamis.engines.registry import load_engine
from tamis.expr.event import FlatEvent, flatten
from tamis.expr.model import LOGICS, And, Expr, Logic, Op, Or, Predicate, predicates
from tamis.expr.weights import EventWeights, RuleWeights
from tests import randoms
from tests.encode.test_dictionary import predicates as predicates_on_x
from tests.encode.test_rule_forms import TENTHS, is_implied, single_conjunctions
from tests.encode.test_serialize import read_only
from tests.engines.test_kernels import too_large_for_a_dnf
from tests.randoms import EVERYTHING

# --- Rules, and a choice of them --------------------------------------------------------


class Weighed(NamedTuple):
    expr: Expr
    logic: Logic
    weights: dict[Any, float]


def weigh_predicates(random: Random, expr: Expr, chance: float) -> Weighed:
    weights: dict[Any, float] = {}
    for predicate in predicates(expr):
        if random.random() < chance:
            if predicate.op in (Op.EQ, Op.IN):
                value = random.choice(predicate.values)
                weights[predicate.attribute, value] = random.random()
            else:
                weights[predicate.positive] = random.random()
    return Weighed(expr, random.choice(LOGICS), weights)


def random_rules(random: Random, size: int, weights: float = 0.0) -> list[Weighed]:
    trees = [randoms.rule(random, EVERYTHING, random.randint(1, 3)) for _ in range(size)]
    trees += [too_large_for_a_dnf(random) for _ in range(size // 10)]
    trees += random.choices(trees, k=size // 5)
    random.shuffle(trees)
    return [weigh_predicates(random, tree, weights) for tree in trees]


def encode(rules: Sequence[Weighed]) -> EncodedRules:
    encoder = RuleEncoder()
    for rule in rules:
        encoder.add(rule.expr, rule.logic, RuleWeights.of(rule.weights, rule.expr))
    return encoder.finish()


Part = tuple[EncodedRules, "np.ndarray[Any, Any]"]


def split(random: Random, rules: Sequence[Weighed], parts: int) -> tuple[list[Part], list[Weighed]]:
    """Parts of `rules` with some rules chosen in any order; and the chosen rules."""
    ends = sorted(random.choices(range(len(rules) + 1), k=parts - 1))
    found: list[Part] = []
    chosen: list[Weighed] = []
    for first, last in zip([0, *ends], [*ends, len(rules)], strict=True):
        own = rules[first:last]
        numbers = random.sample(range(len(own)), random.randint(0, len(own)))
        found.append((encode(own), np.array(numbers, np.int64)))
        chosen += [own[number] for number in numbers]
    return found, chosen


# --- The same answers -------------------------------------------------------------------


def answers(rules: EncodedRules, engine: str, events: Sequence[FlatEvent]) -> list[Any]:
    built = load_engine(engine)(rules)
    encoder = EventEncoder(rules)
    plain = encoder.encode_flat(events)
    matches = built.match(plain)
    rows = np.split(built.order[matches.rule], matches.start[1:-1])
    found: list[Any] = [sorted(row.tolist()) for row in rows]
    tops = [built.top(plain, 1_000)]
    for event in events:
        weighted = encoder.encode_weighted(event, EventWeights.of(TENTHS))
        tops.append(built.top(weighted, 1_000))
    found += [
        (top.start.tolist(), built.order[top.rule].tolist(), top.score.tolist()) for top in tops
    ]
    return found


def agree(ours: EncodedRules, rules: Sequence[Weighed], events: Sequence[FlatEvent]) -> None:
    theirs = encode(rules)
    for engine in ("scan", "sift"):
        assert answers(ours, engine, events) == answers(theirs, engine, events)
    assert describe(ours) == describe(theirs)


def random_events(random: Random, size: int) -> list[FlatEvent]:
    return [flatten(randoms.event(random, EVERYTHING, several=0.4)) for _ in range(size)] + [{}]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weights", [0.0, 0.3])
def test_random_rules(seed: int, weights: float) -> None:
    random = Random(seed)
    parts, rules = split(random, random_rules(random, 60, weights), random.randint(1, 4))
    agree(merge_rules(parts), rules, random_events(random, 15))


@pytest.mark.parametrize("seed", range(4))
def test_merged_rules_can_be_merged_again(seed: int) -> None:
    random = Random(100 + seed)
    parts, rules = split(random, random_rules(random, 60, 0.1), 3)
    more, more_rules = split(random, random_rules(random, 30), 2)
    once = merge_rules(parts)
    numbers = np.array(random.sample(range(once.size), once.size // 2))
    twice = merge_rules([*more, (from_arrays(read_only(to_arrays(once))), numbers)])
    agree(twice, more_rules + [rules[i] for i in numbers], random_events(random, 15))


@pytest.mark.parametrize("seed", range(3))
def test_single_conjunctions_stay_single_conjunctions(seed: int) -> None:
    random = Random(200 + seed)
    plain = [Weighed(rule, "strong", {}) for rule in single_conjunctions(random, 90)]
    # Rules of several conjunctions are left out, and so is all that only they need.
    mixed = [*plain[:40], Weighed(Or((plain[0].expr, plain[1].expr)), "weak", {})]
    parts = [(encode(mixed), np.arange(40)), (encode(plain[35:]), np.arange(54, -1, -1))]
    found = merge_rules(parts)
    rules = plain[:40] + plain[35:][::-1]
    assert is_implied(found)
    assert len(found.forms.owner) == 0
    events = [{name: [1, 2] for name in ("a1", "a3", "a5", "a7", "a2")}, {"a4": [2]}]
    agree(found, rules, [flatten(event) for event in events])


@pytest.mark.usefixtures("interpreted")
def test_random_rules_without_compilation() -> None:
    random = Random(300)
    parts, rules = split(random, random_rules(random, 15, 0.2), 3)
    assert describe(merge_rules(parts)) == describe(encode(rules))


def test_an_empty_choice_gives_an_empty_set() -> None:
    rules = encode([Weighed(Predicate("a", Op.LIKE, ("%b%",)), "strong", {})])
    found = merge_rules([(rules, np.array([], np.int64))])
    assert found.size == 0
    assert not found.dictionary.attributes
    assert found.texts.size == len(found.atoms.table) == len(found.atoms.codes) == 0
    with pytest.raises(ValueError, match="nothing to merge"):
        merge_rules([])


def test_equal_text_predicates_are_stored_once() -> None:
    likes = [Predicate(name, Op.LIKE, (f"%{text}%",)) for name in "ab" for text in "xyz"]
    ours = [Weighed(like, "strong", {}) for like in likes]
    found = merge_rules([(encode(ours[:4]), np.arange(4)), (encode(ours[2:]), np.arange(4))])
    assert found.texts.size == 6


def test_atoms_with_equal_rows_stay_two() -> None:
    """``x = 5`` and ``x BETWEEN 5 AND 5`` in one rule both count for its score."""
    pair = (Predicate("x", Op.EQ, (5,)), Predicate("x", Op.BETWEEN, (5, 5)))
    rule = Weighed(And((*pair, Predicate("y", Op.EQ, (1,)))), "strong", {})
    other = Weighed(And((*pair, Predicate("y", Op.EQ, (2,)))), "strong", {})
    found = merge_rules([(encode([rule]), np.array([0])), (encode([other]), np.array([0]))])
    assert len(found.atoms.table) == 4
    agree(found, [rule, other], [flatten({"x": 5, "y": [1, 2]})])


# --- The same arrays, except for the numbering ------------------------------------------


def describe(rules: EncodedRules) -> list[Any]:
    """Each rule in terms of values: its form and its score."""
    atoms = [_describe_atom(rules, i) for i in range(len(rules.atoms.table))]
    forms, scores = rules.forms, rules.scores
    found: list[list[Any]] = [[] for _ in range(rules.size)]
    for conjunction in range(len(forms.conjunction_start) - 1):
        own = slice(*forms.conjunction_start[conjunction : conjunction + 2])
        described = sorted(atoms[i] for i in forms.conjunction_atom[own])
        owners = [conjunction]
        if len(forms.owner):
            owners = forms.owner[slice(*forms.owner_start[conjunction : conjunction + 2])].tolist()
            assert owners == sorted(set(owners))
        for owner in owners:
            found[owner].append(("conjunction", described))
    for program, rule in enumerate(forms.program_rule):
        rows = forms.program[slice(*forms.program_start[program : program + 2])].tolist()
        cover = forms.cover_atom[slice(*forms.cover_start[program : program + 2])].tolist()
        found[rule].append(("program", [(atoms[i], yes, no) for i, yes, no in rows]))
        found[rule].append(("cover", sorted(atoms[i] for i in cover)))
    for rule in range(rules.size):
        if len(scores.start):
            own = slice(*scores.start[rule : rule + 2])
            code = scores.code[own].tolist()
            weights = scores.weights[own].tolist() if len(scores.weights) else [-1] * len(code)
            found[rule].append([(atoms[c] if c >= 0 else c) for c in code])
            found[rule].append([_weights(rules, c, w) for c, w in zip(code, weights, strict=True)])
    return [sorted(rule, key=repr) for rule in found]


def _weights(rules: EncodedRules, code: int, weights: int) -> list[float]:
    if weights < 0:
        return []
    _, test, low, high = rules.atoms.table[code].tolist()
    size = high - low if test & 3 == SET else 1
    found: list[float] = rules.scores.weight[weights : weights + size].tolist()
    return found


def _describe_atom(rules: EncodedRules, number: int) -> str:
    attribute, test, low, high = rules.atoms.table[number].tolist()
    name = list(rules.dictionary.attributes)[attribute]
    codes = _describe_codes(rules.dictionary.axes[attribute])
    if test & 3 == SET:
        ends: list[Any] = [codes[code] for code in rules.atoms.codes[low:high]]
    elif test & 3 == RANGE:
        ends = [_describe_end(codes, low, -1), _describe_end(codes, high, 1)]
    else:
        start = rules.texts.arrays.start
        ends = [rules.texts.arrays.text[start[low] : start[low + 1]].tobytes()]
    return repr((name, test, ends))


GAP = "gap"


def _describe_codes(axis: Axis) -> list[tuple[str, Any]]:
    """The kind and the value of each code."""
    codes: list[tuple[str, Any]] = [("absent", None), ("boolean", False), ("boolean", True)]
    for kind, listed in (("number", axis.numbers), ("string", axis.strings), ("time", axis.times)):
        codes.append((kind, GAP))
        for value in listed:
            codes += [(kind, value), (kind, GAP)]
    assert len(codes) == axis.size
    return codes


def _describe_end(codes: list[tuple[str, Any]], code: int, outward: int) -> tuple[str, Any]:
    """The meaning of an end of a range: a value, the gap beside one, or the end of a kind."""
    kind, value = codes[code]
    if value != GAP:
        return kind, value
    beside = [codes[i] for i in (code + outward,) if i < len(codes)]
    if beside and beside[0][0] == kind:
        return f"{kind} beyond", beside[0][1]
    return f"all of {kind}", None


# --- Ends of ranges ---------------------------------------------------------------------


@settings(max_examples=200)
@given(
    st.lists(st.lists(predicates_on_x(), min_size=1, max_size=4), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_ranges_have_the_codes_of_the_new_dictionary(
    groups: list[list[Predicate]], random: Random
) -> None:
    parts, chosen = [], []
    for group in groups:
        numbers = random.sample(range(len(group)), random.randint(1, len(group)))
        rules = [Weighed(predicate, "strong", {}) for predicate in group]
        parts.append((encode(rules), np.array(numbers)))
        chosen += [group[number] for number in numbers]
    found = merge_rules(parts)
    (axis,) = found.dictionary.axes
    mentioned = {("n", v) for v in axis.numbers} | {("s", v) for v in axis.strings}
    from_scratch = Dictionary.of(chosen).axes[0]
    assert mentioned <= {("n", v) for v in from_scratch.numbers} | {
        ("s", v) for v in from_scratch.strings
    }
    for rule, predicate in enumerate(chosen):
        (atom,) = atoms_of(found, rule)
        _, test, low, high = found.atoms.table[atom].tolist()
        if test == SET:
            codes = sorted({axis.code(value) for value in predicate.values})
            assert found.atoms.codes[low:high].tolist() == codes
        elif low <= high:
            assert (low, high) == code_range(predicate, axis)
        else:
            expected = code_range(predicate, from_scratch)
            assert expected.low > expected.high


def atoms_of(rules: EncodedRules, rule: int) -> list[int]:
    forms = rules.forms
    conjunction = rule
    if len(forms.owner):
        at = np.flatnonzero(forms.owner == rule)[0]
        conjunction = int(np.searchsorted(forms.owner_start, at, "right")) - 1
    own = slice(*forms.conjunction_start[conjunction : conjunction + 2])
    found: list[int] = forms.conjunction_atom[own].tolist()
    return found
