"""Draw the plots of a report with matplotlib, as SVG in the colours and the font of the page.

Plots are drawn in placeholder colours, which are then replaced by the page's variables, so one
drawing fits light and dark mode. Text stays text, which can be read aloud, searched and copied.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tamis.errors import MissingExtraError
from tamis.report.figures import Bar, Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_plots", "draw_bars", "draw_partitions", "draw_seconds", "draw_skew", "shorten"]

_INK, _FAINT, _ACCENT, _MUTED = "#010203", "#020304", "#030405", "#040506"
_VARIABLES: Final = {
    _INK: "var(--ink-soft)",
    _FAINT: "var(--line)",
    _ACCENT: "var(--accent)",
    _MUTED: "var(--muted)",
}
"""The colour of the page that each placeholder stands for."""

_MAX_LABELS: Final = 10
"""How many bars have room for numbers above them, or an axis for labels."""

_BUSIEST: Final = 0.01
"""The share of rules whose part of the matches is marked."""


def check_plots() -> None:
    """Check that plots can be drawn, before anything is counted.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    try:
        import matplotlib as _  # noqa: F401  # only checks that it is installed
    except ImportError:
        raise MissingExtraError("plots need matplotlib; run: pip install 'tamis[report]'") from None


def draw_bars(
    name: str, bars: Sequence[Bar], *, none: int | None, things: str, times: str, description: str
) -> str:
    """Draw how many things occur how often, on logarithmic scales; `none` of them never do."""
    with _draw(name, description) as (axes, picture):
        values = [bar.things for bar in bars]
        places = list(range(1, len(bars) + 1))
        drawn = axes.bar(places, values, width=0.86, align="edge", color=_ACCENT)
        if none is not None:
            drawn_none = axes.bar([-0.35], [none], width=0.86, align="edge", color=_MUTED)
        if len(bars) <= _MAX_LABELS:
            axes.bar_label(drawn, [shorten(n) if n else "" for n in values], padding=2, color=_INK)
            if none is not None:
                axes.bar_label(drawn_none, [shorten(none)], padding=2, color=_INK)
        every = -(-len(bars) // _MAX_LABELS) or 1
        ticks = [] if none is None else [(0.08, "none")]
        labelled = list(zip(places, bars, strict=True))[::every]
        ticks += [(place + 0.43, _label_bounds(bar)) for place, bar in labelled]
        axes.set_xticks([place for place, _ in ticks], [label for _, label in ticks])
        axes.set_yscale("log")
        axes.set_ylim(0.7, 4 * max([1, *values, none or 0]))
        axes.set_xlabel(times)
        axes.set_ylabel(f"{things} (log scale)")
        axes.grid(axis="y")
    return picture.getvalue()


def draw_skew(name: str, distribution: Distribution, *, description: str) -> str:
    """Draw the share of the matches that the busiest rules have."""
    with _draw(name, description) as (axes, picture):
        parts = np.geomspace(min(1 / distribution.size, _BUSIEST), 1, 200)
        matches = [100 * distribution.share_of_top(part) for part in parts]
        axes.plot(100 * parts, matches, color=_ACCENT, lw=2.2)
        axes.plot(100 * parts, 100 * parts, color=_MUTED, lw=1.2, ls=(0, (4, 3)))
        here = 100 * distribution.share_of_top(_BUSIEST)
        axes.plot([100 * _BUSIEST], [here], "o", ms=6, color=_ACCENT)
        axes.annotate(
            f"busiest 1 %: {here:.0f} % of matches",
            (100 * _BUSIEST, here),
            # The curve rises, so there is room to the left of it, unless it begins here.
            xytext=(-9, 9) if parts[0] < _BUSIEST / 10 else (9, -12),
            textcoords="offset points",
            color=_INK,
            va="center",
            ha="right" if parts[0] < _BUSIEST / 10 else "left",
        )
        axes.set_xscale("log")
        axes.set_ylim(0, 104)
        axes.set_xlabel("busiest rules, % of those that matched (log scale)")
        axes.set_ylabel("% of matches")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(axis="both")
    return picture.getvalue()


def draw_partitions(name: str, partitions: Sequence[int], *, description: str) -> str:
    """Draw the matches of each partition, fullest first, and their mean."""
    check_plots()
    from matplotlib.ticker import MaxNLocator

    with _draw(name, description) as (axes, picture):
        ordered = sorted(partitions, reverse=True)
        mean = sum(ordered) / len(ordered)
        axes.bar(range(1, len(ordered) + 1), ordered, width=0.86, color=_ACCENT)
        axes.axhline(mean, color=_INK, lw=1.2, ls=(0, (4, 3)))
        axes.annotate(
            f"mean {shorten(round(mean))}",
            (1, mean),
            xycoords=("axes fraction", "data"),
            xytext=(0, 5),
            textcoords="offset points",
            ha="right",
            color=_INK,
        )
        axes.set_ylim(0, 1.2 * max(1, *ordered, 1))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(lambda value, _: shorten(value))
        axes.set_xlabel("partitions, fullest first")
        axes.set_ylabel("matches")
        axes.grid(axis="y")
    return picture.getvalue()


def draw_seconds(name: str, seconds: dict[str, float], *, description: str) -> str:
    """Draw how long each stage took, the first on top."""
    with _draw(name, description, height=0.75 + 0.42 * len(seconds)) as (axes, picture):
        drawn = axes.barh(list(seconds), list(seconds.values()), height=0.62, color=_ACCENT)
        axes.bar_label(drawn, [f"{s:,.1f} s" for s in seconds.values()], padding=4, color=_INK)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * max(seconds.values(), default=1) or 1)
        axes.set_xlabel("seconds")
        axes.grid(axis="x")
    return picture.getvalue()


