"""Names of columns as Spark reads them."""

from __future__ import annotations

__all__ = ["quote"]


def quote(name: str) -> str:
    """Quote the name of a column: in backticks, a dot is a part of the name."""
    return "`" + name.replace("`", "``") + "`"
