"""Kernels give the answers of `evaluate`, both compiled and as plain Python.

Numba checks no bounds and wraps silently where NumPy raises or warns. A kernel that passes here in
plain Python reads and writes only within its arrays.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

from tamis.encode.arrays import Events
from tamis.encode.compiler.plain import run_plainly
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.engines.kernels import bits, output, scores, sorting, truth
from tamis.engines.registry import ENGINES, load_engine
from tamis.expr.evaluate import evaluate_flat, score
from tamis.expr.event import FlatEvent, flatten
from tamis.expr.model import LOGICS, And, Atom, Expr, Logic, Op, Or, Predicate
from tamis.expr.weights import EventWeights
from tests import randoms
from tests.randoms import EVERYTHING


def rules_of(engine: Engine, places: np.ndarray) -> list[int]:
    """The original numbers of an engine's rules."""
    return sorted(engine.order[places].tolist())


class Case(NamedTuple):
    rules: list[tuple[Expr, Logic]]
    atoms: list[Atom]
    encoded: EncodedRules
    flat: list[FlatEvent]
    events: Events
    matching: list[list[int]]
    """The rules that `evaluate` finds for each event."""


def too_large_for_a_dnf(random: Random) -> Expr:
    def pair() -> Expr:
        return Or((randoms.predicate(random, EVERYTHING), randoms.predicate(random, EVERYTHING)))

    return And(tuple(pair() for _ in range(12)))


