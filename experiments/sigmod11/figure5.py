"""Figure 5: the number of rules.

Usage: python -m experiments.sigmod11.figure5 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_saving, measure_all, measure_variants
from experiments.sigmod11.page import PAPER

SHARES = (0.1, 0.25, 0.5, 1.0)
"""Of the paper's million."""


def make(settings: Settings) -> Figure:
    sizes = [round(share * settings.most) for share in SHARES]
    rows = measure_variants(
        settings,
        [{"size": size} for size in sizes],
        lambda p: {"rules": p["size"]},
        measure_all,
    )
    return Figure(
        "figure5",
        f"Figure 5: workload size, to {settings.most:,} rules",
        "rules",
        "rules",
        rows,
        [
            *claim_saving(rows, "betree", "kindex", "uniform", "80 %", distribution="uniform"),
            *claim_saving(
                rows, "betree", "kindex-listed", "uniform", "80 %", distribution="uniform"
            ),
            *claim_saving(rows, "betree", "sift-listed", "both", ""),
            *claim_saving(rows, "betree", "propagation", "Zipf", "63 %", distribution="zipf"),
            *claim_saving(
                rows, "kindex", "propagation", "uniform", "above 0", distribution="uniform"
            ),
            *claim_saving(rows, "gryphon", "scan", "uniform", "above 0", distribution="uniform"),
            *claim_saving(rows, "sift", "scan", "uniform", "above 0", distribution="uniform"),
            *claim_saving(rows, "kindex", "scan", "Zipf", "partly below 0", distribution="zipf"),
            *claim_saving(rows, "sift", "scan", "Zipf", "partly below 0", distribution="zipf"),
            *claim_saving(rows, "tiles", "propagation", "both", ""),
        ],
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
