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

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import duckdb
import pyarrow as pa

from tamis.errors import EventError
from tamis.matcher.matcher import Matcher

__all__ = ["register"]

_LISTS: Final = pa.list_(pa.string())
_OPTIONS: Final = frozenset(("only", "at"))


def register(
    connection: duckdb.DuckDBPyConnection, matcher: Matcher, name: str = "tamis", **options: Any
) -> None:
    """Add two functions to a connection: ``tamis_match(row)`` and ``tamis_count(row)``.

    The first gives the ids of the rules that a row satisfies, as a list of texts; the second counts
    them. A row is the name of a table in the query, as in ``SELECT tamis_match(t) FROM t``, a
    struct or a map, or a JSON object as a text. Its values are those that
    :meth:`tamis.Matcher.match_many` reads from the same relation. NULL has no attributes.

    Parameters
    ----------
    connection
        The connection, which keeps the functions until it is closed. Functions of the same name
        that were registered on it before are replaced.
    matcher
        The rules; those added later are found, too.
    name
        The beginning of the functions' names.
    options
        ``only`` and ``at``, as in :meth:`tamis.Matcher.match_many`.

    Raises
    ------
    ValueError
        The name has other characters than letters, digits and _, or another connection to the
        same database has registered it.
    """
    if not name.isidentifier():
        raise ValueError(f"the functions cannot be named after {name!r}: use letters, digits and _")
    if unknown := options.keys() - _OPTIONS:
        raise TypeError(f"register takes only= and at=, not {', '.join(sorted(unknown))}=")

    def match(events: pa.Array) -> pa.Array:
        found = matcher.match_many(events, form="lists", **options)["rules"]
        return pa.array([[str(id) for id in ids] for ids in found.to_pylist()], _LISTS)

    def count(events: pa.Array) -> pa.Array:
        return matcher.count_many(events, **options)["matches"].combine_chunks()

    for suffix, function, kind in (("match", match, "VARCHAR[]"), ("count", count, "BIGINT")):
        _replace_function(connection, f"{name}_{suffix}", function, kind)


def _replace_function(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    function: Callable[[pa.Array], pa.Array],
    kind: str,
) -> None:
    """Create a function that takes one value of any type."""

    def answer(*columns: pa.ChunkedArray) -> pa.Array:
        if len(columns) != 1:
            raise EventError(f"{name} takes one row, not {len(columns)} values")
        try:
            return function(columns[0])
        except EventError as error:
            # The rows of a query have no numbers that its author could know.
            raise (next(iter(error.refused.values()), error)) from None

    with suppress(duckdb.InvalidInputException):  # it has none of that name
        connection.remove_function(name)
    try:
        # Texts in place of enums, which newer versions have in another module.
        how: dict[str, Any] = {"type": "arrow", "null_handling": "special"}
        connection.create_function(name, answer, None, kind, **how)
    except duckdb.CatalogException:
        raise ValueError(
            f"another connection to this database has the function {name}: close it, or choose "
            "another name"
        ) from None
