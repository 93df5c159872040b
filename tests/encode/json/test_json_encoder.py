"""JSON texts: the kernels and the decoder of mappings encode the same events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import tamis
from tamis.encode.arrays import Events
from tamis.encode.json.encoder import JsonEncoder
from tamis.encode.json.reader import find_suspects, read_texts
from tamis.encode.json.tables import build_tables
from tamis.encode.json.texts import JsonTexts
from tamis.errors import EventError, SchemaError
from tamis.matcher.segment import Segment

RULES = [
    "a = 1 AND b = 'x'",
    "a IN (0, -3, 2.5, 9007199254740993, 1e30) OR a < -0.125",
    "b IN ('y', 'é', 'a\"b', 'tab\t', '') AND c.d = TRUE",
    "b >= 'm' OR b LIKE '%z%'",
    "c.d.e > 5 OR c.d.e = 'deep'",
    "c.f IN ('p', 'q') AND \"x y\" <> 7",
    '".odd" = 1 OR "a..b" = 2 OR "é" IS NULL',
    "tags IN ('t1', 't2', 't3') AND tags <> 'no'",
    "c.d IS NOT NULL AND flag = FALSE",
]
FUNCTIONS = ["size(tags) = 2", "length(b) > 3", "superset(tags, ('t1', 't2'))", "a % 2 = 1"]
SCHEMA = {"at": "timestamp", "a": "double", "tags": "string[]", "c.f": "string"}

NAMES = ["a", "b", "c", "d", "e", "f", "tags", "x y", ".odd", "a..b", "é", "flag", "at", "c.d", "u"]
NAMES += ["c.d.e", "c.f", "other", "", r"b\u0061", r"\u0061", "a.b", r"q\"q"]
SCALARS = ["1", "0", "-3", "2.5", "-0", "-0.0", "1.0", "1e0", "1E+2", "25e-1", "null", "true"]
SCALARS += ["false", "9007199254740993", "123456789012345678", "1234567890123456789", "1e30"]
SCALARS += ["0.1", "52.37403512345678", "-0.12500000000000000001", "1e-5", "12345678901234567.5"]
SCALARS += [
    '"x"',
    '"y"',
    '"é"',
    r'"a\"b"',
    r'"tab\t"',
    '""',
    '"zzz"',
    '"mm"',
    '"deep"',
    r'"\u0078"',
]
SCALARS += ['"t1"', '"t2"', '"no"', '"p"', '"longer text"', r'"\ud83d\ude00"', '"2024-01-01"', "7"]
WILD = [
    "01",
    "1.",
    "-",
    "1e",
    "1e400",
    "nul",
    '"\\q"',
    '"\\ud800"',
    '"\x01"',
    "{",
    "]",
    "NaN",
    "5,",
]
WILD += ["9" * 40, '"\\u12"', "1e-400", "Infinity", "'x'", "tru", '"\\', "[" * 70 + "]" * 70]
SPACES = ["", "", "", " ", "\t", " \r\n"]


@pytest.fixture(scope="module")
def plain() -> Segment:
    return build_segment(RULES, {})


def build_segment(rules: Sequence[str], schema: dict[str, str]) -> Segment:
    matcher = tamis.Matcher(schema=schema)
    matcher.add_many([(i, rule) for i, rule in enumerate([*rules, *rules, *rules])])
    (view,) = matcher._writer.snapshot.views
    return view.segment


def draw_value(random: Random, depth: int, wild: float) -> str:
    if random.random() < wild:
        return random.choice(WILD)
    kind = random.random()
    if depth > 3 or kind < 0.6:
        return random.choice(SCALARS)
    if kind < 0.8:
        items = [draw_value(random, depth + 1, wild) for _ in range(random.randrange(5))]
        return f"[{f'{draw_space(random)},{draw_space(random)}'.join(items)}{draw_space(random)}]"
    return draw_object(random, depth + 1, wild)


def draw_object(random: Random, depth: int, wild: float) -> str:
    names = random.choices(NAMES, k=random.randrange(8))
    if random.random() < 0.7:
        names = list(dict.fromkeys(names))  # else a name may be there twice
    pairs = [
        f'{draw_space(random)}"{name}"{draw_space(random)}:{draw_space(random)}'
        f"{draw_value(random, depth, wild)}{draw_space(random)}"
        for name in names
    ]
    return f"{{{','.join(pairs)}}}"


def draw_space(random: Random) -> str:
    return random.choice(SPACES)


def draw_text(random: Random) -> bytes:
    wild = 0.03 if random.random() < 0.2 else 0.0
    text = (draw_space(random) + draw_object(random, 0, wild) + draw_space(random)).encode()
    if random.random() < 0.05:  # a byte is lost, or another one
        at = random.randrange(len(text))
        text = text[:at] + random.choice([b"", b'"', b"\xff", b"}", b","]) + text[at + 1 :]
    return random.choice([b"[]", b"1", b"", b"  "]) if random.random() < 0.01 else text


def to_texts(texts: Sequence[bytes]) -> JsonTexts:
    found = JsonTexts.of_arrow(pa.array(texts, pa.large_binary()))
    assert found is not None
    return found


def encode_both(segment: Segment, texts: JsonTexts) -> tuple[object, object]:
    """What either road gives: the entries of each event, or the errors by event."""
    encoder = segment._encoders.texts
    return (
        describe(segment, lambda: encoder.encode(texts, 5)),
        describe(segment, lambda: segment.encode_chunk(texts.events(5), 5)),
    )


def describe(segment: Segment, encode: Callable[[], Events]) -> object:
    try:
        events = encode()
    except (EventError, SchemaError) as error:
        return str(error), {number: str(reason) for number, reason in error.refused.items()}
    check_adjacent(events)
    code = level_gaps(segment, events)
    return [
        (
            sorted(zip(events.attribute[a:b].tolist(), code[a:b].tolist(), strict=True)),
            sorted(events.text[c:d].tolist()),
        )
        for a, b, c, d in zip(
            events.start, events.start[1:], events.text_start, events.text_start[1:], strict=False
        )
    ]


def level_gaps(segment: Segment, events: Events) -> NDArray[np.int32]:
    """The codes of events; where strings have no order, one for all that no rule mentions."""
    code = events.code.copy()
    for number, axis in enumerate(segment.engine.rules.dictionary.axes):
        if not axis.orders_strings:
            here = (events.attribute == number) & (code >= axis.strings_at) & (code < axis.times_at)
            here &= (code - axis.strings_at) % 2 == 0
            code[here] = axis.strings_at
    return code


def check_adjacent(events: Events) -> None:
    for a, b in zip(events.start, events.start[1:], strict=False):
        names = events.attribute[a:b].tolist()
        changes = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
        assert len(changes) == len(set(changes)), "entries of an attribute are not adjacent"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("rules", "schema"),
    [(RULES, {}), (RULES + FUNCTIONS, {}), ([*RULES, "at > DATE '2020-01-01'"], SCHEMA)],
    ids=["plain", "functions", "schema"],
)
def test_both_roads_encode_the_same_events(
    rules: Sequence[str], schema: dict[str, str], seed: int
) -> None:
    segment, random = build_segment(rules, schema), Random(seed)
    texts = [draw_text(random) for _ in range(400)]
    for some in [texts[i : i + 4] for i in range(0, len(texts), 4)]:
        by_kernels, by_mappings = encode_both(segment, to_texts(some))
        assert by_kernels == by_mappings, some
    good = [text for text in texts if is_object(text)]
    by_kernels, by_mappings = encode_both(segment, to_texts(good))
    assert by_kernels == by_mappings


def is_object(text: bytes) -> bool:
    try:
        to_texts([text]).event(0)
    except EventError:
        return False
    return True


def test_kernels_read_what_is_usual(plain: Segment) -> None:
    texts = to_texts(
        [
            b'{"a": 1, "b": "x", "tags": ["t1", "t2", "t1"], "c": {"d": {"e": 6}, "f": null}}',
            b'{"items": [{"sku": "1", "n": [1, {"deep": true}]}], "c": [{"f": "p"}, {"f": "q"}]}',
            '{"c.d.e": 5.25, "é": "\\"quoted\\" \\u00e9", "b": "a\\"b"}'.encode(),
            b"{}",
        ]
    )
    tables = build_tables(plain.engine.rules.dictionary, ())
    assert not read_texts(tables, texts).is_left.any()


def test_all_texts_that_are_not_objects_are_suspects() -> None:
    random = Random(7)
    texts = [draw_text(random) for _ in range(2_000)]
    bad = [row for row, text in enumerate(texts) if not is_object(text)]
    suspects = find_suspects(to_texts([t for t in texts if is_utf8(t)]))
    is_bad = np.array([not is_object(t) for t in texts if is_utf8(t)])
    assert set(np.flatnonzero(is_bad)) <= set(suspects.tolist())
    assert len(bad) > 50
    assert len(suspects) < 0.7 * len(texts)


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_numbers_have_the_same_codes(plain: Segment) -> None:
    random = Random(3)
    numbers = [repr(random.uniform(-1, 1) * 10.0 ** random.randrange(-30, 30)) for _ in range(500)]
    numbers += [str(random.randrange(-(2**62), 2**62)) for _ in range(100)]
    numbers += [f"{random.randrange(10**9)}e{random.randrange(-40, 40)}" for _ in range(300)]
    rules = [f"a = {number}" for number in numbers[::2]]
    segment = build_segment(rules, {})
    texts = to_texts([f'{{"a": {number}}}'.encode() for number in numbers])
    by_kernels, by_mappings = encode_both(segment, texts)
    assert by_kernels == by_mappings


def test_long_lists_and_many_rows_need_more_room(plain: Segment) -> None:
    texts = [f'{{"tags": {list(range(n))}, "a": {n}}}'.encode() for n in (3, 600, 100)] * 50
    texts += [b'{"a": 1, "b": "x", "tags": ["t1", "t2", "t3", "t4", "t5", "t6"]}'] * 4_000
    by_kernels, by_mappings = encode_both(plain, to_texts(texts))
    assert by_kernels == by_mappings


def test_missing_texts_are_events_without_values(plain: Segment) -> None:
    column = pa.array(['{"a": 1}', None, '{"a": 2}'])[1:]
    texts = JsonTexts.of_arrow(column)
    assert texts is not None
    assert texts.events() == [{}, {"a": 2}]
    by_kernels, by_mappings = encode_both(plain, texts)
    assert by_kernels == by_mappings


def test_a_hash_collision_is_no_match(plain: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and strings are compared, whatever their slots."""
    from tamis.encode.json import tables

    monkeypatch.setattr(tables, "_room", lambda count: 1 << (2 * count).bit_length())
    encoder = JsonEncoder(plain.engine.rules, plain._encoders.events, ())
    texts = to_texts([f'{{"n{i}": 1, "b": "s{i}", "a": {i}}}'.encode() for i in range(500)])
    by_kernels = describe(plain, lambda: encoder.encode(texts))
    assert by_kernels == describe(plain, lambda: plain.encode_chunk(texts.events()))


