"""Match as a stage of a `pyspark.ml` pipeline, which can be saved and loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pyspark.ml import Transformer
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import DataFrame

from tamis.matcher.selection import tagged
from tamis.spark.match.tables import counts, first, match, top

__all__ = ["RuleMatcher"]

_FUNCTIONS: dict[str, Callable[..., DataFrame]] = {
    "match": match,
    "counts": counts,
    "first": first,
    "top": top,
}


def _param(name: str, about: str, convert: Any = None) -> Param[Any]:
    return Param(Params._dummy(), name, about, convert)


class RuleMatcher(Transformer, DefaultParamsReadable["RuleMatcher"], DefaultParamsWritable):
    """Turns a table of events into a table of answers, like :func:`tamis.spark.match`.

    A saved stage has the path of the index, not its rules.

    Parameters
    ----------
    path
        A published index.
    ask
        ``"match"``, ``"counts"``, ``"first"`` or ``"top"``: the answers are those of the function
        of that name.
    **params
        ``n``, how many rules ``"first"`` and ``"top"`` give at most, ``tags``, of which a rule has
        to have one, ``at``, a column of times, and ``keys``, ``events``, ``version``, ``plan``,
        ``memory`` and ``ship``, as in :func:`tamis.spark.match`. Without a version, the stage uses
        the one that is current when it runs.
    """

    path = _param("path", "a published index", TypeConverters.toString)
    ask = _param("ask", "match, counts, first or top", TypeConverters.toString)
    n = _param("n", "how many rules first and top give at most", TypeConverters.toInt)
    keys = _param("keys", "the column or columns that identify an event")
    events = _param("events", "the column of events, or a list of attributes")
    version = _param("version", "the version of the index", TypeConverters.toInt)
    plan = _param("plan", "auto, whole or sharded", TypeConverters.toString)
    memory = _param("memory", "how much memory of a node rules may take")
    tags = _param("tags", "tags of which a rule has one", TypeConverters.toListString)
    at = _param("at", "the column of the times of events", TypeConverters.toString)
    ship = _param("ship", "whether Spark ships the index", TypeConverters.toBoolean)

    def __init__(
        self, path: str | os.PathLike[str] | None = None, ask: str = "match", **params: Any
    ) -> None:
        super().__init__()
        self._setDefault(ask="match")
        known = {param.name for param in self.params}
        for name in params:
            if name not in known:
                names = ", ".join(sorted(known))
                raise TypeError(f"there is no parameter {name!r}; the parameters are {names}")
        # Loading a stage sets its path afterwards.
        given = {} if path is None else {"path": os.fspath(path)}
        self._set(ask=ask, **given, **params)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        defined = filter(self.isDefined, self.params)
        options = {param.name: self.getOrDefault(param) for param in defined}
        path, ask = options.pop("path", None), options.pop("ask")
        if path is None or ask not in _FUNCTIONS:
            raise ValueError(
                f"path is a published index, not {path!r}; ask is 'match', 'counts', 'first' or "
                f"'top', not {ask!r}"
            )
        if ask not in ("first", "top"):
            options.pop("n", None)
        if (tags := options.pop("tags", None)) is not None:
            options["only"] = tagged(*tags)
        return _FUNCTIONS[ask](dataset, path, **options)
