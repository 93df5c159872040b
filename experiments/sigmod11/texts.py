"""Names and titles in place of DBLP's: Debian's where they are at hand, others elsewhere."""

from __future__ import annotations

from functools import cache

from tamis.workloads.qgrams import distinct

SOURCES = {"names": ("maintainers", "airports"), "titles": ("synopses", "characters")}


@cache
def source(kind: str) -> tuple[str, int]:
    """Where texts of a kind come from on this machine, and how many there are."""
    for name in SOURCES[kind]:
        try:
            return name, distinct(name)
        except ValueError as error:
            reason = error
    raise reason
