"""Every reader of texts has the same grammar of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import tamis
from tamis import Matcher, RuleError
from tamis.encode.plain.reader import PlainReader
from tamis.encode.values import pack_texts
from tamis.expr.lexemes import NUMERAL, STRING
from tamis.expr.model import Predicate, Value
from tamis.expr.text.bulk import BulkReader
from tamis.expr.text.grammar import parse
from tamis.expr.text.predicates import read_predicate
from tamis.expr.text.shapes import Shapes

SIGNS = ("", "-", "--", "- ", "+")
WHOLES = ("", "0", "7", "007", "9007199254740993", "123456789012345678901", "\u0661")
FRACTIONS = ("", ".", ".5", ".1234567890123456789", "..5", ". 5")
EXPONENTS = ("", "e", "E", "e5", "E+2", "e-2", "e+", "e1.5", "e400", "ef", "_1", "x")
SPELLINGS = [
    "".join((sign, *digits, exponent))
    for sign, digits, exponent in product(SIGNS, product(WHOLES, FRACTIONS), EXPONENTS)
    if "".join(digits) not in ("", ".")
]


def value_of(read: Callable[[str], object], text: str) -> tuple[type, Value] | None:
    """The number that a reader finds in ``x = …``; None if it refuses the text."""
    try:
        rule = read(text)
    except RuleError:
        return None
    assert isinstance(rule, Predicate)
    (value,) = rule.values
    return type(value), value


@pytest.fixture(scope="module")
def parsed() -> dict[str, tuple[type, Value] | None]:
    """What the parser, which is the careful reader, makes of each spelling."""
    return {spelling: value_of(parse, f"x = {spelling}") for spelling in SPELLINGS}


def test_parser_reads_what_the_grammar_spells(
    parsed: dict[str, tuple[type, Value] | None],
) -> None:
    numeral = re.compile(rf"(?:- ?)?{NUMERAL}")
    good = {spelling for spelling, value in parsed.items() if value is not None}
    spelled = {spelling for spelling in SPELLINGS if numeral.fullmatch(spelling)}
    assert len(good) > 100
    assert good <= spelled
    # Too large for a double, or for an integer of 64 bits.
    assert all(re.search(r"e400|1$", spelling) for spelling in spelled - good)


def test_predicate_reader_agrees_with_the_parser(
    parsed: dict[str, tuple[type, Value] | None],
) -> None:
    read = 0
    for spelling, value in parsed.items():
        for text in (f"x = {spelling}", f"x IN ({spelling})", f"x BETWEEN {spelling} AND 9"):
            predicate = read_predicate(text)
            if predicate is not None:
                found = predicate.values[0]
                assert (type(found), found) == value, text
                read += 1
    assert read > 300


def test_shapes_agree_with_the_parser(parsed: dict[str, tuple[type, Value] | None]) -> None:
    shapes = Shapes()
    for _ in range(3):
        for spelling, value in parsed.items():
            assert value_of(shapes.parse, f"x = {spelling}") == value, spelling


def test_bulk_reader_agrees_with_the_parser(parsed: dict[str, tuple[type, Value] | None]) -> None:
    reader = BulkReader()
    for _ in range(3):
        for spelling, value in parsed.items():
            assert value_of(reader.parse, f"x = {spelling}") == value, spelling
            if value is None:
                with pytest.raises(RuleError):
                    reader.read(f"x = {spelling}", "strong")


def test_kernels_agree_with_the_parser(parsed: dict[str, tuple[type, Value] | None]) -> None:
    reader = PlainReader()
    texts = [f"x = {spelling}" for spelling in SPELLINGS]
    reader.add(*pack_texts(texts), np.zeros(len(texts), np.uint8))
    is_plain = reader.finish().is_plain.tolist()
    assert sum(is_plain) > 50
    known = [spelling for spelling, plain in zip(SPELLINGS, is_plain, strict=True) if plain]
    assert [spelling for spelling in known if parsed[spelling] is None] == []
    matcher = Matcher()
    for number, spelling in enumerate(known):
        matcher.add(number, f"x = {spelling}")
    for number, spelling in enumerate(known):
        value = parsed[spelling]
        assert value is not None
        assert number in matcher.match({"x": value[1]}), spelling


@pytest.mark.parametrize("text", ["x = 1.1e", "x = 1e", "x IN (1.1e, 2)", "x BETWEEN 1.e AND 2"])
def test_numeral_without_exponent_is_refused_and_nothing_else(text: str) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError):
        matcher.add(1, text)
    report = matcher.add_many(
        [(n, text if n % 50 == 7 else f"x = {n}") for n in range(100)], on_error="skip"
    )
    assert [bad.id for bad in report.bad] == [7, 57]
    assert len(matcher) == 98


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "1" * 200_000 + "y",
        "x IN (" + "1" * 200_000 + "y)",
        "x IN (1, " * 50_000,
        "x = '" + "a''" * 900 + "b" * 200_000,
        "x" * 200_000 + " y",
        "a." * 100_000 + "1",
    ],
)
def test_long_texts_are_refused_in_linear_time(text: str) -> None:
    """In quadratic time each of them would take minutes."""
    assert read_predicate(text) is None
    with pytest.raises(RuleError):
        Shapes().parse(text[:4_000])
    with pytest.raises(RuleError):
        tamis.parse(text)


def test_words_do_not_run_into_operators() -> None:
    for text in ("xIN (1)", "xIS NULL", "xBETWEEN 1 AND 2", "x NOTIN (1)", "xLIKE 'a'"):
        assert read_predicate(text) is None
        with pytest.raises(RuleError):
            tamis.parse(text)


@pytest.mark.parametrize(
    "listed", ["", ",", "1,", "1, ", ", 1", "1 2", "1,,2", "1,  2", "(1)", "1) OR (x = 2"]
)
def test_malformed_list_is_left_to_the_parser(listed: str) -> None:
    assert read_predicate(f"x IN ({listed})") is None


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("''", 2),
        ("'a'", 3),
        ("'it''s'", 7),
        ("''''", 4),
        ("'a' '", 3),
        ("'a''b", 0),
        ("'a'''b", 6 - 1),
    ],
)
def test_string_ends_at_its_last_quote(text: str, length: int) -> None:
    found = re.compile(STRING).match(text)
    assert (found.end() if found else 0) == length


def test_string_of_many_doubled_quotes_is_parsed() -> None:
    text = "x = '" + "''" * 5_000 + "'"
    assert read_predicate(text) is None
    assert tamis.parse(text) == Predicate("x", tamis.expr.model.Op.EQ, ("'" * 5_000,))


@pytest.mark.parametrize(
    ("text", "position"),
    [("x = 'a", 4), ("x = 'a''b", 4), ("x = 'a' AND \"b", 12), ("x = 'a' '", 8), ("x = '''", 4)],
)
def test_unclosed_quote_is_located_where_its_string_starts(text: str, position: int) -> None:
    with pytest.raises(tamis.RuleSyntaxError, match="not closed") as caught:
        tamis.parse(text)
    assert caught.value.position == position
