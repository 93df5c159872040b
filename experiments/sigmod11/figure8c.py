"""Figure 8c and d: how wide ranges are.

Usage: python -m experiments.sigmod11.figure8c [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_saving, claim_saving_over_best, measure_variants
from experiments.sigmod11.page import PAPER

PERCENT = (6, 12, 25, 50)


def make(settings: Settings) -> Figure:
    rows = measure_variants(settings, [{"range_percent": percent} for percent in PERCENT], dict)
    return Figure(
        "figure8c",
        f"Figure 8c, d: predicate selectivity, {settings.rules:,} rules",
        "range_percent",
        "values that a range spans, %",
        rows,
        [
            *claim_saving_over_best(rows, "betree", "uniform", "76 %", distribution="uniform"),
            *claim_saving_over_best(rows, "betree", "Zipf", "43 %", distribution="zipf"),
            *claim_saving(rows, "tiles", "propagation", "both", ""),
        ],
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
