"""Figure 10: the share of equalities.

Usage: python -m experiments.sigmod11.figure10 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_growth, claim_saving, measure_variants
from experiments.sigmod11.page import PAPER

EQUALITY = (0.2, 0.4, 0.6, 0.8, 1.0)


def make(settings: Settings) -> Figure:
    rows = measure_variants(settings, [{"equality": share} for share in EQUALITY], dict)
    few, all_of = {"equality": EQUALITY[0]}, {"equality": EQUALITY[-1]}
    uniform = {"distribution": "uniform"}
    return Figure(
        "figure10",
        f"Figure 10: share of equalities, {settings.rules:,} rules",
        "equality",
        "predicates that are equalities, %",
        rows,
        [
            *claim_saving(rows, "betree", "gryphon", "few, uniform", "88 %", **few, **uniform),
            *claim_saving(rows, "betree", "gryphon", "all, uniform", "20 %", **all_of, **uniform),
            *claim_saving(
                rows, "gryphon", "propagation", "all, uniform", "above 0", **all_of, **uniform
            ),
            *claim_saving(
                rows, "gryphon", "kindex", "all, uniform", "above 0", **all_of, **uniform
            ),
            *claim_growth(rows, "gryphon", "uniform, from few to all", "well below 1", **uniform),
            *claim_growth(
                rows, "propagation", "uniform, from few to all", "well below 1", **uniform
            ),
        ],
        scale=100,
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
