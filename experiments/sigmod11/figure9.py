"""Figure 9: the selectivity of dimensions: 1 - 1/n where they have n values.

Usage: python -m experiments.sigmod11.figure9 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measuring import Settings
from experiments.sigmod11.measuring import grown, varied
from experiments.sigmod11.page import PAPER

CARDINALITIES = (10, 5, 3, 2)
"""Selectivities from 0.9 to 0.5, with nothing but equalities."""


def make(settings: Settings) -> Figure:
    places = [{"cardinality": number, "operators": "min"} for number in CARDINALITIES]
    rows = varied(settings, places, lambda place: {"selectivity": 1 - 1 / place["cardinality"]})
    uniform, zipf = {"distribution": "uniform"}, {"distribution": "zipf"}
    return Figure(
        "figure9",
        f"Figure 9: dimension selectivity, {settings.rules:,} rules",
        "selectivity",
        "selectivity of a dimension",
        rows,
        [
            *grown(rows, "gryphon", "uniform, 0.9 to 0.5", "1.01 ×", **uniform),
            *grown(rows, "propagation", "uniform, 0.9 to 0.5", "1.8 ×", **uniform),
            *grown(rows, "kindex", "uniform, 0.9 to 0.5", "1.27 ×", **uniform),
            *grown(rows, "propagation", "Zipf, 0.9 to 0.5", "5.11 ×", **zipf),
            *grown(rows, "kindex", "Zipf, 0.9 to 0.5", "7.5 ×", **zipf),
        ],
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
