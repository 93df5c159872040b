"""Names and titles in place of DBLP's: Debian's where available, otherwise others."""

from __future__ import annotations

from functools import cache

from tamis.workloads.qgrams import count_distinct

SOURCES = {"names": ("maintainers", "airports"), "titles": ("synopses", "characters")}


@cache
def find_source(kind: str) -> tuple[str, int]:
    """Find the source of texts of a kind on this machine, and the number of its texts."""
    for name in SOURCES[kind]:
        try:
            return name, count_distinct(name)
        except ValueError as error:
            reason = error
    raise reason
