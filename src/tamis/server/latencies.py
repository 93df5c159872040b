"""How long a collection takes to answer: percentiles and rates of its last requests."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Latencies", "Latency"]

KINDS: Final[Mapping[str, str]] = {
    "match": "match",
    "top": "match",
    "first": "match",
    "count": "match",
    "match_expression": "match",
    "match_many": "batch",
    "count_many": "batch",
    "top_many": "batch",
    "publish": "publish",
    "publish_many": "publish-many",
    "try_event": "try",
}
"""The kind of request that an operation is; others are not timed."""

_KEPT: Final = 4_096
"""How many of the last requests of a kind are remembered."""
_WINDOW: Final = 300.0
"""How many seconds back percentiles look."""
_RATE_WINDOW: Final = 10.0


class Latency(NamedTuple):
    """The last requests of one kind, in figures."""

    kind: str
    requests: int
    """How many requests the percentiles are about."""
    per_second: float
    """Requests a second, of the last 10 seconds."""
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Latencies:
    """Remembers when the last requests of a collection ended, and how long they took."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[tuple[float, float]]] = {}

    def note(self, operation: str, seconds: float, now: float) -> None:
        """Note a request that was answered.

        Parameters
        ----------
        operation
            The name of the operation.
        seconds
            How long it took.
        now
            When it ended, by `time.perf_counter`.
        """
        kind = KINDS.get(operation)
        if kind is None:
            return
        kept = self._kept.get(kind)
        if kept is None:
            kept = self._kept.setdefault(kind, deque(maxlen=_KEPT))
        kept.append((now, seconds))

    def summarize(self, now: float | None = None) -> list[Latency]:
        """The percentiles and rates of each kind of request of the last five minutes."""
        now = time.perf_counter() if now is None else now
        found = []
        for kind in dict.fromkeys(KINDS.values()):
            # A copy: requests go on meanwhile.
            times = np.array(list(self._kept.get(kind, ())), np.float64).reshape(-1, 2)
            recent = times[times[:, 0] > now - _WINDOW]
            if not len(recent):
                continue
            p50, p95, p99 = (1000 * np.percentile(recent[:, 1], (50, 95, 99))).tolist()
            found.append(Latency(kind, len(recent), _rate(recent[:, 0], now), p50, p95, p99))
        return found


def _rate(ends: NDArray[np.float64], now: float) -> float:
    """Requests a second. Where older ones were forgotten, those that are left span less time."""
    last = ends[ends > now - _RATE_WINDOW]
    is_cut = len(ends) == _KEPT and len(last) == _KEPT
    span = now - float(last[0]) if is_cut else _RATE_WINDOW
    return len(last) / max(span, 0.001)
