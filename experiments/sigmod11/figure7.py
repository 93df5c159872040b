"""Figure 7: how many predicates rules and events have.

Usage: python -m experiments.sigmod11.figure7 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_saving, claim_saving_over_best, measure_variants
from experiments.sigmod11.page import PAPER

SIZES = ((5, 13), (14, 25), (25, 37), (66, 81))
"""The number of predicates of a rule and of an event; Table 3 gives the first and the last."""


def make(settings: Settings) -> Figure:
    places = [{"rule_size": rule, "event_size": event} for rule, event in SIZES]
    rows = measure_variants(settings, places, dict)
    return Figure(
        "figure7",
        f"Figure 7: rule and event size, {settings.rules:,} rules",
        "rule_size",
        "predicates a rule, on average",
        rows,
        [
            *claim_saving_over_best(rows, "betree", "uniform", "63 %", distribution="uniform"),
            *claim_saving_over_best(rows, "betree", "Zipf", "65 %", distribution="zipf"),
            *claim_saving(rows, "tiles", "propagation", "both", ""),
        ],
        panels="distribution",
    )


if __name__ == "__main__":
    run(make, PAPER)
