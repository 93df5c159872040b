"""The engines that every long test goes through in full; others see a share of it.

All engines are held to the same contract, and there are many of them. What takes long is asked in
full of the default engine, of the simplest one, and of the one that most others are built upon.
"""

from __future__ import annotations

THOROUGH = ("scan", "sift", "tiles")


def share(engine: str, whole: int, part: int) -> int:
    """How much is asked of an engine: the whole, or a part."""
    return whole if engine in THOROUGH else part