def test_a_key_that_comes_again_after_an_object_with_its_path_counts_once(plain: Segment) -> None:
    texts = [
        b'{"c.f": "p", "c": {"f": "q"}, "c.f": "x"}',
        b'{"c": {"d.e": 6, "d": {"e": 1}, "d.e": 1}}',
        b'{"c": {"f": "p"}, "c.f": "q"}',
    ]
    by_kernels, by_mappings = encode_both(plain, to_texts(texts))
    assert by_kernels == by_mappings


GUARDED = ["a = 1 AND b LIKE '%o%'", "a = 2 AND b LIKE 'x%'", "b = 'bob' AND u LIKE 'u%'"]


@pytest.mark.parametrize(
    "function", ["a % 3 = 1", "length(b) > 1", "length(u) > 1 AND a % 2 = 1", "c.d IS NULL"]
)
def test_guards_of_text_predicates_may_be_captured(function: str) -> None:
    """What Python reads and what kernels read guard each other's texts."""
    matcher = tamis.Matcher()
    matcher.add_many([*enumerate(GUARDED), (9, function)])
    lines = [
        '{"a": 1, "b": "bob", "u": "uu"}',
        '{"a": 2, "b": "xo"}',
        '{"u": "u", "b": "b\\u006fb"}',
    ]
    texts = to_texts([line.encode() for line in lines])
    (view,) = matcher._snapshot.frozen_views
    events = view.segment.encode_texts(texts)
    found = view.segment.engine.match(events)
    expected = [matcher.match(event) for event in texts.events()]
    ids = view.segment.ids.array(found.rule).tolist()
    assert [sorted(ids[a:b]) for a, b in pairwise(found.start)] == expected
    assert expected[0][:1] == [0]
