"""Figure 11: the share of the rules that match, for three classes of operators.

Usage: python -m experiments.sigmod11.figure11 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Settings
from experiments.sigmod11.measure import claim_saving, measure_variants
from experiments.sigmod11.page import PAPER

PROBABILITIES = (0.0001, 0.001, 0.01, 0.03, 0.09)
CLASSES = ("low", "med", "high")


def make(settings: Settings) -> Figure:
    places = [
        {"operators": operators, "match_probability": probability}
        for operators in CLASSES
        for probability in PROBABILITIES
    ]
    rows = measure_variants(settings, places, dict)
    for row in rows:
        row["panel"] = f"{row['operators']}, {row['distribution']}"
    uniform = {"distribution": "uniform", "operators": "med"}
    few, many = {"match_probability": 0.001}, {"match_probability": 0.09}
    return Figure(
        "figure11",
        f"Figure 11: match probability, {settings.rules:,} rules",
        "matches",
        "rules that match an event, %",
        rows,
        [
            *claim_saving(rows, "betree", "kindex", "0.1 %, uniform", "97 %", **few, **uniform),
            *claim_saving(
                rows, "kindex", "propagation", "0.1 %, uniform", "above 0", **few, **uniform
            ),
            *claim_saving(rows, "kindex", "sift", "0.1 %, uniform", "above 0", **few, **uniform),
            *claim_saving(rows, "betree", "propagation", "9 %, uniform", "33 %", **many, **uniform),
            *claim_saving(
                rows, "propagation", "kindex", "9 %, uniform", "above 0", **many, **uniform
            ),
            *claim_saving(
                rows, "propagation", "sift", "9 %, uniform", "above 0", **many, **uniform
            ),
        ],
        scale=100,
        panels="panel",
        log_x=True,
    )


if __name__ == "__main__":
    run(make, PAPER)
