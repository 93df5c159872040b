"""Small pieces of HTML, for notebooks: every text is escaped, and colours suit light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

__all__ = ["COLOURS", "draw_bars", "write_box", "write_table", "write_text"]

COLOURS: Final = {"good": "#2e9e5b", "bad": "#d1495b", "faint": "#8a8f98"}
"""Colours that can be read on white and on black."""

_CELL: Final = "padding:2px 10px 2px 0;text-align:{align};vertical-align:top"


def write_text(value: Any, colour: str | None = None) -> str:
    """A value as escaped text; numbers get separators."""
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    text = escape(shown)
    return text if colour is None else f'<span style="color:{COLOURS[colour]}">{text}</span>'


def write_table(rows: Iterable[Sequence[Any]], titles: Sequence[str] = ()) -> str:
    """A table; cells that are already HTML are passed as `bytes`."""
    head = "".join(f'<th style="{_CELL.format(align="left")}">{escape(t)}</th>' for t in titles)
    body = "".join(f"<tr>{''.join(map(_write_cell, row))}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse"><tr>{head}</tr>{body}</table>'


def _write_cell(value: Any) -> str:
    align = "right" if isinstance(value, int | float) else "left"
    content = value.decode() if isinstance(value, bytes) else write_text(value)
    return f'<td style="{_CELL.format(align=align)}">{content}</td>'


def write_box(title: str, *parts: str) -> str:
    """A title over some HTML."""
    return f"<div><b>{escape(title)}</b>{''.join(parts)}</div>"


def draw_bars(values: Sequence[int], labels: Sequence[str]) -> str:
    """A row of bars, with a label that shows under the mouse."""
    most = max(values, default=0) or 1
    bars = "".join(
        f'<rect x="{8 * n}" y="{24 - 24 * value / most:.1f}" width="6" '
        f'height="{24 * value / most:.1f}"><title>{escape(label)}</title></rect>'
        for n, (value, label) in enumerate(zip(values, labels, strict=True))
    )
    width = 8 * max(1, len(values))
    return f'<svg width="{width}" height="24" fill="#4c78a8" role="img">{bars}</svg>'
