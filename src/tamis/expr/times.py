"""Converts timestamps to microseconds since 1970, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["EPOCH", "MICROSECOND", "count_microseconds", "to_timestamp"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
"""The step between two timestamps."""


def count_microseconds(timestamp: datetime) -> int:
    """Count the microseconds from 1970 to an aware timestamp."""
    return (timestamp - EPOCH) // MICROSECOND


def to_timestamp(microseconds: int) -> datetime:
    """Find the UTC timestamp that many microseconds after 1970."""
    return EPOCH + microseconds * MICROSECOND
