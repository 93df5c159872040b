"""The compiled reader of plain rules: the same rules as from the parser, or none at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tamis.encode.arrays import SET, TEXT
from tamis.encode.plain import piece_table, reader
from tamis.encode.plain.reader import PlainReader, PlainRules
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.encode.values import pack_texts
from tamis.expr.model import LOGICS, Logic, Op, Predicate
from tamis.expr.text.bulk import BulkReader
from tamis.expr.text.write import to_sql
from tests.spellings import spell_rule
from tests.strategies import expressions, predicates


def read(texts: Sequence[str], logics: Sequence[Logic], plain: PlainReader) -> PlainRules:
    weak = np.array([logic == "weak" for logic in logics], np.uint8)
    plain.add(*pack_texts(list(texts)), weak)
    return plain.finish()


def describe_atoms(rules: EncodedRules) -> list[tuple[Any, ...]]:
    """Every atom, independent of how attributes, atoms and texts are numbered."""
    names = list(rules.dictionary.attributes)
    described = []
    for attribute, test, low, high in rules.atoms.table.tolist():
        operand: Any = (low, high)
        if test & 3 == SET:
            operand = tuple(rules.atoms.codes[low:high].tolist())
        elif test & 3 == TEXT:
            predicate = rules.texts._predicate(low)
            operand = (predicate.op, predicate.values)
        described.append((names[attribute], test, operand))
    return described


def describe(rules: EncodedRules) -> tuple[list[Counter[Any]], list[list[Any]], dict[str, Any]]:
    """The conjunctions and the score code of each rule, and the values of each attribute."""
    atoms = describe_atoms(rules)
    forms, scores = rules.forms, expand_scores(rules.forms, rules.scores)
    conjunctions: list[Counter[Any]] = [Counter() for _ in range(rules.size)]
    for number, rule in enumerate(forms.program_rule.tolist()):
        first, last = forms.program_start[number : number + 2]
        for atom, yes, no in forms.program[first:last].tolist():
            conjunctions[rule][atoms[atom], yes, no] += 1
    for number in range(len(forms.conjunction_start) - 1):
        first, last = forms.conjunction_start[number : number + 2]
        numbers = forms.conjunction_atom[first:last].tolist()
        assert len(set(numbers)) == len(numbers)
        conjunction = frozenset(atoms[atom] for atom in numbers)
        owners = [number]
        if len(forms.owner):
            owners = forms.owner[forms.owner_start[number] : forms.owner_start[number + 1]].tolist()
        for rule in owners:
            conjunctions[rule][conjunction] += 1
    codes = []
    for rule in range(rules.size):
        code = scores.code[scores.start[rule] : scores.start[rule + 1]].tolist()
        codes.append([atoms[item] if item >= 0 else item for item in code if item != -3])
    axes = {
        name: (axis.numbers, axis.strings, axis.times, axis.orders_strings)
        for name, axis in zip(rules.dictionary.attributes, rules.dictionary.axes, strict=True)
    }
    return conjunctions, codes, axes


def check(texts: Sequence[str], logics: Sequence[Logic] | None = None) -> list[bool]:
    """Compare the plain ones among `texts` with the parser; returns which are plain."""
    logics = ["strong"] * len(texts) if logics is None else logics
    plain, encoded, _ = read(texts, logics, PlainReader())
    encoder = RuleEncoder()
    for text, logic, is_plain in zip(texts, logics, plain.tolist(), strict=True):
        if is_plain:
            encoder.add_text(text, logic)
    expected = encoder.finish()
    assert encoded.size == expected.size
    assert describe(encoded) == describe(expected)
    marks: list[bool] = plain.tolist()
    return marks


# --- Equal to the parser ----------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.lists(predicates(wild=True), min_size=1, max_size=4), st.sampled_from(LOGICS)),
        min_size=1,
        max_size=4,
    )
)
def test_wild_conjunctions(rules: list[tuple[list[Predicate], Logic]]) -> None:
    texts = [" AND ".join(map(to_sql, conjunction)) for conjunction, _ in rules]
    check(texts, [logic for _, logic in rules])


@given(st.lists(expressions(), min_size=1, max_size=6), st.sampled_from(LOGICS))
def test_random_rules(rules: list[Any], logic: Logic) -> None:
    check([to_sql(rule) for rule in rules], [logic] * len(rules))


def test_all_spellings() -> None:
    rng = Random(17)
    plain = 0
    for _ in range(60):
        texts = [spell_rule(rng) for _ in range(50)]
        plain += sum(check(texts, [rng.choice(LOGICS) for _ in texts]))
    assert plain > 500


@pytest.mark.usefixtures("interpreted")
def test_kernels_stay_within_their_arrays() -> None:
    rng = Random(23)
    texts = [spell_rule(rng) for _ in range(150)]
    texts += [text[: rng.randrange(len(text))] for text in texts]
    check(texts, [rng.choice(LOGICS) for _ in texts])


@given(st.randoms(use_true_random=False))
def test_any_spelling(rng: Random) -> None:
    texts = [spell_rule(rng) for _ in range(4)]
    check(texts, [rng.choice(LOGICS) for _ in texts])


@given(st.text("ab1 '\"`()=<>,.ANDORINT-!%\u00e9{#;/*+\n", max_size=30))
@example("a=1 AND b=1")
@example("a = 1AND b = 1")
@example("a = 'x'AND b = 1")
@example("a. and = 1 AND b = 2")
@example("a .and = 1 AND b = 2")
@example("a IN (1))")
@example("(a = 1")
@example("a = 1 {# b #} AND b = 1")
@example("a = 1 -- b")
@example("a BETWEEN 1 AND 2 AND b = 1")
@example("a BETWEEN 1 OR 2")
def test_any_text(text: str) -> None:
    check([text, "a = 1"])


# --- What is plain ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a = 1 AND b <> 'it' AND c IN (1, 2, 3) AND d BETWEEN 1.5 AND 2.5",
        "a = 1 and not b = 2",
        "(a = 1 AND b = 2) OR (c = 3 AND d = 4)",
        "(a = 1 OR b = 2) AND (c = 3 OR d = 4)",
        "a LIKE 'x%' AND b ILIKE '%y%' AND c IS NOT NULL",
        "a > 3 AND a < 7",
        "t >= DATE '2024-01-01' AND u < TIMESTAMP '2024-01-01 10:00:00'",
        "`a b` = TRUE AND user.name = 'x'",
        "a = 9223372036854775807 AND b = 'it''s'",
    ],
)
def test_common_rules_are_plain(text: str) -> None:
    assert check([text]) == [True]


@pytest.mark.parametrize(
    "text",
    [
        "lower(a) = 'x'",
        "a = b",
        "a + 1 = 2",
        "NOT (a = 1 AND b = 2)",
        "a = 1 AND (b = 2 OR (c = 3 AND d = 4))",
        "a = 1 AND a = 2",
        "a = 1 OR a = 2",
        "TRUE",
        "",
        "a = ",
        "a = 'x",
        "NOT " * 5000 + "a = 1",
        " AND ".join(f"a{i} = 1" for i in range(201)),
        " OR ".join(f"a{i} = 1" for i in range(65)),
    ],
)
def test_other_rules_are_left_out(text: str) -> None:
    assert check([text, "a = 1"]) == [False, True]


def test_rules_that_are_left_out_leave_no_trace() -> None:
    _, encoded, _ = read(["a = 1", "b = 'x' AND c ="], ["strong"] * 2, PlainReader())
    assert list(encoded.dictionary.attributes) == ["a"]
    assert len(encoded.atoms.table) == 1


def test_no_rules() -> None:
    assert read([], [], PlainReader()).encoded.size == 0


def test_logics_are_kept_apart() -> None:
    assert check(["a <> 1", "a <> 1"], ["strong", "weak"]) == [True, True]


def test_a_long_list_is_sorted() -> None:
    values = list(range(5000))
    Random(3).shuffle(values)
    texts = [f"a IN ({', '.join(map(str, values))})", "a IN (" + "7, " * 99 + "7)"]
    assert check(texts) == [True, True]


def test_scalars_are_left_to_be_intersected() -> None:
    texts = ["a > 1 AND a < 5", "b > 1 AND b < 5"]
    plain = read(texts, ["strong"] * 2, PlainReader(scalars={"a"}))
    assert plain.is_plain.tolist() == [False, True]


def test_predicates_are_adapted() -> None:
    def adapt(predicate: Predicate) -> Predicate:
        return Predicate(predicate.attribute, Op.EQ, (7,), predicate.negated)

    texts = ["a = 'x' AND b = 1", "c = 2"]
    plain = read(texts, ["strong"] * 2, PlainReader(adapt, adapted={"a"}))
    encoder = RuleEncoder(reader=BulkReader(adapt))
    encoder.add_text("a = 'x'", "strong")
    assert describe(plain.encoded)[2]["a"] == describe(encoder.finish())[2]["a"]
    assert describe(plain.encoded)[2]["b"][0] == [1]


def test_tables_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_BYTES_AT_ONCE", 64)
    rng = Random(5)
    texts = [
        f"a{rng.randrange(6000)} = 'v{rng.randrange(9000)}' AND b = {rng.randrange(9000)} "
        f"AND c = {i}"
        for i in range(7000)
    ]
    assert all(check(texts))


def test_equal_hashes_are_compared() -> None:
    table = piece_table.PieceTable()
    start, data = pack_texts(["ab", "ac"])
    weak = np.zeros(1, np.uint8)
    table.number(data, start[:1], start[1:2], weak)
    # Every slot has the hash of the first piece, so the second one meets it.
    taken = table._slots[table._slots != 0][0]
    other = piece_table.PieceTable()
    other.number(data, start[1:2], start[2:], weak)
    table._slots[other._slots != 0] = (other._slots.max() & ~np.uint64(0xFFFFFFFF)) | (
        taken & np.uint64(0xFFFFFFFF)
    )
    assert table.number(data, start[1:2], start[2:], weak).tolist() == [1]


def test_pieces_are_numbered_in_the_order_in_which_they_come() -> None:
    """Pieces are looked up in groups, also those that come twice in one, and new ones make room."""
    rng = Random(6)
    table = piece_table.PieceTable()
    known: dict[tuple[str, int], int] = {}
    for size in (1, 31, 32, 33, 9000):
        texts = [f"a = {rng.randrange(6000)}" for _ in range(size)]
        weak = [rng.randrange(2) for _ in texts]
        start, data = pack_texts(texts)
        numbers = table.number(data, start[:-1], start[1:], np.array(weak, np.uint8))
        expected = [known.setdefault(piece, len(known)) for piece in zip(texts, weak, strict=True)]
        assert numbers.tolist() == expected
    assert table.size == len(known)
    assert [table.text(number) for number in range(table.size)] == [text for text, _ in known]


def test_a_large_and_of_ors_is_a_program() -> None:
    clause = "a = 1 OR b = 2 OR c = 3 OR d = 4"
    texts = [
        f"({clause}) AND (e = 1 OR f <> 2 OR g = 3 OR h = 4) AND (i = 1 OR j = 2 OR k = 3)",
        f"({clause}) AND (a = 2 OR f <> 2 OR g = 3 OR h = 4) AND (d = 3 OR k = 3 OR l = 4)",
        " AND ".join(f"(x{i} = 1 OR y{i} = 1)" for i in range(40)),
    ]
    assert check(texts) == [True, True, True]
    assert len(read(texts, ["strong"] * 3, PlainReader()).encoded.forms.program_rule) == 3
    united = texts[0].replace("b = 2", "a = 2")
    repeated = f"({clause}) AND ({clause}) AND ({clause})"
    alone = f"{texts[0]} AND m = 1 AND m = 2"
    assert check([united, repeated, alone]) == [False, False, False]


def test_the_cover_of_a_program_has_positive_atoms() -> None:
    more = " AND ".join(f"(x{i} > 1 OR y{i} <> 1)" for i in range(6))
    texts = [
        f"(a = 1 OR b <> 2 OR c = 3) AND (d IN (4, 5) OR e = 5) AND {more}",
        f"(a <> 1 OR b = 2 OR c = 3) AND (d = 4 OR e <> 5) AND {more}",
    ]
    rules = read(texts, ["strong"] * 2, PlainReader()).encoded
    names = list(rules.dictionary.attributes)
    start, atom = rules.forms.cover_start, rules.forms.cover_atom
    covers = [
        [names[n] for n in rules.atoms.attribute[atom[start[i] : start[i + 1]]]] for i in (0, 1)
    ]
    assert covers == [["d", "e"], []]