def shorten(number: float) -> str:
    """Shorten a number to fit above a bar: 950, 1.2k, 12k, 4M."""
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            scaled = round(number / power, 1)
            return f"{scaled:.0f}{letter}" if scaled >= 10 else f"{scaled:g}{letter}"
    return f"{number:g}"


def _label_bounds(bar: Bar) -> str:
    return shorten(bar.low) if bar.low == bar.high else f"{shorten(bar.low)}+"


@contextmanager
def _draw(name: str, description: str, height: float = 2.9) -> Iterator[tuple[Axes, io.StringIO]]:
    """Give an empty plot to draw on; after the block, its SVG is in the picture."""
    check_plots()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    picture = io.StringIO()
    with mpl.rc_context(_style(name)):
        figure = Figure(figsize=(5.6, height), layout="constrained")
        axes = figure.subplots()
        yield axes, picture
        axes.set_axisbelow(True)
        raw = io.StringIO()
        figure.savefig(raw, format="svg", transparent=True, metadata={"Date": None})
    picture.write(_fit_to_page(raw.getvalue(), name, description))


def _style(name: str) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        # Ids are reproducible, and differ between the plots of a page.
        "svg.hashsalt": name,
        "font.size": 9,
        "text.color": _INK,
        "axes.edgecolor": _FAINT,
        "axes.labelcolor": _INK,
        "axes.labelsize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "xtick.color": _FAINT,
        "xtick.labelcolor": _INK,
        "ytick.color": _FAINT,
        "ytick.labelcolor": _INK,
        "ytick.left": False,
        "ytick.minor.left": False,
        "grid.color": _FAINT,
        "grid.linewidth": 0.7,
        "figure.dpi": 72,
    }


def _fit_to_page(svg: str, name: str, description: str) -> str:
    """Make a drawing part of the page: its colours and font, unique ids, and a spoken label."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<0>{name}-", svg)
    for placeholder, variable in _VARIABLES.items():
        svg = svg.replace(placeholder, variable)
    head, _, body = svg.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None
    label = escape(description, quote=True)
    return f'<svg {box[0]} role="img" aria-label="{label}" xmlns:xlink="http://www.w3.org/1999/xlink">{body}'
