"""Tiles of all forms answer as `scan` does; the contract suite compares `scan` with `evaluate`.

There are many rules over few attributes, so that they stand in tiles: wide and narrow ones, columns
by cuts and by codes, special codes, toggles within rows and after all rows, negation, text
predicates, and conjunctions that are filed in several places.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from tamis.encode.arrays import Events
from tamis.encode.event_pairs import to_pairs
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.engines.kernels.marks import SLACK
from tamis.engines.likelihood import estimate_likelihood
from tamis.engines.scan import Scan
from tamis.engines.threads import set_threads
from tamis.engines.tiles import Tiles, columns
from tamis.engines.tiles import engine as engine_module
from tamis.engines.tiles.arrays import (
    BY_CUTS,
    BY_TEXT,
    IS_WIDE,
    MOST_STEPS,
    NARROW,
    NEGATIVE,
    STEPS,
    WIDE,
    WORD,
    TileArrays,
)
from tamis.engines.tiles.columns import positions_of
from tamis.expr.event import flatten
from tamis.expr.model import LOGICS, And, Expr, Not, Op, Or, Predicate
from tamis.expr.weights import EventWeights, RuleWeights
from tamis.workloads import begen

Values = Callable[[Random], Any]

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def random_predicate(random: Random, name: str, value: Values) -> Expr:
    """A predicate of any kind on an attribute."""
    one, other = sorted((value(random), value(random)))
    return random.choice(
        [
            Predicate(name, Op.EQ, (one,)),
            Predicate(name, Op.LT, (one,)),
            Predicate(name, Op.LE, (one,)),
            Predicate(name, Op.GT, (one,)),
            Predicate(name, Op.GE, (one,)),
            Predicate(name, Op.BETWEEN, (one, other)),
            Predicate(name, Op.IN, tuple({value(random) for _ in range(random.randint(2, 9))})),
            Predicate(name, Op.PRESENT, ()),
        ]
    )


def conjunctions(
    random: Random, size: int, names: str, value: Values, negated: float, most: int = 3
) -> list[Expr]:
    rules: list[Expr] = []
    for _ in range(size):
        parts: list[Expr] = [Predicate("key", Op.EQ, (random.randrange(3),))]
        for name in random.sample(names, random.randint(1, most)):
            part = random_predicate(random, name, value)
            parts.append(Not(part) if random.random() < negated else part)
        random.shuffle(parts)
        rules.append(And(tuple(parts)))
    return rules


def small(random: Random) -> int:
    return random.randrange(20)


def large(random: Random) -> int:
    return random.randrange(100_000)


def around_ten(random: Random) -> int:
    return 10 if random.random() < 0.7 else random.randrange(20)


def word(random: Random) -> str:
    return "".join(random.choices("ab", k=random.randint(1, 3)))


def texts(random: Random) -> list[Expr]:
    rules: list[Expr] = []
    for _ in range(400):
        like: Expr = Predicate("s", Op.LIKE, (f"%{word(random)}%{random.choice('ab')}",))
        parts = [like if random.random() < 0.7 else Not(like), random_predicate(random, "s", word)]
        rules.append(And((Predicate("key", Op.EQ, (random.randrange(2),)), *parts)))
    return rules


def several_keys(random: Random) -> list[Expr]:
    """Rules without equalities: ranges and lists are filed in several places."""
    return [
        And(
            (
                Predicate("a", Op.IN, tuple(random.sample(range(20), 4))),
                Predicate("b", Op.BETWEEN, (random.randrange(10), random.randrange(10, 20))),
                random_predicate(random, "c", small),
            )
        )
        for _ in range(600)
    ]


def of_several_conjunctions(random: Random) -> list[Expr]:
    parts = conjunctions(random, 1_200, "abc", small, 0.2)
    return [Or(tuple(parts[i : i + 3])) for i in range(0, len(parts), 3)]


SETS: dict[str, Callable[[Random], list[Expr]]] = {
    "few values": lambda r: conjunctions(r, 900, "abcd", small, 0),
    "many values": lambda r: conjunctions(r, 700, "abcd", large, 0.1),
    "a value that most rules need": lambda r: conjunctions(r, 900, "abcd", around_ten, 0),
    "negated": lambda r: conjunctions(r, 600, "abc", small, 0.6),
    "strings": lambda r: conjunctions(r, 500, "abc", word, 0.2),
    "narrow": lambda r: conjunctions(r, 150, "abc", small, 0.1),
    "many columns": lambda r: conjunctions(r, 2_400, LETTERS, small, 0.5, 8),
    "texts": texts,
    "several keys": several_keys,
    "several conjunctions a rule": of_several_conjunctions,
    "the same attribute twice": lambda r: conjunctions(r, 400, "aab", small, 0.1),
}


def keys_of(rule: Expr) -> set[Any]:
    """The values of "key" that a rule mentions."""
    if isinstance(rule, Predicate):
        return set(rule.values) if rule.attribute == "key" else set()
    if isinstance(rule, Not):
        return set()
    assert isinstance(rule, And | Or)
    return set().union(*map(keys_of, rule.children))


def encode(rules: list[Expr], random: Random, weighted: bool = False) -> EncodedRules:
    encoder = RuleEncoder()
    for rule in rules:
        weights = None
        if weighted and random.random() < 0.7:
            by_key = {("key", key): random.choice((0.0, 0.5, 3.0)) for key in sorted(keys_of(rule))}
            weights = RuleWeights.of(by_key, rule)
        encoder.add(rule, random.choice(LOGICS), weights)
    return encoder.finish()


def some_events(random: Random, names: str, count: int, several: float) -> list[dict[str, Any]]:
    def value(name: str) -> Any:
        if name == "key":
            return random.randrange(3)
        return random.choice((small, small, around_ten, large, word))(random)

    events = []
    for _ in range(count):
        chosen = [name for name in ["key", "s", *names] if random.random() < 0.8]
        events.append(
            {
                name: [value(name) for _ in range(random.randint(2, 4))]
                if random.random() < several
                else value(name)
                for name in chosen
            }
        )
    return events


def rows_of(engine: Engine, events: Events, mask: np.ndarray | None) -> list[list[int]]:
    found = engine.match(events, mask)
    edges = zip(found.start[:-1], found.start[1:], strict=True)
    return [sorted(engine.order[found.rule[a:b]].tolist()) for a, b in edges]


@pytest.mark.parametrize("several", [0, 0.3])
@pytest.mark.parametrize("name", SETS)
def test_tiles_find_what_scan_finds(name: str, several: float) -> None:
    random = Random(f"{name} {several}")
    rules = encode(SETS[name](random), random)
    scan, tiles = Scan(rules), Tiles(rules)
    assert len(tiles.arrays.tile) > 1 or name == "many columns"
    events = EventEncoder(rules).encode_many(some_events(random, LETTERS, 150, several))
    chosen = np.array([random.random() < 0.5 for _ in range(rules.size)], np.uint8)
    for mask in (None, chosen):
        expected = rows_of(scan, events, mask)
        places = None if mask is None else mask[tiles.order]
        assert sum(map(len, expected)) > 100
        assert rows_of(tiles, events, places) == expected
        for by_groups in (False, True):
            tiles.__dict__["_counts_by_groups"] = by_groups
            assert tiles.count(events, places).tolist() == list(map(len, expected))


@pytest.mark.parametrize("room", [1, SLACK + 1, SLACK + 40, 4_000])
def test_matches_of_many_events_do_not_depend_on_the_size_of_buffers(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_LEAST_ROOM", room)
    monkeypatch.setattr(engine_module, "BUFFER", 2 * room)
    random = Random(room)
    rules = encode(SETS["few values"](random), random)
    scan, tiles = Scan(rules), Tiles(rules)
    tiles.ids = 10 * tiles.order.astype(np.int64) + 3
    events = EventEncoder(rules).encode_many(some_events(random, "abcd", 1_100, 0.1))
    chosen = np.array([random.random() < 0.5 for _ in range(rules.size)], np.uint8)
    numbers = np.arange(1_100) * 7 + 5
    for mask in (None, chosen):
        start, ages = scan.match(events, mask)
        places = None if mask is None else mask[tiles.order]
        found = tiles.match_chunks(events, places, True, numbers)
        assert found.start.tolist() == start.tolist()
        assert np.concatenate(found.rules).tolist() == (10 * ages + 3).tolist()
        assert np.concatenate(found.numbers).tolist() == np.repeat(numbers, np.diff(start)).tolist()
        # Two threads have a task each, and buffers of their own.
        assert len(found.rules) > (2 if room == 4_000 else 20)


def test_few_events_with_many_matches_are_divided_among_threads() -> None:
    random = Random(4)
    rules = encode(SETS["few values"](random), random)
    tiles, numbers = Tiles(rules), np.arange(40)
    tiles.ids = tiles.order.astype(np.int64)
    events = EventEncoder(rules).encode_many(some_events(random, "abcd", 40, 0))
    set_threads(4)
    try:
        whole, divided = (
            tiles.match_chunks(events, None, True, numbers, expected) for expected in (0, 10_000)
        )
    finally:
        set_threads(None)
    assert (len(whole.numbers), len(divided.numbers)) == (1, 4)
    assert np.concatenate(whole.rules).tolist() == np.concatenate(divided.rules).tolist()
    assert whole.numbers[0].tolist() == np.concatenate(divided.numbers).tolist()


def test_few_flat_entries_are_counted_by_groups() -> None:
    random = Random(3)
    tiled = Tiles(encode(SETS["several keys"](random), random))
    assert tiled._counts_by_groups
    alone: list[Expr] = [
        And((Predicate("key", Op.EQ, (i,)), Predicate("a", Op.GT, (i,)))) for i in range(900)
    ]
    assert not Tiles(encode(alone, random))._counts_by_groups


@pytest.mark.parametrize("several", [0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["few values", "several conjunctions a rule", "texts"])
def test_pruning_does_not_change_the_best_rules(name: str, weighted: bool, several: float) -> None:
    random = Random(f"{name} {weighted} {several}")
    rules = encode(SETS[name](random), random, weighted)
    scan, tiles = Scan(rules), Tiles(rules)
    encoder = EventEncoder(rules)
    weights = EventWeights.of({("key", 1): 2.5, ("a", 10): 0.25, ("b", 3): 0.0})
    for event in some_events(random, "abcd", 40, several):
        one = encoder.encode_weighted(
            flatten(event), weights if weighted else EventWeights.of(None)
        )
        for n in (1, 4, 50):
            best, expected = tiles.top(one, n), scan.top(one, n)
            assert tiles.order[best.rule].tolist() == expected.rule.tolist()
            assert best.score.tolist() == expected.score.tolist()


def test_the_rule_sets_cover_all_kinds_of_tiles() -> None:
    kinds, widths, steps, spilled = 0, set(), set(), set()
    for name, build in SETS.items():
        random = Random(f"{name} 0")
        arrays = Tiles(encode(build(random), random)).arrays
        kinds |= int(np.bitwise_or.reduce(arrays.columns[:, 0], initial=0))
        widths |= set((arrays.tile[:-1, 1] > NARROW * WORD).tolist())
        steps |= set((arrays.columns[:, 0] & STEPS).tolist())
        spilled |= find_spilled(arrays)
    assert kinds & (NEGATIVE | BY_TEXT | BY_CUTS) == NEGATIVE | BY_TEXT | BY_CUTS
    assert widths == {False, True}
    assert {0, MOST_STEPS - 1, MOST_STEPS} <= steps
    assert spilled == {(words, steps) for words in (NARROW, WIDE) for steps in (3, MOST_STEPS)}


def find_spilled(arrays: TileArrays) -> set[tuple[int, int]]:
    """The words and steps of columns with toggles that do not fit into their row."""
    found = set()
    for kind, place, _, _, span, _, cuts, apart in arrays.columns.tolist():
        words, steps = WIDE if kind & IS_WIDE else NARROW, kind & STEPS
        positions = cuts - 1 if kind & BY_CUTS else span
        for row in range(-(-positions // positions_of(steps)) if steps else 0):
            counts = int(arrays.bits[8 * place + apart + 2 * words * row + words])
            if steps == MOST_STEPS:
                toggles = sum(counts >> 4 * i & 15 for i in range(16))
            else:
                toggles = counts >> 56
            if toggles > 8 * (words - 1):
                found.add((words, steps))
    return found


@pytest.mark.parametrize("name", SETS)
def test_columns_that_do_not_fit_are_written_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room for columns is a guess: where it was too small, the rest goes to a larger one."""
    rules = encode(SETS[name](Random(3)), Random(3))
    at_once = Tiles(rules).arrays
    rooms = [8]

    def grow_slowly(words: int) -> tuple[int, int, int]:
        assert words > 0
        rooms.append(rooms[-1] * 3 // 2)
        return rooms[-1] // 8, rooms[-1] // 4, rooms[-1]

    monkeypatch.setattr(columns, "_room_for", grow_slowly)
    in_steps = Tiles(rules).arrays
    assert len(rooms) > 3 or name == "many columns"
    for field in at_once._fields:
        assert np.array_equal(getattr(at_once, field), getattr(in_steps, field)), field


def test_a_sample_of_events_corrects_the_likelihood() -> None:
    encoder = RuleEncoder()
    for number in range(200):
        encoder.add(
            And((Predicate("a", Op.EQ, (number % 10,)), Predicate("b", Op.EQ, (number,)))), "strong"
        )
    rules = encoder.finish()
    events = EventEncoder(rules)
    # By the rules alone, a value of b is rarer than one of a; in these events it is not.
    sample = events.encode_many([{"a": number, "b": 7} for number in range(3_000, 4_000)])
    atom = rules.forms.conjunction_atom[
        rules.forms.conjunction_start[7] : rules.forms.conjunction_start[8]
    ]
    by_rules, by_sample = estimate_likelihood(rules), estimate_likelihood(rules, sample)
    assert by_rules[atom[0]] > by_rules[atom[1]]
    assert by_sample[atom[0]] < by_sample[atom[1]]
    some = events.encode_many([{"a": n % 10, "b": n} for n in range(50)])
    assert rows_of(Tiles(rules, sample=sample), some, None) == rows_of(Scan(rules), some, None)


def test_a_rule_takes_few_bytes_besides_its_atoms() -> None:
    """Where its conjunction begins, its bound, and its place in tiles or flat groups."""
    workload = begen.Workload(10_000, match_probability=1 / 11)
    encoder = RuleEncoder()
    for _, text in workload.rules():
        encoder.add_text(text, "strong")
    engine = Tiles(encoder.finish())
    forms, arrays, size = engine.rules.forms, engine.arrays, engine.rules.size
    assert forms.conjunction_start.nbytes == 4 * (size + 1)
    assert arrays.bound.nbytes == size
    assert arrays.bounds.nbytes < 1_000
    # Rows of up to eight positions, all with room for toggles, took 67 bytes.
    assert arrays.tile[:-1, 1].sum() > 0.8 * size, "most rules stand in tiles"
    assert arrays.bits.nbytes < 45 * size


@pytest.mark.parametrize("is_prepared", [False, True], ids=["", "prepared"])
def test_an_engine_is_freed_with_the_last_search(is_prepared: bool) -> None:
    """Not by the collector of garbage: indexes are large, and it may look for them much later."""
    random = Random(4)
    rules = encode(conjunctions(random, 200, "abc", small, 0.0), random)
    events = EventEncoder(rules).encode({"key": 1, "a": 3})
    pairs = to_pairs(events, len(rules.dictionary.axes))
    gc.disable()
    try:
        engine = Tiles(rules)
        if is_prepared:
            engine.prepare()
        engine.find_places(pairs)
        engine.top_pairs(pairs, 3)
        engine.count(events)
        freed = weakref.ref(engine)
        del engine
        assert freed() is None
    finally:
        gc.enable()
