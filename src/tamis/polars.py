"""``df.tamis`` for polars: import this module, and every frame can be matched.

>>> import polars as pl
>>> import tamis.polars
>>> m = tamis.Matcher()
>>> m.add("adults", "age >= 18")
>>> df = pl.DataFrame({"name": ["ann", "bob"], "age": [5, 20]})
>>> df.tamis.match(m, key="name").to_dicts()
[{'name': 'bob', 'rule': 'adults'}]
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tamis import results
from tamis.matcher.matcher import Matcher

__all__ = ["FrameNamespace"]


@pl.api.register_dataframe_namespace("tamis")
class FrameNamespace:
    """Matches the rows of a frame.

    Parameters
    ----------
    frame
        The events, one a row.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def match(self, matcher: Matcher, key: str | None = None, **options: Any) -> pl.DataFrame:
        """Find the rules that each row satisfies: a row per match.

        The column `key` names the events, else their number. Options are those of
        :meth:`tamis.Matcher.match_many`.
        """
        return self._label(matcher.match_many(self._frame, **options), key)

    def top(
        self, matcher: Matcher, n: int = 10, key: str | None = None, **options: Any
    ) -> pl.DataFrame:
        """Find the `n` best rules of each row, with their scores."""
        return self._label(matcher.top_many(self._frame, n, **options), key)

    def count(self, matcher: Matcher, **options: Any) -> pl.Series:
        """Count the rules that each row satisfies."""
        counts = matcher.count_many(self._frame, **options)["matches"].to_numpy()
        return pl.Series("matches", counts)

    def matrix(self, matcher: Matcher, **options: Any) -> pl.DataFrame:
        """A Boolean frame: a row for each row of this one, and a column for each rule."""
        found = matcher.match_many(self._frame, **options)
        matrix, rules = results.build_matrix(found, self._frame.height, list(matcher))
        return pl.DataFrame(matrix.toarray(), schema=[str(id) for id in rules], orient="row")

    def _label(self, found: Any, key: str | None) -> pl.DataFrame:
        if key is None:
            return _read(found)
        keyed = results.add_keys(found, self._frame[key].to_arrow())
        return _read(keyed).rename({"event": key})


def _read(table: Any) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
