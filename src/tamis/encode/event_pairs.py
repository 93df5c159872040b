"""One event as pairs of an attribute and a code: what engines take for a single event.

The pairs stand in one flat array of 32-bit integers, those of one attribute next to each other. A
text predicate that the event satisfies is a pair, too: it has a number from the number of
attributes on, and any code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import NO_DOUBLES, Events
from tamis.encode.ragged import starts

__all__ = ["list_entries", "to_events", "to_pairs"]


def list_entries(
    events: Events, attributes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Where the entries of each event begin, and their attributes and codes, texts among them."""
    start, attribute, code, text_start, text, *_ = events
    if len(text) == 0:
        return start, attribute, code
    sizes, text_sizes = np.diff(start), np.diff(text_start)
    merged = starts(sizes + text_sizes)
    # The entries of an event come first, then its texts.
    entry = np.arange(start[0], start[-1]) + np.repeat(merged[:-1] - start[:-1], sizes)
    text_at = np.arange(text_start[0], text_start[-1]) + np.repeat(
        merged[:-1] + sizes - text_start[:-1], text_sizes
    )
    numbers = np.ones((2, merged[-1]), np.int32)
    numbers[0, entry], numbers[1, entry] = (
        attribute[start[0] : start[-1]],
        code[start[0] : start[-1]],
    )
    numbers[0, text_at] = attributes + text[text_start[0] : text_start[-1]]
    return merged, numbers[0], numbers[1]


def to_pairs(events: Events, attributes: int) -> NDArray[np.int32]:
    """The only event of `events` as pairs, without its weights."""
    _, attribute, code, _, text, *_ = events
    size = len(attribute)
    pairs = np.empty(2 * (size + len(text)), np.int32)
    pairs[: 2 * size : 2], pairs[1 : 2 * size : 2] = attribute, code
    if len(text):
        pairs[2 * size :: 2], pairs[2 * size + 1 :: 2] = text + attributes, 1
    return pairs


def to_events(pairs: NDArray[np.int32], attributes: int) -> Events:
    """The event of `pairs`, for engines that take `Events`."""
    number, code = pairs[::2], pairs[1::2]
    is_text = number >= attributes
    text = number[is_text] - attributes
    return Events(
        np.array([0, len(number) - len(text)]),
        np.ascontiguousarray(number[~is_text]),
        np.ascontiguousarray(code[~is_text]),
        np.array([0, len(text)]),
        text,
        NO_DOUBLES,
        NO_DOUBLES,
    )
