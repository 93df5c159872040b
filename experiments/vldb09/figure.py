"""A figure of the paper: its rows, what the paper says about them, its plot and its files."""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from measuring import QUICK, Row, Settings

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results"
PLOTS = FOLDER.parents[1] / "docs" / "experiments" / "vldb09"

NAMES = {
    "kindex": "DNF (kindex)",
    "kindex-cnf": "CNF (kindex-cnf)",
    "propagation": "Le Subscribe (propagation)",
    "sift": "SIFT",
    "scan": "SCAN",
    "pscan": "PSCAN",
    "tiles": "tiles",
}
"""The engines as the paper calls them."""


class Claim(NamedTuple):
    """What the paper states, and what was measured here."""

    what: str
    paper: str
    ours: str


class Figure(NamedTuple):
    """What is needed to draw it, and to write about it."""

    name: str
    title: str
    x: str
    """The column along the axis; none for a table."""
    x_label: str
    rows: list[Row]
    claims: list[Claim]
    scale: float = 1
    """What a number along the axis is multiplied with."""


def series(figure: Figure) -> dict[str, list[tuple[float, float]]]:
    """The points of each line, from left to right."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in figure.rows:
        name = NAMES[row["engine"]] + (", ranked" if row.get("ranked") else "")
        point = (row[figure.x] * figure.scale, row["ms"])
        lines.setdefault(name, []).append(point)
    return {name: sorted(points) for name, points in lines.items()}


def ratios(rows: Sequence[Row], engine: str, other: str, ranked: bool | None = None) -> list[float]:
    """How many times as long `other` takes as `engine`, place by place along the axis."""
    chosen = [row for row in rows if ranked is None or row.get("ranked") == ranked]
    times = {name: [r["ms"] for r in chosen if r["engine"] == name] for name in (engine, other)}
    return [b / a for a, b in zip(times[engine], times[other], strict=True)]


def span(numbers: Sequence[float]) -> str:
    """The least and the greatest of some ratios."""
    low, high = min(numbers), max(numbers)
    return f"{low:.2g} ×" if low == high else f"{low:.2g} to {high:.2g} ×"


def run(make: Callable[[Settings], Figure]) -> None:
    """The command line of one figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    add_sizes(parser)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="where the plots go")
    args = parser.parse_args()
    settings = settings_of(args)
    finish(make(settings), settings, args.results, args.plots)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """What `settings_of` reads."""
    parser.add_argument("--rules", type=int, help=f"{Settings().rules:,} by default")
    parser.add_argument(
        "--most", type=int, help=f"for construction and scalability; {Settings().most:,} by default"
    )
    parser.add_argument("--events", type=int, help=f"at most; {Settings().events:,} by default")


def settings_of(args: argparse.Namespace) -> Settings:
    settings = QUICK if args.quick else Settings()
    given = {"rules": args.rules, "most": args.most, "events": args.events}
    return settings._replace(**{name: value for name, value in given.items() if value})


def finish(figure: Figure, settings: Settings, results: Path, plots: Path) -> None:
    """Write the numbers, draw the plot, and say what was found."""
    save(figure, settings, results)
    if figure.x:
        draw(figure, plots)
    print(f"\n{figure.title}")
    for claim in figure.claims:
        print(f"  {claim.what}: {claim.ours} (paper: {claim.paper})")


def save(figure: Figure, settings: Settings, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "title": figure.title,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "settings": settings._asdict(),
        "claims": [claim._asdict() for claim in figure.claims],
        "rows": figure.rows,
    }
    path = folder / f"{figure.name}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    with (folder / f"{figure.name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(figure.rows[0]))
        writer.writeheader()
        writer.writerows(figure.rows)


def draw(figure: Figure, folder: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    # The same numbers give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "tamis"
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    drawing, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for name, points in series(figure).items():
        style = "--" if name.endswith("ranked") else "-"
        axes.plot(*zip(*points, strict=True), style, marker="o", label=name)
    axes.set_yscale("log")
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel("ms an event")
    axes.set_title(figure.title, fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    drawing.savefig(folder / f"{figure.name}.svg", metadata={"Date": None})
    pyplot.close(drawing)


def machine() -> dict[str, Any]:
    """Where figures were measured; without it they mean little."""
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("numba", "numpy")},
    }
