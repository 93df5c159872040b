"""Programs are filed under the clause that events satisfy least often, and still all found."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from tamis.encode.arrays import IF_ABSENT
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.scan import Scan
from tamis.engines.tiles import Tiles
from tamis.expr.model import LOGICS, Logic


def encode(texts: list[str], logic: Logic = "strong") -> EncodedRules:
    encoder = RuleEncoder()
    for text in texts:
        encoder.add_text(text, logic)
    return encoder.finish()


def covers(rules: EncodedRules) -> list[list[int]]:
    """The attributes of each program's cover."""
    forms = Tiles(rules).rules.forms
    attribute = Tiles(rules).rules.atoms.attribute[forms.cover_atom].tolist()
    start = forms.cover_start.tolist()
    return [attribute[a:b] for a, b in pairwise(start)]


def large(text: str, size: int = 9) -> str:
    """A rule whose DNF is too large, so that it is kept as a program."""
    clauses = " AND ".join(f"(p{i} = 1 OR q{i} = 1)" for i in range(size))
    return f"{text} AND {clauses}"


def test_a_program_is_filed_under_its_rarest_clause() -> None:
    # All rules share two months, so `month` is a poor key although it is an equality.
    texts = [large(f"month = {i % 2} AND (a = {i} OR b = {i})") for i in range(200)]
    rules = encode(texts)
    assert len(rules.forms.program_rule) == len(texts)
    names = list(rules.dictionary.attributes)
    assert {tuple(sorted(names[a] for a in cover)) for cover in covers(rules)} == {("a", "b")}


def test_a_cover_avoids_texts() -> None:
    rules = encode([large(f"kind = {i % 3} AND name LIKE '%x{i}_%'") for i in range(50)])
    names = list(rules.dictionary.attributes)
    assert "name" not in {names[a] for cover in covers(rules) for a in cover}


def test_a_program_that_matches_an_empty_event_has_no_cover() -> None:
    text = " AND ".join(f"(p{i} <> 1 OR q{i} <> 1)" for i in range(9))
    rules = encode([text], "weak")
    assert (rules.atoms.flags & IF_ABSENT).all()
    assert covers(rules) == [[]]
    event = EventEncoder(rules).encode_many([{}, {"p0": 1, "q0": 1}])
    assert Tiles(rules).count(event).tolist() == [1, 0]


@pytest.mark.parametrize("logic", LOGICS)
def test_programs_of_all_kinds_answer_as_scan(logic: Logic) -> None:
    random = Random(3)
    kinds = ["{} = {}", "{} <> {}", "{} > {}", "NOT {} >= {}", "{} IN ({}, 7)", "{} IS NULL"]

    def clause() -> str:
        atoms = [
            random.choice(kinds).format(random.choice("abcdefghij"), random.randrange(9))
            for _ in range(random.randint(1, 4))
        ]
        return f"({' OR '.join(atoms)})"

    texts = [" AND ".join(clause() for _ in range(random.randint(6, 9))) for _ in range(400)]
    rules = encode(texts, logic)
    assert len(rules.forms.program_rule) > 200
    events = [
        {
            name: random.sample(range(9), 2) if random.random() < 0.1 else random.randrange(9)
            for name in random.sample("abcdefghij", random.randint(0, 10))
        }
        for _ in range(300)
    ]
    rows = EventEncoder(rules).encode_many(events)
    tiles, scan = Tiles(rules), Scan(rules)
    expected, found = scan.match(rows), tiles.match(rows)
    assert len(expected.rule) > 100
    for i in range(len(events)):
        ours = tiles.order[found.rule[found.start[i] : found.start[i + 1]]]
        theirs = scan.order[expected.rule[expected.start[i] : expected.start[i + 1]]]
        assert sorted(ours.tolist()) == sorted(theirs.tolist())
