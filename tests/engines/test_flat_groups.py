"""Flat groups of every form: narrow, wide, bits, general, without atoms, and of several blocks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.encode.check_rules import check_rules
from tamis.encode.checks import ArrayError
from tamis.encode.event_pairs import to_pairs
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.scan import Scan
from tamis.engines.tiles import Tiles
from tamis.engines.tiles.flat_groups import (
    COUNT_MASK,
    HAS_MORE,
    HAS_TILES,
    MOST_ENTRIES,
    choose_widths,
    groups_fit,
)
from tamis.expr.model import LOGICS, And, Expr, Not, Op, Or, Predicate


def encode(rules: list[Expr], random: Random) -> EncodedRules:
    encoder = RuleEncoder()
    for rule in rules:
        encoder.add(rule, random.choice(LOGICS))
    return encoder.finish()


def unlike(random: Random, attributes: int, values: int, size: int, atoms: int = 4) -> list[Expr]:
    """Rules with little in common, so that they stand in no tiles."""

    def atom() -> Expr:
        name = f"a{random.randrange(attributes)}"
        low = random.randrange(values)
        some = tuple({random.randrange(values) for _ in range(3)})
        near = tuple({low + random.randrange(20) for _ in range(4)})
        choices: list[Expr] = [
            Predicate(name, Op.EQ, (low,)),
            Predicate(name, Op.BETWEEN, (low, low + random.randrange(values))),
            Predicate(name, Op.IN, some),
            Predicate(name, Op.IN, near),
            Predicate(name, Op.PRESENT, ()),
            Predicate(name, Op.LIKE, (f"%{random.randrange(9)}%",)),
            Or((Not(Predicate(name, Op.PRESENT, ())), Predicate(name, Op.GT, (low,)))),
        ]
        atom = random.choice(choices)
        return Not(atom) if random.random() < 0.3 and isinstance(atom, Predicate) else atom

    return [And(tuple(atom() for _ in range(random.randint(1, atoms)))) for _ in range(size)]


def one_key(random: Random, size: int) -> list[Expr]:
    """Rules of which those in weak logic stand under one key: a group of several blocks."""
    rules: list[Expr] = []
    for n in range(size):
        # With more attributes than rules there are no tiles.
        others = [Not(Predicate(f"{x}{n}", Op.EQ, (random.randrange(9),))) for x in "bcd"]
        rules.append(And((Predicate("key", Op.EQ, (1,)), *others)))
    return rules


def many_atoms(random: Random) -> list[Expr]:
    """More atoms than an entry has room for; in weak logic they hold on most events."""

    def atom(name: str) -> Expr:
        texts = Predicate(name, Op.LIKE, (f"%{random.randrange(9)}",))
        return Not(random.choice([texts, Predicate(name, Op.EQ, (random.randrange(60),))]))

    return [
        And(tuple(atom(f"a{n}") for n in random.sample(range(200), random.randint(10, 90))))
        for _ in range(80)
    ]


def short_lists(random: Random) -> list[Expr]:
    """Lists of two to eight values, of which only some are near enough for two words."""

    def atom(name: str) -> Expr:
        low, reach = random.randrange(300), random.choice([9, 120, 126, 127, 130, 2_000])
        values = {low, low + reach, *(low + random.randrange(reach) for _ in range(6))}
        count = min(len(values), random.randint(2, 6))
        some = Predicate(name, Op.IN, tuple(random.sample(sorted(values), count)))
        return Not(some) if random.random() < 0.4 else some

    return [
        And(tuple(atom(f"a{n}") for n in random.sample(range(9), random.randint(1, 3))))
        for _ in range(300)
    ]


SETS: dict[str, Callable[[Random], list[Expr]]] = {
    "few values": lambda r: unlike(r, 30, 20, 400),
    "wide codes": lambda r: unlike(r, 8, 300_000, 3_000),
    "many attributes": lambda r: unlike(r, 3_000, 50, 1_500),
    "many atoms": many_atoms,
    "short lists": short_lists,
    "several blocks": lambda r: one_key(r, 3 * MOST_ENTRIES),
}


def some_event(random: Random, rules: EncodedRules, several: float) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for name in random.sample(sorted(rules.dictionary.attributes), 8):
        values = [random.choice([random.randrange(60), random.randrange(500),
                                 random.randrange(300_000), f"{3 * n}"])
                  for n in range(random.randint(2, 4))]  # fmt: skip
        event[name] = values if random.random() < several else values[0]
    event["key"] = 1
    return event


@pytest.mark.parametrize("several", [0, 0.4])
@pytest.mark.parametrize("name", SETS)
def test_single_events_find_what_scan_finds(name: str, several: float) -> None:
    random = Random(f"{name} {several}")
    rules = encode(SETS[name](random), random)
    scan, tiles = Scan(rules), Tiles(rules)
    tiles.ids = 10 * tiles.order.astype(np.int64) + 3
    chosen = np.array([random.random() < 0.5 for _ in range(rules.size)], np.uint8)
    encoder, attributes = EventEncoder(rules), len(rules.dictionary.axes)
    matches = 0
    for _ in range(60):
        events = encoder.encode(some_event(random, rules, several))
        pairs = to_pairs(events, attributes)
        for mask in (None, chosen):
            places = None if mask is None else mask[tiles.order]
            ages = scan.match(events, mask).rule.tolist()
            ids = [10 * age + 3 for age in ages]
            assert tiles.order[tiles.find_places(pairs, places)].tolist() == ages
            assert tiles.find_ids(pairs, places, True).tolist() == ids
            assert sorted(tiles.find_ids(pairs, places, False).tolist()) == ids
            assert np.concatenate(tiles.match_chunks(events, places, True).rules).tolist() == ids
            assert tiles.count(events, places).tolist() == [len(ages)]
            matches += len(ages)
    assert matches > 100


def long_rules(random: Random, size: int) -> list[Expr]:
    """Rules with up to 110 atoms of all forms, which most events satisfy."""

    def atom(name: str) -> Expr:
        low = random.randrange(60)
        choices: list[Expr] = [
            Predicate(name, Op.GE, (low // 50,)),
            Predicate(name, Op.BETWEEN, (0, 58 + low // 30)),
            Predicate(name, Op.IN, tuple({*range(60)} - {low})),
            Not(Predicate(name, Op.EQ, (low,))),
            Not(Predicate(name, Op.IN, (low, 61, 70, 75))),
            Not(Predicate(name, Op.IN, (low, *range(60, 90, 3)))),
        ]
        return random.choice(choices)

    names = [f"a{n}" for n in range(120)]
    return [
        And((Predicate(f"key{n % 7}", Op.EQ, (1,)), *map(atom, random.sample(names, 25 + n % 85))))
        for n in range(size)
    ]


def entries_that_go_on(flat: NDArray[np.uint32], places: NDArray[np.integer]) -> list[int]:
    """Where the words are that tell how entries go on."""
    found = []
    for block in map(int, places):
        head = int(flat[block])
        count, at = head & COUNT_MASK, block + 2 + 2 * bool(head & HAS_TILES)
        assert not head & HAS_MORE
        for word in map(int, flat[at + count : at + 2 * count]):
            narrow, wide, bits = word >> 16 & 31, word >> 21 & 15, word >> 25 & 15
            if word >> 29 == 7 and narrow + wide + bits:
                found.append(block + (word & 0xFFFF) + narrow + 2 * wide + 3 * bits)
    return found


@pytest.mark.parametrize("several", [0, 0.1])
def test_entries_that_go_on(several: float) -> None:
    random = Random(f"long {several}")
    rules = encode(long_rules(random, 500), random)
    scan, tiles = Scan(rules), Tiles(rules)
    slots = tiles.arrays.slot
    places = slots[slots != ~np.uint64(0)] & np.uint64(0xFFFFFFFF)
    words = entries_that_go_on(tiles.arrays.flat, places)
    assert len(words) > 60
    encoder, matches = EventEncoder(rules), 0
    for _ in range(40):
        event: dict[str, Any] = {f"key{n}": 1 for n in range(7)}
        for n in range(120):
            values = [random.randrange(60) for _ in range(3)]
            if random.random() < 0.998:
                event[f"a{n}"] = values if random.random() < several else values[0]
        events = encoder.encode(event)
        ages = scan.match(events).rule.tolist()
        pairs = to_pairs(events, len(rules.dictionary.axes))
        assert tiles.order[tiles.find_places(pairs, None)].tolist() == ages
        assert tiles.count(events, None).tolist() == [len(ages)]
        matches += len(ages)
    assert 100 < matches < 40 * 400


def test_a_stored_entry_goes_on_inside_the_array() -> None:
    random = Random(5)
    rules = encode(long_rules(random, 300), random)
    arrays = Tiles(rules).arrays
    slots = arrays.slot[arrays.slot != ~np.uint64(0)]
    places = (slots & np.uint64(0xFFFFFFFF)).astype(np.int64)
    atoms, conjunctions = len(rules.atoms.table), len(rules.forms.conjunction_start) - 1
    sizes = len(rules.dictionary.axes), atoms, conjunctions, conjunctions

    def fits(flat: NDArray[np.uint32]) -> bool:
        is_listed = np.zeros(len(arrays.tile), np.uint8)
        return bool(groups_fit(flat, arrays.width, places, *sizes, is_listed))

    assert fits(arrays.flat)
    last = max(entries_that_go_on(arrays.flat, places))
    for word in (0xFFFF, 1 << 16, 7 << 13):
        hostile = arrays.flat.copy()
        hostile[last] = word
        assert not fits(hostile[: last + 20])


def test_a_large_group_has_several_blocks() -> None:
    random = Random(3)
    arrays = Tiles(encode(one_key(random, 3 * MOST_ENTRIES), random)).arrays
    assert (arrays.flat[arrays.slot[arrays.slot != ~np.uint64(0)] & 0xFFFFFFFF] & HAS_MORE).any()


def test_widths_fill_one_word_and_two() -> None:
    for attributes in (0, 1, 2, 400, 70_000, 10_000_000):
        bits, narrow, wide = choose_widths(attributes).tolist()
        assert attributes <= 1 << bits
        assert bits + 1 + 2 * narrow <= 32
        assert bits + 1 + 2 * wide <= 64


def test_lists_of_codes_are_stored_once() -> None:
    random = Random(4)
    rules = encode(
        [Predicate(f"a{n % 50}", Op.IN, (n % 7, 9, 11 + n % 3)) for n in range(500)], random
    )
    tiles = Tiles(rules)
    table, codes = tiles.rules.atoms
    assert len(codes) < len(rules.atoms.codes) / 20
    lists = {tuple(codes[low:high].tolist()) for low, high in table[:, 2:].tolist()}
    assert sum(map(len, lists)) == len(codes)
    rules = tiles.rules
    parts = rules.forms, rules.scores, rules.dictionary.arrays, rules.texts.arrays
    check_rules(rules.size, rules.atoms, *parts)
    place = int(np.argmax(table[:, 3] - table[:, 2]))
    for low, high in ((1, 0), (0, -1)):
        overlapping = table.copy()
        overlapping[place, 2:] += (low, high)
        with pytest.raises(ArrayError):
            check_rules(rules.size, rules.atoms._replace(table=overlapping), *parts)
