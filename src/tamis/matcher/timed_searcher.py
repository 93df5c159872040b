"""Searches for the rules that an event satisfies, and gives up after a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from tamis.deadline import check_time, limit_time
from tamis.joins.document_store import DocumentStore
from tamis.matcher.schema import Schema
from tamis.matcher.searcher import Searcher
from tamis.matcher.snapshot import Snapshot

__all__ = ["TimedSearcher"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _timed(
    search: Callable[Concatenate[Searcher, _P], _R],
) -> Callable[Concatenate[TimedSearcher, _P], _R]:
    def timed(searcher: TimedSearcher, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with limit_time(searcher.milliseconds):
            found = search(searcher, *args, **kwargs)
            check_time()
            return found

    timed.__doc__ = search.__doc__
    return timed


class TimedSearcher(Searcher):
    """As :class:`Searcher`; a search that takes too long ends with a `TimeLimitError`.

    Parameters
    ----------
    milliseconds
        How long a search may take.
    snapshot, schema, documents
        As for :class:`Searcher`.
    """

    def __init__(
        self, milliseconds: float, snapshot: Snapshot, schema: Schema, documents: DocumentStore
    ) -> None:
        super().__init__(snapshot, schema, documents)
        self.milliseconds = milliseconds

    match = _timed(Searcher.match)
    match_receivers = _timed(Searcher.match_receivers)
    find_places = _timed(Searcher.find_places)
    match_array = _timed(Searcher.match_array)
    match_rules = _timed(Searcher.match_rules)
    first = _timed(Searcher.first)
    top = _timed(Searcher.top)
