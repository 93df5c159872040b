"""``df.tamis`` for pandas: import this module, and every frame can be matched.

>>> import pandas as pd
>>> import tamis.pandas
>>> m = tamis.Matcher()
>>> m.add("adults", "age >= 18")
>>> df = pd.DataFrame({"age": [5, 20]}, index=["ann", "bob"])
>>> df.tamis.count(m).to_dict()
{'ann': 0, 'bob': 1}
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tamis import results
from tamis.matcher.matcher import Matcher

__all__ = ["FrameAccessor"]


@pd.api.extensions.register_dataframe_accessor("tamis")
class FrameAccessor:
    """Matches the rows of a frame; its index names the events.

    Parameters
    ----------
    frame
        The events, one a row.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def match(self, matcher: Matcher, **options: Any) -> pd.DataFrame:
        """Find the rules that each row satisfies: a row per match, with the row's index.

        Options are those of :meth:`tamis.Matcher.match_many`.
        """
        found = matcher.match_many(self._events(), **options)
        return self._label(found)

    def top(self, matcher: Matcher, n: int = 10, **options: Any) -> pd.DataFrame:
        """Find the `n` best rules of each row, with their scores."""
        return self._label(matcher.top_many(self._events(), n, **options))

    def count(self, matcher: Matcher, **options: Any) -> pd.Series:
        """Count the rules that each row satisfies: a column with the index of the frame."""
        counts = matcher.count_many(self._events(), **options)["matches"].to_numpy()
        return pd.Series(counts, self._frame.index, name="matches")

    def matrix(self, matcher: Matcher, **options: Any) -> pd.DataFrame:
        """A sparse Boolean frame: the rows of this one, and a column for each rule."""
        found = matcher.match_many(self._events(), **options)
        matrix, rules = results.build_matrix(found, len(self._frame), list(matcher))
        numbers = matrix.astype(np.uint8)  # pandas gives sparse Booleans a fill value of 0
        frame = pd.DataFrame.sparse.from_spmatrix(numbers, self._frame.index, rules)
        return frame.astype(pd.SparseDtype(bool, False))

    def _events(self) -> pd.DataFrame:
        # An index is no attribute of an event.
        return self._frame.reset_index(drop=True)

    def _label(self, found: Any) -> pd.DataFrame:
        frame = found.to_pandas()
        index = self._frame.index.take(frame.pop("event").to_numpy())
        return frame.set_axis(index, axis=0)
