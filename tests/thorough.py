"""The engines that long tests cover in full; the other engines get a part.

All engines have the same contract, and there are many. Long tests run in full on the default
engine, on the simplest one, and on the one that most others build upon.
"""

from __future__ import annotations

THOROUGH = ("scan", "sift", "tiles")


def share(engine: str, whole: int, part: int) -> int:
    """The size of a long test for an engine: `whole` or `part`."""
    return whole if engine in THOROUGH else part
