"""Figure 9: the selectivity of dimensions: 1 - 1/n where they have n values.

Usage: python -m experiments.sigmod11.figure9 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_growth, measure_variants
from experiments.sigmod11.page import PAPER

CARDINALITIES = (10, 5, 3, 2)
"""Selectivities from 0.9 to 0.5, with nothing but equalities."""


def make(settings: Settings) -> Figure:
    places = [{"cardinality": number, "operators": "min"} for number in CARDINALITIES]
    rows = measure_variants(
        settings, places, lambda place: {"selectivity": 1 - 1 / place["cardinality"]}
    )
    uniform, zipf = {"distribution": "uniform"}, {"distribution": "zipf"}
    return Figure(
        "figure9",
        f"Figure 9: dimension selectivity, {settings.rules:,} rules",
        "selectivity",
        "selectivity of a dimension",
        rows,
        [
            *claim_growth(rows, "gryphon", "uniform, 0.9 to 0.5", "1.01 ×", **uniform),
            *claim_growth(rows, "propagation", "uniform, 0.9 to 0.5", "1.8 ×", **uniform),
            *claim_growth(rows, "kindex", "uniform, 0.9 to 0.5", "1.27 ×", **uniform),
            *claim_growth(rows, "propagation", "Zipf, 0.9 to 0.5", "5.11 ×", **zipf),
            *claim_growth(rows, "kindex", "Zipf, 0.9 to 0.5", "7.5 ×", **zipf),
        ],
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
