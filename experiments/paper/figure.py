"""Saves, draws and compares the figures of a paper: the command line of every experiment."""

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
from time import perf_counter
from typing import Any, NamedTuple

from experiments.paper.measure import BATCH, QUICK, Row, Settings

# Compiled kernels are measured, not what runs until they are compiled.
os.environ.setdefault("TAMIS_KERNELS", "wait")

ROOT = Path(__file__).resolve().parents[2]


class Paper(NamedTuple):
    """A paper whose figures are reproduced."""

    name: str
    """The name of its folder."""
    names: dict[str, str]
    """The paper's names of the engines."""

    @property
    def results(self) -> Path:
        """The folder of the numbers."""
        return ROOT / "experiments" / self.name / "results"

    @property
    def plots(self) -> Path:
        """The folder of the plots; the page is written beside it."""
        return ROOT / "docs" / "experiments" / self.name


class Claim(NamedTuple):
    """A statement of the paper, with the figure measured here."""

    what: str
    paper: str
    ours: str


class Figure(NamedTuple):
    """The rows of a figure or table, with what is needed to draw and discuss them."""

    name: str
    title: str
    x: str
    """The column along the axis; empty for a table."""
    x_label: str
    rows: list[Row]
    claims: list[Claim]
    scale: float = 1
    """The factor of the numbers along the axis."""
    panels: str = ""
    """The column with a plot for each of its values, side by side; empty for a single plot."""
    log_x: bool = False
    y: str = "ms"
    y_label: str = "ms an event"
    """The measured column, and its label."""
    batch: int = BATCH
    """How many events a timed call matches."""


Series = dict[str, list[tuple[float, float]]]
"""The points of each line, from left to right."""


def name_line(row: Row, paper: Paper) -> str:
    """Name the line that a row belongs to."""
    return paper.names[row["engine"]] + (", ranked" if row.get("ranked") else "")


def collect_series(figure: Figure, paper: Paper) -> dict[str, Series]:
    """Collect the lines of each panel; a figure without panels has one, without a name."""
    panels: dict[str, Series] = {}
    for row in figure.rows:
        lines = panels.setdefault(str(row[figure.panels]) if figure.panels else "", {})
        point = (row[figure.x] * figure.scale, row[figure.y])
        lines.setdefault(name_line(row, paper), []).append(point)
    return {
        panel: {name: sorted(points) for name, points in lines.items()}
        for panel, lines in panels.items()
    }


def ratios(rows: Sequence[Row], engine: str, other: str, ranked: bool | None = None) -> list[float]:
    """How many times as long `other` takes as `engine`, place by place along the axis."""
    chosen = [row for row in rows if ranked is None or row.get("ranked") == ranked]
    times = {name: [r["ms"] for r in chosen if r["engine"] == name] for name in (engine, other)}
    return [b / a for a, b in zip(times[engine], times[other], strict=True)]


def span(numbers: Sequence[float]) -> str:
    """Format the least and the greatest of some ratios."""
    low, high = min(numbers), max(numbers)
    return f"{low:.2g} ×" if low == high else f"{low:.2g} to {high:.2g} ×"


def run(make: Callable[[Settings], Figure], paper: Paper) -> None:
    """Run the command line of one figure."""
    args = parse_arguments(paper)
    settings = read_settings(args)
    finish(make(settings), paper, settings, args.results, args.plots)


def run_all(
    makes: Sequence[Callable[[Settings], Figure]], paper: Paper, page: Callable[[Path, str], str]
) -> None:
    """Run the command line of all figures and of the page about them."""
    args = parse_arguments(paper)
    settings = read_settings(args)
    for make in () if args.page_only else makes:
        start = perf_counter()
        finish(make(settings), paper, settings, args.results, args.plots)
        print(f"  took {perf_counter() - start:.0f} s", flush=True)
    for path in sorted(args.results.glob("*.json")) if args.page_only else ():
        figure = read_figure(path)
        if figure.x:
            draw(figure, paper, args.plots)
    target = args.plots.with_suffix(".md")
    target.write_text(page(args.results, args.plots.name))
    print(f"\nWritten to {target}")


def parse_arguments(paper: Paper) -> argparse.Namespace:
    """Read the command line: the settings, and the folders of the output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, help=f"{Settings().rules:,} by default")
    parser.add_argument(
        "--most", type=int, help=f"for construction and scalability; {Settings().most:,} by default"
    )
    parser.add_argument("--events", type=int, help=f"at most; {Settings().events:,} by default")
    parser.add_argument("--results", type=Path, default=paper.results, help="where the numbers go")
    parser.add_argument("--plots", type=Path, default=paper.plots, help="where the plots go")
    parser.add_argument(
        "--page-only", action="store_true", help="draw and write from the stored numbers"
    )
    return parser.parse_args()


def read_settings(args: argparse.Namespace) -> Settings:
    settings = QUICK if args.quick else Settings()
    given = {"rules": args.rules, "most": args.most, "events": args.events}
    return settings._replace(**{name: value for name, value in given.items() if value})


def finish(figure: Figure, paper: Paper, settings: Settings, results: Path, plots: Path) -> None:
    """Write the numbers, draw the plot and print the claims."""
    save(figure, settings, results)
    if figure.x:
        draw(figure, paper, plots)
    print(f"\n{figure.title}")
    for claim in figure.claims:
        print(f"  {claim.what}: {claim.ours} (paper: {claim.paper})")


def save(figure: Figure, settings: Settings, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "title": figure.title,
        "x": figure.x,
        "y": figure.y,
        "y_label": figure.y_label,
        "x_label": figure.x_label,
        "scale": figure.scale,
        "panels": figure.panels,
        "log_x": figure.log_x,
        "batch": figure.batch,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
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


def read_figure(path: Path) -> Figure:
    """Read a figure that was saved, without its claims."""
    content = json.loads(path.read_text())
    stored = {name: content[name] for name in Figure._fields if name in content}
    return Figure(**{**stored, "name": path.stem, "claims": []})


def draw(figure: Figure, paper: Paper, folder: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    # Makes the file depend on the numbers alone.
    matplotlib.rcParams["svg.hashsalt"] = "tamis"
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    panels = collect_series(figure, paper)
    drawing, plots = pyplot.subplots(
        1, len(panels), figsize=(3 + 4.5 * len(panels), 4), layout="constrained", squeeze=False
    )
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    for axes, (panel, lines) in zip(plots[0], panels.items(), strict=True):
        for name, points in lines.items():
            # A line looks alike in all panels; there are ten colors.
            turn, color = divmod(names.index(name), 10)
            style = "--" if name.endswith("ranked") else "-"
            looks = {"color": f"C{color}", "marker": "os^"[turn % 3], "label": name}
            axes.plot(*zip(*points, strict=True), style, **looks)
        axes.set_yscale("log")
        if figure.log_x:
            axes.set_xscale("log")
        else:
            axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(figure.y_label)
        axes.set_title(panel or figure.title, fontsize="medium")
        axes.grid(alpha=0.3)
    shown = {
        label: handle
        for axes in plots[0]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    drawing.legend(shown.values(), shown, loc="outside right center", fontsize="small")
    if figure.panels:
        drawing.suptitle(figure.title, fontsize="medium")
    drawing.savefig(folder / f"{figure.name}.svg", metadata={"Date": None})
    pyplot.close(drawing)


def describe_machine() -> dict[str, Any]:
    """Describe the machine that the figures were measured on."""
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("numba", "numpy")},
    }
