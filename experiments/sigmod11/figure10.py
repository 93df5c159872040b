"""Figure 10: the share of equalities.

Usage: python -m experiments.sigmod11.figure10 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measuring import Settings
from experiments.sigmod11.measuring import grown, saved, varied
from experiments.sigmod11.page import PAPER

EQUALITY = (0.2, 0.4, 0.6, 0.8, 1.0)


def make(settings: Settings) -> Figure:
    rows = varied(settings, [{"equality": share} for share in EQUALITY], dict)
    few, all_of = {"equality": EQUALITY[0]}, {"equality": EQUALITY[-1]}
    uniform = {"distribution": "uniform"}
    return Figure(
        "figure10",
        f"Figure 10: share of equalities, {settings.rules:,} rules",
        "equality",
        "predicates that are equalities, %",
        rows,
        [
            *saved(rows, "betree", "gryphon", "few, uniform", "88 %", **few, **uniform),
            *saved(rows, "betree", "gryphon", "all, uniform", "20 %", **all_of, **uniform),
            *saved(rows, "gryphon", "propagation", "all, uniform", "above 0", **all_of, **uniform),
            *saved(rows, "gryphon", "kindex", "all, uniform", "above 0", **all_of, **uniform),
            *grown(rows, "gryphon", "uniform, from few to all", "well below 1", **uniform),
            *grown(rows, "propagation", "uniform, from few to all", "well below 1", **uniform),
        ],
        scale=100,
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
