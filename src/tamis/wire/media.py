"""Media types."""

from __future__ import annotations

from typing import Final

__all__ = ["ARROW", "EVENT_STREAM", "JSON", "JSON_LINES", "PROBLEM"]

JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonl"
ARROW: Final = "application/vnd.apache.arrow.stream"
EVENT_STREAM: Final = "text/event-stream"
PROBLEM: Final = "application/problem+json"
