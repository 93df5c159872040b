"""Figure 6: the number of dimensions.

Usage: python -m experiments.sigmod11.figure6 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_saving, measure_variants
from experiments.sigmod11.page import PAPER

DIMENSIONS = (50, 100, 400, 800, 1400)


def make(settings: Settings) -> Figure:
    rows = measure_variants(settings, [{"dimensions": number} for number in DIMENSIONS], dict)
    low, high = DIMENSIONS[0], DIMENSIONS[-1]
    uniform = {"distribution": "uniform"}
    return Figure(
        "figure6",
        f"Figure 6: dimensionality, {settings.rules:,} rules",
        "dimensions",
        "dimensions",
        rows,
        [
            *claim_saving(
                rows, "betree", "kindex", f"{low}, uniform", "93 %", dimensions=low, **uniform
            ),
            *claim_saving(
                rows, "betree", "kindex", f"{high}, uniform", "75 %", dimensions=high, **uniform
            ),
            *claim_saving(rows, "betree", "kindex", "Zipf", "97 %", distribution="zipf"),
            *claim_saving(rows, "tiles", "kindex", "both", ""),
        ],
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
