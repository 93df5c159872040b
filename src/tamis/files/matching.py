"""Matches the events of a file batch by batch, so that files of any size fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.encode.arrow_arrays import to_arrow, to_numpy
from tamis.encode.arrow_rows import to_mappings
from tamis.encode.json.texts import JsonTexts
from tamis.errors import EventError, InputFileError, SchemaError
from tamis.files.details import Details
from tamis.files.event_reader import UndecodedBatch, read_undecoded
from tamis.files.source import Paths, display_path
from tamis.matcher.ids import Ids, id_column
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import RuleId
from tamis.matcher.selection import Tagged
from tamis.matcher.skipped_events import BadEvent

__all__ = ["MatchBatch", "Query", "match_expression", "match_file"]

_FIRST_EVENTS = 1_024
_MOST_EVENTS = 65_536
"""How many events are matched at once: the first time, and at most."""

_TARGET_MATCHES = 4_000_000
"""How many matches a batch should have at most."""


@dataclass(frozen=True)
class Query:
    """What to find for each event."""

    kind: Literal["match", "count", "top", "publish"] = "match"
    n: int = 10
    """How many rules ``"top"`` returns at most."""
    only: Tagged | Sequence[RuleId] | None = None
    """The rules to consider, as in `Matcher.match`."""
    at: datetime | None = None
    """The time at which rules must be valid; now by default."""
    event_id: str | None = None
    """The attribute that identifies an event; by default its number in the file, from 0."""
    skip_bad: bool = False
    """Whether to skip events that are refused."""

    def run(self, matcher: Matcher, events: Any, skipped: list[BadEvent] | None = None) -> pa.Table:
        """Find the rules for `events`, in the table that `Matcher` returns.

        With a list `skipped`, events that are refused are left out and appended to it.
        """
        on_error: Literal["raise", "skip"] = "raise" if skipped is None else "skip"
        search: Callable[..., pa.Table]
        match self.kind:
            case "match":
                search = matcher.match_many
            case "count":
                search = matcher.count_many
            case "top":
                search = partial(matcher.top_many, n=self.n)
            case "publish":
                rows = events.events() if isinstance(events, JsonTexts) else to_mappings(events)
                found = [self._publish(matcher, *row, skipped) for row in enumerate(rows)]
                return _build_table(found)
        return search(events, only=self.only, at=self.at, on_error=on_error, skipped=skipped)

    def _publish(
        self, matcher: Matcher, number: int, event: Any, skipped: list[BadEvent] | None
    ) -> list[RuleId]:
        try:
            return matcher.publish(event, only=self.only, at=self.at)
        except (EventError, SchemaError) as error:
            if skipped is None:
                raise
            skipped.append(BadEvent(number, str(error)))
            return []


class MatchBatch(NamedTuple):
    """The matches of consecutive events."""

    keys: list[str | int]
    """The number or the id of each event."""
    table: pa.Table
    """The table that `Matcher` returns; its column ``event`` is a position in `keys`."""
    fraction: float | None
    """The fraction of the file that is done; None for a pipe."""
    skipped: list[InputFileError] = []  # noqa: RUF012  # never changed
    """The errors of the events before the end of the batch that were left out."""
    details: Details | None = None
    """What is written beside the ids of rules."""

    def drop_misses(self) -> MatchBatch:
        """The batch without the events that match no rule."""
        is_count = "matches" in self.table.column_names
        kept = self.table.filter(pc.greater(self.table["matches"], 0)) if is_count else self.table
        hits, places = np.unique(to_numpy(kept["event"]), return_inverse=True)
        if len(hits) == len(self.keys):
            return self
        keys = [self.keys[event] for event in hits.tolist()]
        return self._replace(keys=keys, table=kept.set_column(0, "event", to_arrow(places)))


def match_file(matcher: Matcher, path: Paths, query: Query) -> Iterator[MatchBatch]:
    """Match all events of files; files without events give one batch without rows.

    Events are numbered from 0 through all files.

    Raises
    ------
    InputFileError
        The file or one of its events cannot be read; the error names the line.
    """
    size, done = _FIRST_EVENTS, 0
    malformed: list[InputFileError] | None = [] if query.skip_bad else None
    for batch in read_undecoded(path, malformed):
        start = 0
        while start < len(batch.numbers):
            part = _slice_batch(batch, start, size)
            start += len(part.numbers)
            keys = _event_keys(part, done, query.event_id)
            done += len(keys)
            if malformed is None:
                table = _match_batch(matcher, part, query)
                yield MatchBatch(keys, table, part.fraction)
            else:
                good = _match_good(matcher, part, query, keys)
                table = good.table
                yield good._replace(skipped=malformed + good.skipped)
                malformed.clear()
            # As many events as give _TARGET_MATCHES, judging by the last part.
            size = min(_MOST_EVENTS, 1 + _TARGET_MATCHES * len(keys) // max(table.num_rows, 1))
    if not done or malformed:
        yield MatchBatch([], query.run(matcher, []), None, malformed or [])


def match_expression(matcher: Matcher, expression: str, query: Query) -> MatchBatch:
    """Find the rules that a partially known event could satisfy; it becomes event 0."""
    found = matcher.match_expression(expression, only=query.only, at=query.at)
    return MatchBatch([0], _build_table([found]), None)


def _build_table(found: Sequence[list[RuleId]]) -> pa.Table:
    """The rules found for each event, in the table that `Matcher.match_many` returns."""
    ids = [id for event_ids in found for id in event_ids]
    rules = id_column([(Ids.of(ids), np.arange(len(ids)))], None)
    numbers = np.repeat(np.arange(len(found)), [len(event_ids) for event_ids in found])
    return pa.table({"event": numbers, "rule": rules})


def _slice_batch(batch: UndecodedBatch, start: int, size: int) -> UndecodedBatch:
    end = start + size
    events = batch.events
    part = (
        events.between(start, end) if isinstance(events, JsonTexts) else events.slice(start, size)
    )
    return batch._replace(events=part, numbers=batch.numbers[start:end])


def _match_batch(matcher: Matcher, batch: UndecodedBatch, query: Query) -> pa.Table:
    try:
        return query.run(matcher, batch.events)
    except (EventError, SchemaError) as error:
        raise _find_bad_event(matcher, batch) or InputFileError(
            str(error), path=display_path(batch.path)
        ) from error


def _match_good(
    matcher: Matcher, batch: UndecodedBatch, query: Query, keys: list[str | int]
) -> MatchBatch:
    """The matches of the events that are not refused."""
    bad: list[BadEvent] = []
    try:
        table = query.run(matcher, batch.events, bad)
    except (EventError, SchemaError) as error:
        raise InputFileError(str(error), path=display_path(batch.path)) from error
    good = np.ones(len(keys), np.bool_)
    good[[event for event, _ in bad]] = False
    places = np.cumsum(good) - 1
    event = to_arrow(places[to_numpy(table["event"])])
    is_line = isinstance(batch.events, JsonTexts)
    skipped = [
        InputFileError(
            message if is_line else f"row {batch.numbers[event]}: {message}",
            path=display_path(batch.path),
            line=int(batch.numbers[event]) if is_line else None,
        )
        for event, message in sorted(bad)
    ]
    kept = [key for key, is_good in zip(keys, good.tolist(), strict=True) if is_good]
    return MatchBatch(kept, table.set_column(0, "event", event), batch.fraction, skipped)


def _find_bad_event(matcher: Matcher, batch: UndecodedBatch) -> InputFileError | None:
    """The error of the first event that cannot be matched; None if a whole column cannot."""
    if isinstance(batch.events, JsonTexts):
        for row, number in enumerate(batch.numbers.tolist()):
            try:
                matcher.match(batch.events.event(row))  # unlike publish, this remembers nothing
            except (EventError, SchemaError) as error:
                return InputFileError(str(error), path=display_path(batch.path), line=number)
    return None


def _event_keys(batch: UndecodedBatch, first: int, event_id: str | None) -> list[str | int]:
    if event_id is None:
        return list(range(first, first + len(batch.numbers)))
    keys = _attribute_values(batch, event_id)
    for number, key in enumerate(keys, first):
        if isinstance(key, bool) or not isinstance(key, str | int):
            problem = "is missing" if key is None else f"is {key!r}, not a string or an integer"
            raise InputFileError(
                f"the id {event_id!r} of event {number} {problem}", path=display_path(batch.path)
            )
    return keys


def _attribute_values(batch: UndecodedBatch, name: str) -> list[Any]:
    if isinstance(batch.events, JsonTexts):
        return [event.get(name) for event in batch.events.events()]
    index = batch.events.schema.get_field_index(name)
    if index < 0:
        raise InputFileError(f"there is no column {name!r}", path=display_path(batch.path))
    values: list[Any] = batch.events.column(index).to_pylist()
    return values
