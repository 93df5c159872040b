"""Figure 15: the impact of the number of attributes on DNFs.

Usage: python -m experiments.vldb09.figure15 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, ratios, run, span
from experiments.paper.measure import Row, Settings
from experiments.vldb09.measure import DNF, measure_matching
from experiments.vldb09.page import PAPER
from tamis.workloads.ads import Workload

DIMENSIONS = (50, 200, 500, 1_000, 1_461)


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for dimensions in DIMENSIONS:
        workload = Workload(settings.rules, dimensions=dimensions)
        rows += [
            {"dimensions": dimensions, **row} for row in measure_matching(workload, DNF, settings)
        ]

    def change(name: str) -> str:
        """How the time of an engine changes from the most attributes to the fewest."""
        times = [row["ms"] for row in rows if row["engine"] == name]
        return f"{times[0] / times[-1]:.2g} ×"

    return Figure(
        "figure15",
        f"Figure 15: number of attributes, {settings.rules:,} DNFs",
        "dimensions",
        "attributes that rules use",
        rows,
        [
            Claim("DNF, time at the fewest attributes", "below 1", change("kindex")),
            Claim("Le Subscribe, the same", "slightly above 1", change("propagation")),
            Claim("SIFT, the same", "not stated", change("sift")),
            Claim(
                "DNF against Le Subscribe", "above 1", span(ratios(rows, "kindex", "propagation"))
            ),
        ],
    )


if __name__ == "__main__":
    run(make, PAPER)
