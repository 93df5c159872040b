"""Functions for DuckDB: the rules that an event satisfies, in SQL.

>>> import duckdb
>>> import tamis
>>> from tamis.duckdb import register
>>> m = tamis.Matcher()
>>> m.add("adults", "age >= 18")
>>> database = duckdb.connect()
>>> register(database, m)
>>> sql = "SELECT name FROM (VALUES ('ann', 5), ('bob', 20)) t(name, age) WHERE tamis_count(t) > 0"
>>> database.sql(sql).fetchall()
[('bob',)]
"""

from __future__ import annotations

from typing import Any, Final

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from tamis.matcher.matcher import Matcher

__all__ = ["register"]

_TEXT: Final = "VARCHAR"


def register(
    connection: duckdb.DuckDBPyConnection, matcher: Matcher, name: str = "tamis", **options: Any
) -> None:
    """Add two functions to a connection: ``tamis_match(row)`` and ``tamis_count(row)``.

    The first gives the ids of the rules that a row satisfies, as a list of texts; the second counts
    them. A row is the name of a table in the query, as in ``SELECT tamis_match(t) FROM t``, or a
    JSON object as a text.

    Parameters
    ----------
    connection
        The connection, which keeps the functions until it is closed.
    matcher
        The rules; those added later are found, too.
    name
        The beginning of the functions' names.
    options
        ``only`` and ``at``, as in :meth:`tamis.Matcher.match_many`.
    """
    if not name.isidentifier():
        raise ValueError(f"the functions cannot be named after {name!r}: use letters, digits and _")

    def match(texts: pa.ChunkedArray) -> pa.Array:
        found = matcher.match_many(_read(texts), form="lists", **options)["rules"]
        return pa.array([[str(id) for id in ids] for ids in found.to_pylist()], _LISTS)

    def count(texts: pa.ChunkedArray) -> pa.Array:
        return matcher.count_many(_read(texts), **options)["matches"].combine_chunks()

    for suffix, function, kind in (("match", match, f"{_TEXT}[]"), ("count", count, "BIGINT")):
        connection.create_function(
            f"{name}_{suffix}_json", function, [_TEXT], kind, type=ARROW, null_handling=SPECIAL
        )
        connection.execute(
            f"CREATE OR REPLACE TEMP MACRO {name}_{suffix}(event) AS "
            f"{name}_{suffix}_json(CASE WHEN typeof(event) IN ('VARCHAR', 'JSON') "
            f"THEN event::VARCHAR ELSE to_json(event)::VARCHAR END)"
        )


_LISTS: Final = pa.list_(pa.string())


def _read(texts: pa.ChunkedArray) -> pa.Array:
    """The events of a chunk; NULL is an event without attributes."""
    column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    return column.cast(pa.large_string()).fill_null("{}")
