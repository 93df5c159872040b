"""Encoded rules become named arrays, and are restored without reading the values."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tamis.encode import dictionary as dictionary_module
from tamis.encode.arrays import DictionaryArrays
from tamis.encode.columns import ColumnEncoder
from tamis.encode.dictionary import Axis, Dictionary
from tamis.encode.events import EventEncoder
from tamis.encode.ragged import starts
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.encode.serialize import from_arrays, to_arrays
from tamis.encode.values import pack_texts
from tamis.engines.registry import ENGINES, load_engine
from tamis.expr.model import LOGICS, Expr, Op, Predicate, Value
from tamis.expr.weights import RuleWeights
from tests import randoms
from tests.encode.test_dictionary import DOUBLES, INTEGERS, STRINGS, TIMES
from tests.randoms import EVERYTHING
from tests.strategies import expressions

# --- Round trips ------------------------------------------------------------------------


def encode(rules: Iterable[Expr]) -> EncodedRules:
    encoder = RuleEncoder()
    for number, rule in enumerate(rules):
        encoder.add(rule, LOGICS[number % 2])
    return encoder.finish()


def write_and_map(rules: EncodedRules, folder: Path) -> EncodedRules:
    """`rules`, written to files and mapped into memory.

    Privately, so that the arrays count as writable: Numba compiles a kernel anew for others.
    """
    for name, array in to_arrays(rules).items():
        np.save(folder / name, array)
    files = {file.stem: file for file in folder.iterdir()}
    return from_arrays({name: np.load(file, mmap_mode="c") for name, file in files.items()})


def read_only(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    copies = {name: array.copy() for name, array in arrays.items()}
    for array in copies.values():
        array.setflags(write=False)
    return copies


def equal(ours: EncodedRules, theirs: EncodedRules) -> bool:
    """Whether the arrays are the same, by name, type, shape and content."""
    one, other = to_arrays(ours), to_arrays(theirs)
    return one.keys() == other.keys() and all(
        array.dtype == other[name].dtype and np.array_equal(array, other[name])
        for name, array in one.items()
    )


@given(st.lists(expressions(wild=True), max_size=6))
def test_random_rules(rules: list[Expr]) -> None:
    ours = encode(rules)
    theirs = from_arrays(read_only(to_arrays(ours)))
    assert equal(ours, theirs)
    assert theirs.size == ours.size
    assert theirs.dictionary.attributes == ours.dictionary.attributes
    assert theirs.dictionary.base.tolist() == ours.dictionary.base.tolist()


@given(st.lists(expressions(), max_size=6))
def test_arrays_have_basic_types(rules: list[Expr]) -> None:
    for name, array in to_arrays(encode(rules)).items():
        assert array.ndim in (1, 2), name
        assert array.dtype.kind in "iuf", name


@pytest.mark.parametrize("engine", ENGINES)
def test_mapped_rules_match_the_same_events(engine: str, tmp_path: Path) -> None:
    random = Random(21)
    encoder = RuleEncoder()
    for _ in range(300):
        rule = randoms.rule(random, EVERYTHING, 3)
        encoder.add(rule, random.choice(LOGICS))
    weighted = Predicate("s", Op.IN, ("a", "é", "🙂"))
    encoder.add(weighted, "strong", RuleWeights.of({("s", "é"): 2.5, ("s", "🙂"): 0.1}, weighted))
    ours = encoder.finish()
    theirs = write_and_map(ours, tmp_path)
    events = [randoms.event(random, EVERYTHING, several=0.4) for _ in range(60)]
    found = []
    for rules in (ours, theirs):
        events_of = EventEncoder(rules).encode_many(events)
        built = load_engine(engine)(rules)
        found.append((*built.match(events_of), *built.top(events_of, 20)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


# --- Axes over arrays -------------------------------------------------------------------

VALUES = st.lists(INTEGERS | DOUBLES | STRINGS | TIMES | st.booleans(), max_size=12)
OTHERS = st.lists(
    INTEGERS | DOUBLES | STRINGS | TIMES | st.sampled_from((math.inf, -math.inf)), max_size=12
)


def axis_of(values: Sequence[Value]) -> Axis:
    return Dictionary.of([Predicate("x", Op.IN, tuple(values))]).axes[0]


def sorted_distinct(values: Iterable[Any]) -> list[Any]:
    return sorted(set(values))


@given(VALUES)
def test_the_mentioned_values_are_restored(values: list[Value]) -> None:
    axis = axis_of(values)
    plain = [v for v in values if not isinstance(v, bool)]
    assert axis.numbers == sorted_distinct(v for v in plain if isinstance(v, int | float))
    assert axis.strings == sorted_distinct(v for v in plain if isinstance(v, str))
    assert axis.string_array().to_pylist() == axis.strings
    assert len(axis.times) == len({v for v in plain if isinstance(v, datetime)})


@given(VALUES, OTHERS)
def test_large_and_small_axes_have_the_same_codes(values: list[Value], others: list[Value]) -> None:
    """Bisection of the arrays and look-ups in dicts give the same codes."""
    small, large = axis_of(values), axis_of(values)
    small.load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dictionary_module, "_SMALL", -1)
        patch.setattr(dictionary_module, "_MOST_CACHED", 3)
        for value in (*others, *values, *others):
            assert large.code(value) == small.code(value), value
            assert len(large.exact) <= 3


def test_strings_are_in_the_order_of_code_points() -> None:
    texts = ["\ue000", "\uffff", "🙂", "\U0010ffff", "é", "z", "", "\x00", "\ud7ff"]
    axis = axis_of(texts)
    assert axis.strings == sorted(texts)
    codes = [axis.code(text) for text in sorted(texts)]
    assert codes == sorted(codes)


def test_both_zeros_are_one_value() -> None:
    for zeros in ((0.0, -0.0), (-0.0, 0), (-0.0,)):
        axis = axis_of(zeros)
        assert str(axis.numbers) == "[0]"
        assert axis.code(0) == axis.code(0.0) == axis.code(-0.0)


# --- Large dictionaries -----------------------------------------------------------------

ATTRIBUTES, EACH = 400, 17_500


def stored_dictionary() -> dict[str, NDArray[Any]]:
    """Seven million mentioned numbers, and some strings for two of the attributes."""
    names = [f"a{i}" for i in range(ATTRIBUTES)]
    number = np.tile(np.arange(EACH, dtype=np.float64), ATTRIBUTES)
    words = [f"w{i:06}" for i in range(20_000)]
    arrays = DictionaryArrays(
        *pack_texts(names),
        starts([EACH] * ATTRIBUTES),
        number,
        np.empty(0, np.uint16),
        starts([10_000, 10_000] + [0] * (ATTRIBUTES - 2)),
        *pack_texts(words),
        starts([0] * ATTRIBUTES),
        np.empty(0, np.int64),
        np.zeros(ATTRIBUTES, np.uint8),
    )
    return {f"dictionary.{name}": array for name, array in arrays._asdict().items()}


def test_opening_copies_no_values_however_many() -> None:
    arrays = read_only({**to_arrays(encode([])), **stored_dictionary()})
    event = {f"a{i}": i + 0.5 for i in range(15)}
    EventEncoder(from_arrays(arrays)).encode(event)
    tracemalloc.start()
    EventEncoder(from_arrays(arrays)).encode(event)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, "there are seven million values"


def test_columns_of_a_large_axis() -> None:
    rules = from_arrays({**to_arrays(encode([])), **stored_dictionary()})
    rows: list[dict[str, Any]] = [{"a1": "w010000"}, {"a1": "w019999"}, {"a1": 17_499}, {"a1": 3.5}]
    by_row = EventEncoder(rules).encode_many(rows)
    texts, numbers = pa.array(["w010000", "w019999"]), pa.array([17_499, 3.5])
    columns = ColumnEncoder(rules)
    codes = [
        columns.encode(pa.record_batch({"a1": column})).code.tolist() for column in (texts, numbers)
    ]
    assert codes[0] + codes[1] == by_row.code.tolist()


def test_codes_do_not_depend_on_earlier_look_ups() -> None:
    stamp = datetime(2024, 2, 29, tzinfo=UTC)
    values: list[Value] = [*range(3_000), *map(str, range(3_000)), stamp, 2**53 + 1, 2.0**53]
    axis, fresh = axis_of(values), axis_of(values)
    axis.load()
    expected = [axis.code(value) for value in values]
    axis.unload()
    assert not axis.exact
    assert [axis.code(value) for value in reversed(values)] == expected[::-1]
    assert [fresh.code(value) for value in values] == expected
    assert len(set(expected)) == len(values)


def test_threads_with_simultaneous_first_look_ups_get_the_same_codes() -> None:
    random = Random(23)
    arrays = to_arrays(encode(randoms.rule(random, EVERYTHING, 3) for _ in range(200)))
    events = [randoms.event(random, EVERYTHING) for _ in range(30)]
    expected = from_arrays(arrays)
    wanted = EventEncoder(expected).encode_many(events)
    for _ in range(20):
        rules = from_arrays(arrays)
        encoder = EventEncoder(rules)
        with ThreadPoolExecutor(4) as threads:
            for found in threads.map(encoder.encode_many, [events] * 4):
                for one, other in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(one, other)
