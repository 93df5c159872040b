"""Segments as features: a transformer in the style of scikit-learn.

>>> import pandas as pd
>>> from tamis.sklearn import RuleTransformer
>>> rules = {"adults": "age >= 18", "seniors": "age >= 65"}
>>> frame = pd.DataFrame({"age": [20, 70]})
>>> RuleTransformer(rules).fit_transform(frame).toarray().tolist()
[[1.0, 0.0], [1.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from tamis import results
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import RuleId

__all__ = ["RuleTransformer"]


class RuleTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Turns events into a sparse matrix: a row an event, a column a rule, 1 where it matches.

    Parameters
    ----------
    rules
        A :class:`tamis.Matcher`, or rules by their ids.
    logic
        The logic of rules that are given by their ids.
    sparse_output
        Whether the matrix is sparse (``scipy.sparse``), or a NumPy array.

    Attributes
    ----------
    rule_ids_ : list
        The rule of each column.
    n_features_in_ : int
        How many columns the events had, if they are an array or a frame.

    Notes
    -----
    Events are what :meth:`tamis.Matcher.match_many` takes: frames, Arrow tables, lists of mappings.
    Columns of an array of numbers have the names ``x0``, ``x1``, and so on.
    """

    def __init__(
        self,
        rules: Matcher | Mapping[Any, Any] | None = None,
        *,
        logic: str = "strong",
        sparse_output: bool = True,
    ) -> None:
        self.rules = rules
        self.logic = logic
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read the rules; `X` sets the number of columns."""
        del y
        self._read(X, is_first=True)
        self._matcher: Matcher | None = self._build()
        self.rule_ids_: list[RuleId] = list(self._matcher)
        return self

    def _build(self) -> Matcher:
        if isinstance(self.rules, Matcher):
            return self.rules
        matcher = Matcher(logic=self.logic)
        matcher.add_many(list((self.rules or {}).items()))
        return matcher

    def transform(self, X: Any) -> Any:
        """Match events: ``scipy.sparse.csr_array`` of floats, or an array."""
        check_is_fitted(self, "rule_ids_")
        events, count = self._read(X, is_first=False)
        if self._matcher is None:
            self._matcher = self._build()
        found = self._matcher.match_many(events, only=self.rule_ids_)
        matrix, _ = results.build_matrix(found, count, self.rule_ids_)
        floats = matrix.astype(np.float64)
        return floats if self.sparse_output else floats.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns: the ids of the rules."""
        del input_features
        check_is_fitted(self, "rule_ids_")
        return np.array([str(id) for id in self.rule_ids_], object)

    def _read(self, X: Any, is_first: bool) -> tuple[Any, int]:
        """The events, and how many they are."""
        if isinstance(X, pa.RecordBatchReader):
            X = X.read_all()
        if hasattr(X, "columns") or hasattr(X, "schema") or _has_mappings(X):
            return X, len(X)
        values = check_array(X, dtype="numeric", ensure_all_finite="allow-nan")
        if is_first:
            self.n_features_in_ = values.shape[1]
        elif values.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {values.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return pa.table({f"x{n}": pa.array(values[:, n]) for n in range(values.shape[1])}), len(
            values
        )

    def __getstate__(self) -> dict[str, Any]:
        # Rules by their ids are pickled; a matcher is built from them where it is needed.
        state: dict[str, Any] = dict(super().__getstate__())
        return state if "_matcher" not in state else {**state, "_matcher": None}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = True
        return tags


def _has_mappings(events: Any) -> bool:
    return isinstance(events, list) and bool(events) and isinstance(events[0], Mapping)
