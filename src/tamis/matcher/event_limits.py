"""Refuses events that are larger than a user's limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.encode.arrow_values import count_sizes
from tamis.errors import EventError, SchemaError, combine_errors
from tamis.limits import Limits
from tamis.matcher.inputs import EventChunk

__all__ = ["EventLimits"]

_SCALARS = (str, bytes, bytearray, memoryview)
"""Sequences that are values, not lists of values."""


class EventLimits:
    """Counts the values and characters of events, and refuses those with too many.

    A counter stops at the limit, so that an event of any size is refused in little time.
    """

    __slots__ = ("_characters", "_values")

    def __init__(self, limits: Limits) -> None:
        self._characters = limits.event_characters
        self._values = limits.event_values

    @classmethod
    def of(cls, limits: Limits) -> EventLimits | None:
        """The limits on events; None if there are none."""
        if limits.event_characters is None and limits.event_values is None:
            return None
        return cls(limits)

    def check(self, event: Any) -> None:
        """Refuse an event, given as a mapping, that has too many values or characters.

        Raises
        ------
        EventError
            It has; the message names the limit.
        """
        values = characters = 0
        pending = [iter((event,))]
        while pending:
            for item in pending[-1]:
                if isinstance(item, Mapping):
                    pending.append(iter(item.values()))
                    break
                if isinstance(item, str):
                    characters += len(item)
                elif isinstance(item, Sequence | set | frozenset) and not isinstance(
                    item, _SCALARS
                ):
                    pending.append(iter(item))
                    break
                values += item is not None
                self._refuse(values, characters)
            else:
                pending.pop()

    def check_many(self, events: EventChunk, first: int) -> None:
        """Check many events; an error names the event by its number, counted from `first`."""
        errors: dict[int, EventError | SchemaError] = {}
        if isinstance(events, list):
            for number, event in enumerate(events, first):
                try:
                    self.check(event)
                except EventError as error:
                    errors[number] = error
        else:
            values, characters = count_sizes(events)
            for row in np.flatnonzero(characters > _or_most(self._characters)).tolist():
                errors[first + row] = self._too_many_characters()
            for row in np.flatnonzero(values > _or_most(self._values)).tolist():
                errors[first + row] = self._too_many_values()
        if errors:
            raise combine_errors(errors)

    def _refuse(self, values: int, characters: int) -> None:
        if self._values is not None and values > self._values:
            raise self._too_many_values()
        if self._characters is not None and characters > self._characters:
            raise self._too_many_characters()

    def _too_many_values(self) -> EventError:
        return EventError(
            f"the event has more than {self._values:,} values, the limit event_values"
        )

    def _too_many_characters(self) -> EventError:
        return EventError(
            f"the event has more than {self._characters:,} characters, the limit event_characters"
        )


def _or_most(limit: int | None) -> int:
    return np.iinfo(np.int64).max if limit is None else limit
