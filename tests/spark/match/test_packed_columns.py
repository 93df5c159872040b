"""Wide tables travel as arrays, and give the answers that a matcher gives."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tamis
from tamis import spark as ts
from tamis.spark.match import packed_columns
from tamis.spark.match.packed_columns import Packing
from tests.spark.indexes import publish_rules

WIDTH = 60
COUNT = 500


def make_values(kind: str, column: int) -> list[Any]:
    """Mostly nothing, as in wide tables."""

    def make(row: int) -> Any:
        number = (row * 7 + column * 3) % 11
        match kind:
            case _ if number > 4:
                return None
            case "n":
                return number
            case "t":
                return f"v{number}"
            case "d":
                return datetime(2026, 1, 1 + number, tzinfo=UTC)
            case "b":
                return number % 2 == 0
            case _:
                return Decimal(number) / 4

    return [make(row) for row in range(COUNT)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Sixty columns of several types, a nested one, and one of a type of its own."""
    columns = {f"{kind}{i}": make_values(kind, i) for kind in "ntdbx" for i in range(WIDTH)}
    columns["few"] = [1.5 * row for row in range(COUNT)]
    columns["nested"] = [{"n": row % 3} if row % 2 else None for row in range(COUNT)]
    return pa.table({"id": range(COUNT), **columns})


@pytest.fixture(scope="module")
def rules() -> list[tuple[str, str]]:
    """Rules about every column, so that all of them are sent."""
    made = []
    for i in range(WIDTH):
        made += [
            (f"n{i}", f"n{i} >= 1 AND t{i} != 'v0'"),
            (f"t{i}", f"t{i} IN ('v0', 'v2') AND b{i} = TRUE"),
            (f"d{i}", f"d{i} < TIMESTAMP '2026-01-03 00:00:00' AND few > 100"),
            (f"x{i}", f"x{i} = 0.5 AND nested.n = 1"),
            (f"missing{i}", f"n{i} IS NULL AND x{i} IS NULL AND id < 9"),
        ]
    return made


@pytest.fixture(scope="module")
def expected(table: pa.Table, rules: list[tuple[str, str]]) -> list[tuple[int, str]]:
    matcher = tamis.Matcher()
    matcher.add_many(rules)
    found = matcher.match_many(table).to_pydict()
    assert {rule[0] for rule in found["rule"]} == set("ntdxm")
    return sorted(zip(found["event"], found["rule"], strict=True))


@pytest.mark.parametrize("plan", ["whole", "sharded"])
def test_packed_columns_give_the_same_answers(
    spark,
    tmp_path: Path,
    table: pa.Table,
    rules: list[tuple[str, str]],
    expected: list[tuple[int, str]],
    plan: Any,
) -> None:
    publish_rules(tmp_path / "index", rules, shards=2)
    pq.write_table(table, tmp_path / "wide.parquet")
    events = spark.read.parquet(str(tmp_path / "wide.parquet"))
    answers = ts.match(events, tmp_path / "index", plan=plan)
    sent = answers._jdf.queryExecution().optimizedPlan().toString()
    assert "array(" in sent
    assert sorted(tuple(row) for row in answers.collect()) == expected


def test_unpacking_restores_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_columns, "FEWEST_PACKED", 2)
    packing = Packing.of(["a", "b", "c", "d", "e"], ["int", "text", "int", "other", "text"])
    assert packing == Packing(("a", "b", "c", "d", "e"), ((0, 2), (1, 4)), (3,))
    lists = [
        pa.array([[9, 9], [1, None], [2, 20]]),
        pa.array([["?", "?"], ["x", "y"], [None, "z"]]),
        pa.array([None, {"inner": 1}, {"inner": 2}]),
    ]
    events = pa.StructArray.from_arrays(lists, ["p0", "p1", "p2"])
    batch = pa.record_batch([[0, 1, 2], events], ["k0", "event"]).slice(1)
    unpacked = packing.unpack(batch)
    assert unpacked.schema.names == ["k0", "event"]
    assert unpacked["k0"].to_pylist() == [1, 2]
    assert unpacked["event"].to_pylist() == [
        {"a": 1, "b": "x", "c": None, "d": {"inner": 1}, "e": "y"},
        {"a": 2, "b": None, "c": 20, "d": {"inner": 2}, "e": "z"},
    ]
    assert packing.unpack(batch.slice(0, 0)).num_rows == 0


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize(
    "kind",
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.decimal128(9, 2),
        pa.string(),
        pa.large_string(),
    ],
    ids=str,
)
def test_unpacking_keeps_values_of_every_type(kind: pa.DataType, first: int) -> None:
    """Also of rows that do not begin with a byte of validity, in more than one block."""
    size, width = 2 * packed_columns._BLOCK_SIZE + 11, 5

    def make_rows(share: int) -> list[list[Any]]:
        """Rows in which one value of `share` is null."""
        numbers = [None if place % share == 0 else 7 * place % 101 for place in range(size * width)]
        made = [_convert(number, kind) for number in numbers]
        return [made[row * width : (row + 1) * width] for row in range(size)]

    for share in (3, size * width + 1):
        rows = make_rows(share)
        if share > size * width:
            rows[0][0] = rows[0][1]  # no null at all
        packing = Packing(tuple("abcde"), (tuple(range(width)),), ())
        events = pa.StructArray.from_arrays([pa.array(rows, pa.list_(kind))], ["p0"])
        batch = pa.record_batch([range(size), events], ["k0", "event"]).slice(first)
        unpacked = packing.unpack(batch)["event"]
        unpacked.validate(full=True)
        assert [field.type for field in unpacked.type] == [kind] * width
        expected = [dict(zip("abcde", row, strict=True)) for row in rows[first:]]
        assert unpacked.to_pylist() == expected


def _convert(number: int | None, kind: pa.DataType) -> Any:
    """A number as a value of a type."""
    if number is None:
        return None
    if pa.types.is_boolean(kind):
        return number % 2 == 0
    if pa.types.is_decimal(kind):
        return Decimal(number) / 4
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(number)
    # Arrow casts to a type of times from integers of its width.
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.scalar(number, width).cast(kind).as_py()


def test_few_columns_are_not_packed() -> None:
    assert Packing.of(["a", "b"], ["int", "int"]) is None
