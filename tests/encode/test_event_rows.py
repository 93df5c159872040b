"""Encoded events after each other."""

from __future__ import annotations

from random import Random

import numpy as np

from tamis.encode.arrays import Events
from tamis.encode.event_rows import concatenate_events
from tamis.encode.events import EventEncoder
from tamis.encode.rules import RuleEncoder
from tamis.expr.text.grammar import parse
from tests import randoms


def test_events_after_each_other_are_what_is_encoded_at_once() -> None:
    rules = RuleEncoder()
    for text in ("a = 1 AND b > 2", "a LIKE 'x%' OR b LIKE '%y'", "NOT c IN (1, 'x')"):
        rules.add(parse(text), "strong")
    encoder = EventEncoder(rules.finish())
    random = Random(1)
    events = [randoms.event(random, randoms.EVERYTHING) for _ in range(20)]
    events += [{}, {"a": "xy", "b": "xy"}, {"b": "y", "c": 1}]
    together = concatenate_events([encoder.encode(event) for event in events])
    expected = encoder.encode_many(events)
    for name in Events._fields:
        one, other = getattr(together, name), getattr(expected, name)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other), name
