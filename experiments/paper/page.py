"""Writes the page about a paper's experiments from their stored numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.paper.figure import Paper, name_line


class Page(NamedTuple):
    """The text of a page; the rest comes from the numbers."""

    paper: Paper
    order: Sequence[str]
    """The figures and tables, by the names of their files."""
    head: str
    """May contain {cpus}, {system}, {python}, {numba} and the settings."""
    why: dict[str, str]
    """The discussion of a figure, where there is one."""
    about: Sequence[str]
    """The columns that give a row's place along the axis."""

    def text(self, results: Path, plots: str) -> str:
        """Write the page, given the folder of the numbers and the name of the folder of plots."""
        figures = {name: json.loads((results / f"{name}.json").read_text()) for name in self.order}
        first = figures[self.order[0]]
        parts = [self.head.format(**first["machine"], **first["settings"])]
        for name, figure in figures.items():
            parts.append(f"## {figure['title']}\n")
            is_drawn = figure["x"] != ""
            if is_drawn:
                parts.append(f"![{figure['title']}]({plots}/{name}.svg)\n")
                parts.append(_say_when(figure))
            parts.append(_claims(figure["claims"]))
            if name in self.why:
                parts.append(self.why[name])
            rows = figure["rows"]
            parts.append(_times(figure, self.paper, self.about) if is_drawn else _numbers(rows))
        return "\n".join(parts)


def _say_when(figure: dict[str, Any]) -> str:
    """Say when a figure was measured, and how many events a call matched if calls were timed."""
    day, settings = figure["measured_at"][:10], figure["settings"]
    if figure["y"] != "ms":
        return f"Measured on {day}.\n"
    # Numbers without this count are from before there were batches.
    batch = figure.get("batch", 1)
    size = "one event" if batch == 1 else f"{batch} events"
    return f"Measured on {day} with up to {settings['events']} events, {size} a call.\n"


def _claims(claims: list[dict[str, str]]) -> str:
    rows = [[claim["what"], claim["paper"] or "-", claim["ours"]] for claim in claims]
    return _table(["", "the paper", "here"], rows)


def _times(figure: dict[str, Any], paper: Paper, about: Sequence[str]) -> str:
    """A table of the measured values, one line for each place along the axis."""
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in figure["rows"]:
        known = {name: row[name] for name in about if name in row}
        place = (*(f"{k}: {v:,}" if k == "rules" else f"{k}: {v}" for k, v in known.items()),)
        name = name_line(row, paper)
        matches = {"matches": f"{100 * row['matches']:.2f} %"} if "matches" in row else {}
        line = lines.setdefault(place, matches)
        line[name] = f"{row[figure['y']]:.3g}"
    columns = list(dict.fromkeys(name for line in lines.values() for name in line))
    rows = [
        [", ".join(place), *(line.get(name, "") for name in columns)]
        for place, line in lines.items()
    ]
    caption = figure["y_label"].replace("ms ", "milliseconds ").capitalize()
    return f"{caption}:\n\n" + _table(["", *columns], rows)


def _numbers(rows: list[dict[str, Any]]) -> str:
    """All columns of a table without an axis."""
    columns = list(rows[0])
    head = [_COLUMNS.get(name, name) for name in columns]
    return _table(head, [[_cell(row[name]) for name in columns] for row in rows])


_COLUMNS = {
    "conjunctions": "distinct conjunctions",
    "programs": "kept as programs",
    "encode_s": "encode, s",
    "build_s": "build, s",
    "index_mb": "index, MB",
    "all_mb": "all, MB",
}


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
