"""The engines of the product find for an event expression what testing every rule finds.

The contract suite compares all engines with the reference; here rules are many, and stand in tiles.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tamis.encode.arrays import Choices
from tamis.encode.event_expressions import ChoiceEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.base import Engine
from tamis.engines.scan import Scan
from tamis.engines.shared import Shared
from tamis.engines.tiles import Tiles
from tamis.engines.tiles.engine import TilesScratch
from tamis.expr.analysis.event_expressions import find_alternatives
from tamis.expr.model import LOGICS
from tamis.expr.text.grammar import parse
from tamis.expr.value_order import INTEGERS, LINES, Line
from tests.engines import test_shared
from tests.interpreted import interpret

RULES = 800


def lines_of(name: str) -> tuple[Line, ...]:
    """Some attributes are integers, between which there are hollow gaps."""
    return (INTEGERS,) if name in ("a1", "wide") else LINES


def encode(texts: list[str]) -> EncodedRules:
    encoder = RuleEncoder()
    for number, text in enumerate(texts):
        encoder.add(parse(text), LOGICS[number % 2])
    return encoder.finish()


def draw_rules(random: Random, count: int = RULES) -> list[str]:
    draws = test_shared.draw_conjunctions, test_shared.draw_clauses, test_shared.draw_tree
    return [random.choice(draws)(random) for _ in range(count)]


def draw_expression(random: Random) -> str:
    predicates = [
        *(f"a{i} BETWEEN {random.randint(0, 2)} AND 3" for i in range(3)),
        *(f"a{i} = {random.randint(0, 3)}" for i in range(3, 6)),
        f"wide > {random.randint(0, 400)}",
        f"wide BETWEEN {random.randint(0, 200)} AND {random.randint(200, 400)}",
        "text IN ('aab', 'xbaa', 'b')",
        "text = 'abba'",
    ]
    chosen = random.sample(predicates, random.randint(1, 6))
    return " AND ".join(chosen)


def find(engine: Engine, choices: Choices, mask: np.ndarray | None) -> tuple[list[int], list[int]]:
    """What an engine finds and leaves undecided, as numbers in the order of addition."""
    matched, undecided = engine.match_expression(choices, mask)
    ages = engine.order[matched].tolist()
    assert ages == sorted(ages)
    return ages, sorted(engine.order[undecided].tolist())


def check(engine: Engine, expressions: list[str], random: Random) -> tuple[int, int]:
    """Compare an engine with a scan; returns how many rules were found and left undecided."""
    scan = Scan(engine.rules)
    found = doubted = 0
    for number, text in enumerate(expressions):
        for alternative in find_alternatives(parse(text), lines_of):
            choices = ChoiceEncoder(engine.rules).encode_choices(alternative)
            mask = None
            if number % 3 == 0:
                mask = np.array([random.randrange(2) for _ in range(engine.rules.size)], np.uint8)
            matched, undecided = find(engine, choices, mask)
            places = scan.match_expression(choices, mask)
            assert matched == sorted(engine.order[places.matched].tolist())
            assert undecided == sorted(engine.order[places.undecided].tolist())
            found, doubted = found + len(matched), doubted + len(undecided)
    return found, doubted


@pytest.mark.parametrize("engine", [Tiles, Shared])
def test_rules_of_all_forms_are_found(engine: type[Engine]) -> None:
    random = Random(5)
    built = engine(encode(draw_rules(random)))
    found, doubted = check(built, [draw_expression(random) for _ in range(24)], random)
    assert found > 500
    assert doubted > 0


def test_rules_in_tiles_are_found() -> None:
    """Large groups whose conjunctions share attributes; some have two atoms on one of them."""
    random = Random(6)

    def draw_rule() -> str:
        parts = [f"g = {random.randrange(3)}"]
        for name in random.sample("abcde", 3):
            low = random.randrange(30)
            parts.append(f"{name} BETWEEN {low} AND {low + random.randrange(1, 25)}")
        if random.random() < 0.3:
            parts += [f"a <> {random.randrange(30)}", f"b > {random.randrange(10)}"]
        return " AND ".join(parts)

    built = Tiles(encode([draw_rule() for _ in range(1_200)]))
    assert len(built.arrays.tile) > 3
    expressions = [
        " AND ".join(
            [f"g BETWEEN {random.randrange(2)} AND 1"]
            + [f"{name} BETWEEN {low} AND {low + width}" for name in "abcde"[: width + 2]]
        )
        for low in (3, 11, 20)
        for width in (0, 1, 2, 40)
    ]
    found, _ = check(built, expressions, random)
    assert found > 300


def test_a_wide_range_lists_every_group_once() -> None:
    """More tree nodes than there are groups: then all groups are listed, and none is marked."""
    random = Random(7)
    built = Tiles(encode([f"x = {i} AND y > {i % 5}" for i in range(40)]))
    check(built, ["x > -1 AND y BETWEEN 0 AND 3"] * 3, random)
    scratch = built._scratch()
    assert isinstance(scratch, TilesScratch)
    assert not scratch._workspace.visited.any()
    assert not scratch._workspace.marks.any()


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the hash of a key wraps around
@pytest.mark.parametrize("engine", [Tiles, Shared])
def test_the_kernels_stay_within_bounds(
    engine: type[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(8)
    built = engine(encode(draw_rules(random, 120)))
    expressions = [draw_expression(random) for _ in range(5)]
    interpret(monkeypatch)
    found, _ = check(built, expressions, random)
    assert found > 20
