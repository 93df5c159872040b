"""A record of the event log: one event, its sequence number, and what it matched.

A frame of the log holds the records that were committed together. Each is preceded by its length,
so that a single one can be read. The wire format is MessagePack, as the classes declare it; it is
part of the file format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from tamis.matcher.rule import RuleId
from tamis.pubsub.log.documents import decode_document

__all__ = ["EventRecord", "Match", "decode_record", "encode_records", "split_records", "to_time"]

_LENGTH: Final = struct.Struct("<I")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Match(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A subscription that an event reached."""

    subscription: str
    rules: tuple[RuleId, ...]
    """Its rules that the event satisfied, in the order in which they were added."""
    score: float = 0.0
    """The highest score of these rules."""


class EventRecord(msgspec.Struct, array_like=True, frozen=True):
    """An event of the log."""

    sequence: int
    """1 for the first event; each has the next number."""
    time: int
    """When it was published, in microseconds since 1970. Not less than that of the one before,
    unless the clock was wrong then; see `clock.py`."""
    document: msgspec.Raw
    """The event as `encode_document` gives it."""
    matches: tuple[Match, ...] = ()
    message_id: str | None = None
    """The publisher's id of the message."""
    document_id: str | None = None
    """The id among the documents seen, where the publisher gave one."""
    audience: str | None = None
    """The publisher's condition on subscriptions, as text."""

    @property
    def event(self) -> dict[str, Any]:
        """The event as it was published."""
        return decode_document(self.document)

    @property
    def published(self) -> datetime:
        """When it was published."""
        return to_time(self.time)

    def find_match(self, subscription: str) -> Match | None:
        """How the event reached a subscription; None if it did not."""
        return next((match for match in self.matches if match.subscription == subscription), None)


def to_time(microseconds: int) -> datetime:
    """A time of the log as a datetime."""
    return _EPOCH + timedelta(microseconds=microseconds)


_encode = msgspec.msgpack.Encoder().encode
decode_record = msgspec.msgpack.Decoder(EventRecord).decode
"""Decodes a record; raises `msgspec.MsgspecError` if the bytes are none."""


def encode_records(records: Sequence[EventRecord]) -> list[bytes]:
    """Each record with its length in front, to be written end to end."""
    encoded = map(_encode, records)
    return [_LENGTH.pack(len(record)) + record for record in encoded]


def split_records(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The records of a frame, each with where it begins in it.

    Raises
    ------
    msgspec.DecodeError
        The lengths do not fit the frame.
    """
    at = 0
    while at < len(content):
        if at + _LENGTH.size > len(content):
            raise msgspec.DecodeError("a record ends too early")
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if at + length > len(content):
            raise msgspec.DecodeError("a record ends too early")
        yield at, content[at : at + length]
        at += length
