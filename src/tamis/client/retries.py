"""When to try again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tamis.client.calls import Call

__all__ = ["BUSY", "delays", "may_retry"]

BUSY: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses after which a later attempt may succeed."""

_LONGEST: Final = 10.0


def delays(retries: int) -> Iterator[float]:
    """Growing delays with chance in them, so that many clients do not come back at once."""
    for number in range(retries):
        yield min(_LONGEST, 0.1 * 2**number) * random.uniform(0.5, 1.0)


def may_retry(call: Call[Any], status: int | None, was_sent: bool) -> bool:
    """Whether to try again after an answer, or after none if `status` is None."""
    if status is None:
        return call.is_repeatable or not was_sent
    if status == 503:
        # Refused before anything was done.
        return True
    return status in BUSY and call.is_repeatable


def wait_as_told(delay: float, headers: Mapping[str, str]) -> float:
    """The delay, or what the server asks for if that is longer."""
    told = headers.get("retry-after", "")
    return max(delay, float(told)) if told.isdigit() and len(told) < 4 else delay
