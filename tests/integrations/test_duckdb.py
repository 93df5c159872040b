"""The functions for DuckDB answer what `match_many` answers about the same relation."""

from __future__ import annotations

from typing import Any, Final

import duckdb
import pytest

import tamis
from tamis.duckdb import register

VALUES: Final = {
    "BOOLEAN": ("TRUE", "FALSE"),
    "TINYINT": ("1", "-128"),
    "UBIGINT": ("1", "18446744073709551615"),
    "HUGEINT": ("1", "99999999999999999999999999999999999999"),
    "FLOAT": ("1", "'nan'", "'-inf'", "0.1"),
    "DOUBLE": ("1", "'nan'", "'inf'", "0.1"),
    "DECIMAL(4, 1)": ("1", "0.1"),
    "DECIMAL(9, 2)": ("1", "0.1"),
    "DECIMAL(18, 4)": ("1", "0.1"),
    "DECIMAL(38, 20)": ("1", "0.12345678901234567891"),
    "VARCHAR": ("'a'", "'1'", "''"),
    "JSON": ("'{}'", "'1'"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'",),
    "ENUM ('a', 'b')": ("'a'", "'b'"),
    "DATE": ("'2024-01-01'", "'infinity'"),
    "TIMESTAMP": ("'2024-01-01 12:00:00'", "'-infinity'"),
    "TIMESTAMP_S": ("'2024-01-01 12:00:00'",),
    "TIMESTAMP_MS": ("'2024-01-01 12:00:00'",),
    "TIMESTAMP_NS": ("'2024-01-01 12:00:00'",),
    "TIMESTAMPTZ": ("'2024-01-01 12:00:00+00'",),
    "TIME": ("'12:00:00'",),
    "TIMETZ": ("'12:00:00+01'",),
    "INTERVAL": ("'1 day'",),
    "BLOB": ("'a'",),
    "BIT": ("'101'",),
    "INTEGER[]": ("[1, 2, NULL]", "[]"),
    "INTEGER[2]": ("[1, 2]", "[1, NULL]"),
    "DOUBLE[][]": ("[[1], [], NULL]",),
    "STRUCT(x INTEGER, y VARCHAR[])": ("{'x': 1, 'y': ['a']}", "{'x': NULL, 'y': []}"),
    "STRUCT(x INTEGER)[]": ("[{'x': 1}, {'x': 2}, NULL]",),
    "MAP(VARCHAR, INTEGER)": ("MAP {'x': 1}", "MAP {}"),
    "MAP(INTEGER, INTEGER)": ("MAP {1: 2}",),
    "MAP(BLOB, INTEGER)": ("MAP {'x'::BLOB: 1}",),
    "UNION(n INTEGER, s VARCHAR)": ("1", "'a'::VARCHAR"),
}
"""Values of each type of DuckDB's, as SQL writes them."""

RULES: Final = {
    "one": "v = 1",
    "large": "v > 1.5",
    "tenth": "v = 0.1",
    "long": "v = 0.12345678901234567891",
    "text": "v LIKE 'a%'",
    "any text": "v LIKE '%'",
    "true": "v = TRUE",
    "noon": "v = TIMESTAMP '2024-01-01 12:00:00'",
    "day": "v <= TIMESTAMP '2024-01-01 00:00:00'",
    "none": "v IS NULL",
    "inner": "v.x = 1",
    "inner list": "v.y = 'a'",
    "next": "id + 1 = 2",
}


def as_table(relation: Any) -> Any:
    return relation.to_arrow_table() if hasattr(relation, "to_arrow_table") else relation.arrow()


def make_matcher() -> tamis.Matcher:
    matcher = tamis.Matcher()
    matcher.add_many(RULES)
    return matcher


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_of_duckdb_matches_as_its_arrow_table_does(kind: str) -> None:
    matcher = make_matcher()
    with duckdb.connect() as database:
        register(database, matcher)
        database.execute(f"CREATE TABLE t (id INTEGER, v {kind}, unread DOUBLE, raw BLOB)")
        for number, value in enumerate((*VALUES[kind], "NULL")):
            database.execute(f"INSERT INTO t VALUES ({number}, {value}, 'nan', 'x')")
            relation = database.sql(f"SELECT * FROM t WHERE id = {number}")
            query = f"SELECT tamis_match(t), tamis_count(t) FROM t WHERE id = {number}"
            try:
                found = matcher.match_many(as_table(relation))["rule"].to_pylist()
            except tamis.EventError as error:
                reason = str(error).removeprefix("event 0: ")
                with pytest.raises(duckdb.InvalidInputException) as caught:
                    database.execute(query)
                assert reason in str(caught.value)
                assert "event 0" not in str(caught.value)
            else:
                assert database.execute(query).fetchall() == [(found, len(found))]


def test_all_rows_of_a_relation_are_read_in_order() -> None:
    matcher = tamis.Matcher()
    matcher.add_many({"mod": "n % 7 = 3", "nan": "x IS NULL", "big": "d = 12345678901234567.89"})
    with duckdb.connect() as database:
        register(database, matcher)
        database.execute(
            "CREATE TABLE t AS SELECT i AS n, CASE WHEN i % 3 = 0 THEN 'nan'::DOUBLE ELSE i END x, "
            "(12345678901234567.88 + (i % 2) * 0.01)::DECIMAL(25, 2) AS d FROM range(20000) r(i)"
        )
        expected = matcher.count_many(as_table(database.sql("FROM t")))["matches"].to_pylist()
        found = database.execute("SELECT n, tamis_count(t) FROM t ORDER BY n").fetchall()
        assert found == list(enumerate(expected))


def test_events_are_rows_structs_maps_or_json_texts() -> None:
    matcher = tamis.Matcher()
    matcher.add_many({"r": "a = 1", "none": "a IS NULL"})
    with duckdb.connect() as database:
        register(database, matcher)
        for event in ("{'a': 1}", "MAP {'a': 1}", "'{\"a\": 1}'", "'{\"a\": 1}'::JSON"):
            assert database.execute(f"SELECT tamis_match({event})").fetchall() == [(["r"],)]
        assert database.execute("SELECT tamis_match(NULL::VARCHAR)").fetchall() == [(["none"],)]
        for wrong in ("1", "{'a': 1}, 2", ""):
            with pytest.raises(duckdb.Error):
                database.execute(f"SELECT tamis_count({wrong})")


def test_registering_again_replaces_the_functions() -> None:
    first, second = tamis.Matcher(), tamis.Matcher()
    first.add("first", "a = 1")
    second.add("second", "a = 1")
    with duckdb.connect() as database:
        register(database, first)
        register(database, second)
        assert database.execute("SELECT tamis_match({'a': 1})").fetchall() == [(["second"],)]
        register(database, first, name="other", only=["none"])
        assert database.execute("SELECT other_match({'a': 1})").fetchall() == [([],)]
        with (
            database.cursor() as cursor,
            pytest.raises(ValueError, match="another connection to this database"),
        ):
            register(cursor, first)
        with pytest.raises(TypeError, match="takes only= and at=, not on_error="):
            register(database, first, on_error="skip")
