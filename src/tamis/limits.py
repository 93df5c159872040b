"""Limits on the sizes of rules and events, and on the time of a search."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Limits"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a matcher refuses because it is too large, or takes too long. None means no limit.

    Pass it to :class:`tamis.Matcher` or :func:`tamis.open`. Limits are not stored with the rules.

    Parameters
    ----------
    event_characters
        The most characters that the strings of an event may have together.
    event_values
        The most values that an event may have, those of lists and nested objects included.
    rule_bytes
        The most bytes that the text of a rule may have in UTF-8; for a rule in another form, the
        text that says the same.
    rule_nodes
        The most predicates, ANDs, ORs and NOTs that a rule may have.
    milliseconds
        The longest time that the search for one event may take. The clock is looked at between the
        steps of a search, so that it ends soon after the limit, but not at once. Many events that
        are read together share the sum of their times.

    Examples
    --------
    >>> import tamis
    >>> m = tamis.Matcher(limits=tamis.Limits(event_values=3))
    >>> m.add("r1", "tags = 'new'")
    >>> m.match({"tags": ["a", "b", "c", "new"]})
    Traceback (most recent call last):
    ...
    tamis.errors.EventError: the event has more than 3 values, the limit event_values
    """

    event_characters: int | None = None
    event_values: int | None = None
    rule_bytes: int | None = None
    rule_nodes: int | None = None
    milliseconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            types = (int, float) if field.name == "milliseconds" else int
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, types) or not value > 0:
                raise ValueError(f"the limit {field.name} is a positive number, not {value!r}")