def build_case(seed: int, size: int = 60, rows: int = 25) -> Case:
    random = Random(seed)
    trees = [randoms.rule(random, EVERYTHING, 3) for _ in range(size)]
    trees += [too_large_for_a_dnf(random) for _ in range(size // 10)]
    trees += [Or((too_large_for_a_dnf(random), randoms.predicate(random, EVERYTHING)))] * 2
    rules = [(tree, random.choice(LOGICS)) for tree in trees]
    encoder = RuleEncoder()
    for tree, logic in rules:
        encoder.add(tree, logic)
    encoded = encoder.finish()
    events = [randoms.event(random, EVERYTHING, several=0.4) for _ in range(rows)] + [{}]
    flat = [flatten(event) for event in events]
    encode = EventEncoder(encoded)
    matching = [
        [n for n, (rule, logic) in enumerate(rules) if evaluate_flat(rule, one, logic) is True]
        for one in flat
    ]
    return Case(rules, encoder._atoms, encoded, flat, encode.encode_many(events), matching)


CASE = build_case(1)


def engines() -> list[Engine]:
    return [load_engine(name)(CASE.encoded) for name in ENGINES]


# --- Atoms and programs -----------------------------------------------------------------


def check_atoms_and_programs() -> None:
    table, codes = CASE.encoded.atoms
    forms = CASE.encoded.forms
    assert len(forms.program_rule) > 3
    loaded = truth.new_loaded_event(len(CASE.encoded.dictionary.axes), CASE.encoded.texts.size)
    for row, flat in enumerate(CASE.flat):
        truth.load_event(CASE.events, row, loaded)
        seen = (table, codes, CASE.events.code, *loaded)
        for number, atom in enumerate(CASE.atoms):
            assert truth.atom_holds(*seen, number) == evaluate_flat(atom, flat, "strong")
        for program, rule in enumerate(forms.program_rule):
            holds = truth.program_holds(*seen, forms.program, forms.program_start[program])
            assert holds == (rule in CASE.matching[row])
        truth.unload_event(CASE.events, row, loaded)
        assert not loaded.span.any()
        assert not loaded.text.any()


def test_atoms_and_programs() -> None:
    check_atoms_and_programs()


@pytest.mark.usefixtures("interpreted")
def test_atoms_and_programs_as_plain_python() -> None:
    check_atoms_and_programs()


def check_find_code() -> None:
    random = Random(2)
    for size in (0, 1, 2, 3, 7, 20):
        codes = np.array(sorted(random.sample(range(40), size)), np.int32)
        for begin, end in ((0, size), (size // 3, size), (0, size // 2), (size // 2, size // 2)):
            for code in range(-1, 41):
                inside = codes[begin:end].tolist()
                expected = begin + inside.index(code) if code in inside else -1
                assert truth.find_code(codes, begin, end, code) == expected


def test_find_code() -> None:
    check_find_code()


@pytest.mark.usefixtures("interpreted")
def test_find_code_as_plain_python() -> None:
    check_find_code()


# --- Output -----------------------------------------------------------------------------


def check_heap_sort() -> None:
    random = Random(3)
    for size in (0, 1, 2, 3, 10, 100):
        for _ in range(5):
            items = np.array(random.choices(range(max(1, size)), k=size + 10), np.int32)
            expected = [*items[:4], *sorted(items[4 : 4 + size]), *items[4 + size :]]
            sorting._heap_sort(items, 4, size)
            assert items.tolist() == expected


def test_heap_sort() -> None:
    check_heap_sort()


@pytest.mark.usefixtures("interpreted")
def test_heap_sort_as_plain_python() -> None:
    check_heap_sort()


def check_sort_rows(words: int, shuffled: bool) -> None:
    """Long rows are sorted by a bit set, the others by a heap."""
    random = Random(8)
    rows = [random.sample(range(64 * words), size) for size in (0, 1, 5, 64 * words, 3, 0)]
    start = np.cumsum([0, *map(len, rows)])
    items, bits_left = np.concatenate(rows).astype(np.int32), np.zeros(words, np.uint64)
    ranks = list(range(64 * words))
    rank_of = item_of = np.empty(0, np.int32)
    if shuffled:
        random.shuffle(ranks)
        rank_of = np.array(ranks, np.int32)
        item_of = np.argsort(rank_of).astype(np.int32)
    sorting.sort_rows(start, items, rank_of, item_of, bits_left)
    assert items.tolist() == [i for row in rows for i in sorted(row, key=lambda i: ranks[i])]
    assert not bits_left.any()


@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_are_sorted(shuffled: bool) -> None:
    check_sort_rows(1, shuffled)
    check_sort_rows(100, shuffled)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_are_sorted_as_plain_python(shuffled: bool) -> None:
    check_sort_rows(1, shuffled)
    check_sort_rows(100, shuffled)


def check_take() -> None:
    out = np.zeros(3, np.int64)
    sorting.take(np.arange(10, 20), np.array([9, 0, 9], np.int32), out)
    assert out.tolist() == [19, 10, 19]


def test_take() -> None:
    check_take()


@pytest.mark.usefixtures("interpreted")
def test_take_as_plain_python() -> None:
    check_take()


@pytest.mark.parametrize("plain", [False, True])
def test_values_are_repeated(plain: bool) -> None:
    repeat = run_plainly(sorting.repeat) if plain else sorting.repeat
    values, start = np.array([7, 8, 9]), np.array([0, 3, 3, 5])
    out = np.zeros(5, np.int64)
    repeat(values, start, out)
    assert out.tolist() == [7, 7, 7, 9, 9]


def check_clear_seen() -> None:
    out, seen = np.array([9, 5, 1, 2, 8], np.int32), np.zeros(10, np.uint8)
    seen[out] = 1
    output.clear_seen(out, 1, 4, seen)
    assert np.flatnonzero(seen).tolist() == [8, 9]
    output.clear_seen(out, 0, 5, seen[:0])


def test_marks_are_cleared() -> None:
    check_clear_seen()


@pytest.mark.usefixtures("interpreted")
def test_marks_are_cleared_as_plain_python() -> None:
    check_clear_seen()


@njit
def _lowest_and_count(word: Any) -> Any:
    return bits.lowest_bit(word), bits.count_bits(word)


def test_bits_of_words() -> None:
    random = Random(3)
    for word in [
        *(1 << i for i in range(64)),
        *(random.getrandbits(64) | 1 << 63 for _ in range(50)),
    ]:
        assert _lowest_and_count(np.uint64(word)) == (
            bits.lowest_bit.plain(np.uint64(word)),
            word.bit_count(),
        )


def test_a_rule_is_written_once_and_only_if_masked_in() -> None:
    owner_start, owner = np.array([0, 3, 5]), np.array([0, 2, 4, 2, 3], np.int32)
    mask = np.array([1, 1, 1, 1, 0], np.uint8)
    seen, out = np.zeros(5, np.uint8), np.full(5, -1, np.int32)
    found = output.emit_owners(owner_start, owner, 0, mask, seen, out, 0)
    found = output.emit_owners(owner_start, owner, 1, mask, seen, out, found)
    assert out[:found].tolist() == [0, 2, 3]


# --- Engines ----------------------------------------------------------------------------


def check_engines() -> None:
    size = len(CASE.flat)
    chosen = np.array([number % 3 != 0 for number in range(CASE.encoded.size)], np.uint8)
    for engine in engines():
        for mask in (None, chosen):
            places = None if mask is None else mask[engine.order]
            matches = engine.match(CASE.events, places)
            assert matches.start[0] == 0
            assert len(matches.start) == size + 1
            for row in range(size):
                found = rules_of(engine, matches.rule[matches.start[row] : matches.start[row + 1]])
                expected = [n for n in CASE.matching[row] if mask is None or mask[n]]
                assert found == expected, engine.name
            assert engine.count(CASE.events, places).tolist() == np.diff(matches.start).tolist()


def test_engines() -> None:
    check_engines()


@pytest.mark.usefixtures("interpreted")
def test_engines_as_plain_python() -> None:
    check_engines()


WEIGHTS = {("n", 1): 3.0, ("s", "ab"): 0.5, ("user.age", 0): 2.0, ("small", 2): 0.0}


def check_tops(n: int) -> None:
    encode = EventEncoder(CASE.encoded)
    for engine in engines():
        plain = engine.top(CASE.events, n)
        for row, flat in enumerate(CASE.flat):
            row_slice = slice(plain.start[row], plain.start[row + 1])
            rules = engine.order[plain.rule[row_slice]].tolist()
            found = list(zip(rules, plain.score[row_slice].tolist(), strict=True))
            assert found == best(row, weighted=False)[:n], engine.name
            weighted = engine.top(encode.encode_weighted(flat, EventWeights.of(WEIGHTS)), n)
            rules = engine.order[weighted.rule].tolist()
            found = list(zip(rules, weighted.score.tolist(), strict=True))
            assert found == best(row, weighted=True)[:n], engine.name


@cache
def best(row: int, weighted: bool) -> list[tuple[int, float]]:
    """The matching rules by falling score, computed once for all engines."""
    weights = WEIGHTS if weighted else None
    scored = [
        (number, points)
        for number, (rule, logic) in enumerate(CASE.rules)
        if (points := score(rule, CASE.flat[row], logic, event_weights=weights)) is not None
    ]
    return sorted(scored, key=lambda pair: -pair[1])


@pytest.mark.parametrize("n", [1, 3, 1_000])
def test_the_best_rules(n: int) -> None:
    check_tops(n)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("n", [1, 3, 1_000])
def test_the_best_rules_as_plain_python(n: int) -> None:
    check_tops(n)


@pytest.mark.usefixtures("interpreted")
def test_the_best_zero_rules_write_nothing() -> None:
    """In plain Python first, since a compiled kernel that wrote would corrupt memory."""
    check_tops(0)


def test_the_first_of_equal_scores_wins() -> None:
    encoder = RuleEncoder()
    for _ in range(6):
        encoder.add(Predicate("a", Op.EQ, (1,)), "strong")
    rules = encoder.finish()
    events = EventEncoder(rules).encode({"a": 1})
    loaded = truth.new_loaded_event(1, 0)
    best_rule, best_score = np.full(4, -1, np.int32), np.empty(4)
    stack = np.empty(rules.scores.depth)
    args = (rules.atoms, rules.forms, rules.scores, events, loaded, 0)
    for order in ([0, 1, 2, 3, 4, 5], [3, 5, 0, 4, 1, 2]):
        for chosen in ([5, 4, 3], [4, 0, 1, 5, 2, 3], []):
            among, ages = np.array(chosen, np.int32), np.array(order, np.int32)
            found = scores.rank_rules(*args, among, ages, stack, best_rule, best_score)
            assert best_rule[:found].tolist() == sorted(chosen, key=order.__getitem__)[:4]
            assert best_score[:found].tolist() == [1.0] * found


# --- Full buffers -----------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("extra", [0, 1, 7, 100])
def test_a_run_stops_at_a_full_buffer_and_continues(engine: str, extra: int) -> None:
    built = load_engine(engine)(CASE.encoded)
    size, rules = len(CASE.flat), CASE.encoded.size
    scratch = built.new_scratch()
    mask = np.ones(rules, np.uint8)
    counts = np.full(size, -1, np.int64)
    row, found, runs = 0, [], 0
    while row < size:
        out = np.full(rules + extra, -1, np.int32)
        done = built.run(CASE.events, row, size, mask, scratch, out, counts)
        assert row < done <= size
        written = counts[row:done].sum()
        assert written <= len(out)
        assert (out[written:] == -1).all()
        # It stopped only because room was lacking.
        assert done == size or len(out) - written < rules
        starts = np.concatenate(([0], np.cumsum(counts[row:done])))
        found += [rules_of(built, out[a:b]) for a, b in pairwise(starts)]
        row, runs = done, runs + 1
    assert runs > 2
    assert found == CASE.matching
    assert counts.tolist() == list(map(len, CASE.matching))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_without_room_for_an_event_does_nothing(engine: str) -> None:
    built = load_engine(engine)(CASE.encoded)
    mask = np.ones(CASE.encoded.size, np.uint8)
    out = np.full(CASE.encoded.size - 1, -1, np.int32)
    counts = np.full(len(CASE.flat), -1, np.int64)
    scratch = built.new_scratch()
    assert built.run(CASE.events, 3, 9, mask, scratch, out, counts) == 3
    assert (out == -1).all()
    assert (counts == -1).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_scratch_is_clean_after_a_run(engine: str) -> None:
    """The same scratch serves events in any order."""
    built = load_engine(engine)(CASE.encoded)
    scratch, mask = built.new_scratch(), np.ones(CASE.encoded.size, np.uint8)
    out, counts = np.empty(CASE.encoded.size, np.int32), np.zeros(len(CASE.flat), np.int64)
    order = list(range(len(CASE.flat))) * 2
    Random(4).shuffle(order)
    for row in order:
        assert built.run(CASE.events, row, row + 1, mask, scratch, out, counts) == row + 1
        assert rules_of(built, out[: counts[row]]) == CASE.matching[row]


def programs(random: Random) -> list[Expr]:
    """Rules too large for a DNF over few attributes, so that many hold at once."""

    def bit() -> Expr:
        return Predicate(f"b{random.randrange(30)}", Op.EQ, (1,))

    return [And(tuple(Or((bit(), bit())) for _ in range(15))) for _ in range(40)]


def plain() -> list[Expr]:
    """Distinct conjunctions, one for each rule."""
    return [Predicate(f"b{i % 30}", Op.LE, (i // 30 + 1,)) for i in range(120)]


SETS: dict[str, list[Expr]] = {
    "plain rules": plain(),
    "programs": programs(Random(6)),
    "plain rules, then programs": plain() + programs(Random(6)),
    "programs, then plain rules": programs(Random(6)) + plain(),
    "the same rule again": [*plain(), *plain()],
    "a rule that never holds": [*plain()[:60], Or(), *plain()[60:]],
    "several conjunctions a rule": [Or(tuple(plain()[i::40])) for i in range(40)],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SETS)
def test_rules_of_every_form_are_found(engine: str, name: str) -> None:
    rules, events, expected = encode_set(name)
    built = load_engine(engine)(rules)
    matches = built.match(events)
    assert len(matches.rule) > 100
    for row, numbers in enumerate(expected):
        found = rules_of(built, matches.rule[matches.start[row] : matches.start[row + 1]])
        assert found == numbers


@cache
def encode_set(name: str) -> tuple[EncodedRules, Events, list[list[int]]]:
    """Rules, events and the answers of `evaluate`, computed once for all engines."""
    encoder = RuleEncoder()
    for rule in SETS[name]:
        encoder.add(rule, "strong")
    rules = encoder.finish()
    random = Random(7)
    events = [{f"b{i}": random.choice((1, 1, 1, 2)) for i in range(30)} for _ in range(10)]
    events += [{f"b{i}": 1 for i in random.sample(range(30), 30)} for _ in range(3)]
    expected = [
        [n for n, rule in enumerate(SETS[name]) if evaluate_flat(rule, flat, "strong")]
        for flat in map(flatten, events)
    ]
    return rules, EventEncoder(rules).encode_many(events), expected


@pytest.mark.parametrize("engine", ENGINES)
def test_no_rules_and_no_events(engine: str) -> None:
    empty = load_engine(engine)(RuleEncoder().finish())
    events = EventEncoder(empty.rules).encode_many([{}, {"a": 1}])
    assert empty.match(events).start.tolist() == [0, 0, 0]
    assert empty.top(events, 3).start.tolist() == [0, 0, 0]
    full = load_engine(engine)(CASE.encoded)
    nothing = EventEncoder(CASE.encoded).encode_many([])
    assert full.match(nothing).start.tolist() == [0]
    assert full.count(nothing).tolist() == []
    assert full.top(nothing, 3).start.tolist() == [0]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_knows_its_size(engine: str) -> None:
    small = load_engine(engine)(build_case(5, size=5).encoded)
    assert 0 < small.nbytes < load_engine(engine)(CASE.encoded).nbytes


def test_the_case_has_rules_that_hold_and_rules_that_do_not() -> None:
    """Rules that always or never hold prove little."""
    matches = sum(map(len, CASE.matching))
    assert 0.05 < matches / (CASE.encoded.size * len(CASE.flat)) < 0.9
