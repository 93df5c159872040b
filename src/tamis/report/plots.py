"""The plots, drawn by matplotlib as SVG that takes its colours and its font from the page.

Colours are drawn as stand-ins and replaced by the page's variables, so that one drawing is right in
light and in dark; texts stay texts, which can be read aloud, found and copied.
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

__all__ = ["check_plots", "draw_bars", "draw_partitions", "draw_seconds", "draw_skew", "short"]

_INK, _FAINT, _ACCENT, _MUTED = "#010203", "#020304", "#030405", "#040506"
_VARIABLES: Final = {
    _INK: "var(--ink-soft)",
    _FAINT: "var(--line)",
    _ACCENT: "var(--accent)",
    _MUTED: "var(--muted)",
}
"""What stands for which colour of the page."""

_MOST_LABELS: Final = 10
"""How many bars still have room for their numbers, or an axis for its labels."""

_BUSIEST: Final = 0.01
"""The share of rules that skew is told for."""


def check_plots() -> None:
    """Refuse to go on if nothing can be drawn, before anybody counts for an hour.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    try:
        import matplotlib as _  # noqa: F401  # only whether it is there
    except ImportError:
        raise MissingExtraError("plots need matplotlib; run: pip install 'tamis[report]'") from None


def draw_bars(
    name: str, bars: Sequence[Bar], *, none: int | None, things: str, times: str, description: str
) -> str:
    """How many things occur how often, on logarithmic scales; `none` of them never do."""
    with _drawing(name, description) as (axes, picture):
        values = [bar.things for bar in bars]
        places = list(range(1, len(bars) + 1))
        drawn = axes.bar(places, values, width=0.86, align="edge", color=_ACCENT)
        if none is not None:
            drawn_none = axes.bar([-0.35], [none], width=0.86, align="edge", color=_MUTED)
        if len(bars) <= _MOST_LABELS:
            axes.bar_label(drawn, [short(n) if n else "" for n in values], padding=2, color=_INK)
            if none is not None:
                axes.bar_label(drawn_none, [short(none)], padding=2, color=_INK)
        every = -(-len(bars) // _MOST_LABELS) or 1
        ticks = [] if none is None else [(0.08, "none")]
        ticks += [
            (p + 0.43, _bounds(bar)) for p, bar in list(zip(places, bars, strict=True))[::every]
        ]
        axes.set_xticks([place for place, _ in ticks], [label for _, label in ticks])
        axes.set_yscale("log")
        axes.set_ylim(0.7, 4 * max([1, *values, none or 0]))
        axes.set_xlabel(times)
        axes.set_ylabel(f"{things} (log scale)")
        axes.grid(axis="y")
    return picture.getvalue()


def draw_skew(name: str, distribution: Distribution, *, description: str) -> str:
    """What share of the matches the busiest rules have."""
    with _drawing(name, description) as (axes, picture):
        parts = np.geomspace(min(1 / distribution.size, _BUSIEST), 1, 200)
        matches = [100 * distribution.share_of_top(part) for part in parts]
        axes.plot(100 * parts, matches, color=_ACCENT, lw=2.2)
        axes.plot(100 * parts, 100 * parts, color=_MUTED, lw=1.2, ls=(0, (4, 3)))
        here = 100 * distribution.share_of_top(_BUSIEST)
        axes.plot([100 * _BUSIEST], [here], "o", ms=6, color=_ACCENT)
        axes.annotate(
            f"busiest 1 %: {here:.0f} % of matches",
            (100 * _BUSIEST, here),
            # The curve rises, so there is room on its left, unless it begins here.
            xytext=(-9, 9) if parts[0] < _BUSIEST / 10 else (9, -12),
            textcoords="offset points",
            color=_INK,
            va="center",
            ha="right" if parts[0] < _BUSIEST / 10 else "left",
        )
        axes.set_xscale("log")
        axes.set_ylim(0, 104)
        axes.set_xlabel("the busiest rules, % of those that matched (log scale)")
        axes.set_ylabel("% of matches")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(axis="both")
    return picture.getvalue()


def draw_partitions(name: str, partitions: Sequence[int], *, description: str) -> str:
    """The matches of each partition, most first, and their mean."""
    check_plots()
    from matplotlib.ticker import MaxNLocator

    with _drawing(name, description) as (axes, picture):
        ordered = sorted(partitions, reverse=True)
        mean = sum(ordered) / len(ordered)
        axes.bar(range(1, len(ordered) + 1), ordered, width=0.86, color=_ACCENT)
        axes.axhline(mean, color=_INK, lw=1.2, ls=(0, (4, 3)))
        axes.annotate(
            f"mean {short(round(mean))}",
            (1, mean),
            xycoords=("axes fraction", "data"),
            xytext=(0, 5),
            textcoords="offset points",
            ha="right",
            color=_INK,
        )
        axes.set_ylim(0, 1.2 * max(1, *ordered, 1))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(lambda value, _: short(value))
        axes.set_xlabel("partitions, fullest first")
        axes.set_ylabel("matches")
        axes.grid(axis="y")
    return picture.getvalue()


def draw_seconds(name: str, seconds: dict[str, float], *, description: str) -> str:
    """How long each stage took, the first on top."""
    with _drawing(name, description, height=0.75 + 0.42 * len(seconds)) as (axes, picture):
        drawn = axes.barh(list(seconds), list(seconds.values()), height=0.62, color=_ACCENT)
        axes.bar_label(drawn, [f"{s:,.1f} s" for s in seconds.values()], padding=4, color=_INK)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * max(seconds.values(), default=1) or 1)
        axes.set_xlabel("seconds")
        axes.grid(axis="x")
    return picture.getvalue()


def short(number: float) -> str:
    """A number in the room above a bar: 950, 1.2k, 12k, 4M."""
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            scaled = round(number / power, 1)
            return f"{scaled:.0f}{letter}" if scaled >= 10 else f"{scaled:g}{letter}"
    return f"{number:g}"


def _bounds(bar: Bar) -> str:
    return short(bar.low) if bar.low == bar.high else f"{short(bar.low)}+"


@contextmanager
def _drawing(
    name: str, description: str, height: float = 2.9
) -> Iterator[tuple[Axes, io.StringIO]]:
    """An empty plot to draw on; when that is done, its SVG is in the picture."""
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
    picture.write(_of_the_page(raw.getvalue(), name, description))


def _style(name: str) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        # Ids that are the same every time, and other ones in each plot of a page.
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


def _of_the_page(svg: str, name: str, description: str) -> str:
    """A drawing as part of a page: its colours and font, ids of its own, words for the blind."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<0>{name}-", svg)
    for stand_in, variable in _VARIABLES.items():
        svg = svg.replace(stand_in, variable)
    head, _, body = svg.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None
    label = escape(description, quote=True)
    return f'<svg {box[0]} role="img" aria-label="{label}" xmlns:xlink="http://www.w3.org/1999/xlink">{body}'
