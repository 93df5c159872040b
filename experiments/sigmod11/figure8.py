"""Figure 8a and b: the cardinality of dimensions.

Usage: python -m experiments.sigmod11.figure8 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_saving, measure_variants
from experiments.sigmod11.page import PAPER

CARDINALITIES = (48, 500, 6_000, 50_000, 150_000)
"""The paper's k-index and SIFT list all values of a range, and fail from 6,000 on."""


def make(settings: Settings) -> Figure:
    rows = measure_variants(settings, [{"cardinality": number} for number in CARDINALITIES], dict)
    return Figure(
        "figure8",
        f"Figure 8a, b: cardinality, {settings.rules:,} rules",
        "cardinality",
        "values a dimension",
        rows,
        [
            *claim_saving(rows, "betree", "propagation", "uniform", "66 %", distribution="uniform"),
            *claim_saving(rows, "betree", "propagation", "Zipf", "59 %", distribution="zipf"),
            *claim_saving(rows, "tiles", "propagation", "both", ""),
        ],
        panels="distribution",
        log_x=True,
    )


if __name__ == "__main__":
    run(make, PAPER)
