"""What a file's events match, piece by piece, so that files of any size fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from tamis.errors import EventError, InputFileError, SchemaError
from tamis.files.events import EventBatch, read_events
from tamis.files.source import shown
from tamis.matcher.ids import Ids, id_column
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import RuleId, Tagged

__all__ = ["Answer", "Question", "answers", "expression_answer"]

_FIRST = 1_024
_MOST = 65_536
"""How many events are matched at once: the first time, and ever."""

_MATCHES = 4_000_000
"""How many matches are to be held at once."""


@dataclass(frozen=True)
class Question:
    """What to ask of each event."""

    kind: Literal["match", "count", "top", "publish"] = "match"
    n: int = 10
    """How many rules ``"top"`` gives at most."""
    only: Tagged | Sequence[RuleId] | None = None
    """The rules to look at, as in `Matcher.match`."""
    at: datetime | None = None
    """When rules have to be valid; by default, now."""
    event_id: str | None = None
    """The attribute that names an event; without it, its place in the file does, from 0, as in the
    tables of `Matcher`."""

    def ask(self, matcher: Matcher, events: Any) -> pa.Table:
        """The answer for `events`."""
        match self.kind:
            case "match":
                return matcher.match_many(events, only=self.only, at=self.at)
            case "count":
                return matcher.count_many(events, only=self.only, at=self.at)
            case "top":
                return matcher.top_many(events, self.n, only=self.only, at=self.at)
            case "publish":
                rows = events if isinstance(events, list) else events.to_pylist()
                found = [matcher.publish(event, only=self.only, at=self.at) for event in rows]
                return _table(found)


class Answer(NamedTuple):
    """What some events match."""

    keys: list[str | int]
    """What each event is known by."""
    table: pa.Table
    """As `Matcher` gives it; ``event`` counts in `keys`, from 0."""
    fraction: float | None
    """How much of the file is done; None for a pipe."""


def answers(matcher: Matcher, path: str, question: Question) -> Iterator[Answer]:
    """The answers for all events of a file; one without events has one answer, without rows.

    Raises
    ------
    InputFileError
        The file cannot be read, or holds an event that cannot; the error names the line.
    """
    size, asked = _FIRST, 0
    for batch in read_events(path):
        start = 0
        while start < len(batch.numbers):
            piece = _piece(batch, start, size)
            start += len(piece.numbers)
            keys = _keys(piece, asked, question.event_id, path)
            table = _asked(matcher, piece, question, path)
            yield Answer(keys, table, piece.fraction)
            asked += len(keys)
            # As many events as give _MATCHES, going by the last piece.
            size = min(_MOST, 1 + _MATCHES * len(keys) // max(table.num_rows, 1))
    if not asked:
        yield Answer([], question.ask(matcher, []), None)


def expression_answer(matcher: Matcher, expression: str, question: Question) -> Answer:
    """The answer for an event that is an expression, which is known as event 0."""
    found = matcher.match_expression(expression, only=question.only, at=question.at)
    return Answer([0], _table([found]), None)


def _table(found: Sequence[list[RuleId]]) -> pa.Table:
    """What each event matches, as `Matcher.match_many` gives it."""
    ids = [id for some in found for id in some]
    rules = id_column([(Ids.of(ids), np.arange(len(ids)))], None)
    numbers = np.repeat(np.arange(len(found)), [len(some) for some in found])
    return pa.table({"event": numbers, "rule": rules})


def _piece(batch: EventBatch, start: int, size: int) -> EventBatch:
    events, numbers, fraction = batch
    end = start + size
    part = events[start:end] if isinstance(events, list) else events.slice(start, size)
    return EventBatch(part, numbers[start:end], fraction)


def _asked(matcher: Matcher, batch: EventBatch, question: Question, path: str) -> pa.Table:
    try:
        return question.ask(matcher, batch.events)
    except (EventError, SchemaError) as error:
        raise _culprit(matcher, batch, path) or InputFileError(
            str(error), path=shown(path)
        ) from error


def _culprit(matcher: Matcher, batch: EventBatch, path: str) -> InputFileError | None:
    """The error of the first event that cannot be read; None if that is a whole column."""
    if isinstance(batch.events, list):
        for number, event in zip(batch.numbers.tolist(), batch.events, strict=True):
            try:
                matcher.match(event)  # which remembers nothing
            except (EventError, SchemaError) as error:
                return InputFileError(str(error), path=shown(path), line=number)
    return None


def _keys(batch: EventBatch, first: int, event_id: str | None, path: str) -> list[str | int]:
    if event_id is None:
        return list(range(first, first + len(batch.numbers)))
    keys = _values(batch, event_id, path)
    for number, key in enumerate(keys, first):
        if isinstance(key, bool) or not isinstance(key, str | int):
            found = "is missing" if key is None else f"is {key!r}, no string or integer"
            raise InputFileError(f"the id {event_id!r} of event {number} {found}", path=shown(path))
    return keys


def _values(batch: EventBatch, name: str, path: str) -> list[Any]:
    if isinstance(batch.events, list):
        return [event.get(name) for event in batch.events]
    place = batch.events.schema.get_field_index(name)
    if place < 0:
        raise InputFileError(f"there is no column {name!r}", path=shown(path))
    values: list[Any] = batch.events.column(place).to_pylist()
    return values
