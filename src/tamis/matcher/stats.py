"""Figures about a collection, by name: a dict that a notebook shows as a table."""

from __future__ import annotations

from typing import Any

from tamis.expr.html import write_table

__all__ = ["Stats"]


class Stats(dict[str, Any]):
    """The result of :meth:`tamis.Matcher.stats`."""

    def _repr_html_(self) -> str:
        rows = []
        for name, value in self.items():
            if isinstance(value, dict):
                rows += [(f"{name}: {part}".replace("_", " "), one) for part, one in value.items()]
            else:
                rows.append((name.replace("_", " "), value))
        return write_table(rows)
