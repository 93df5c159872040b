"""Figure 17: how the algorithms for DNFs scale.

Usage: python -m experiments.vldb09.figure17 [--quick] [--most N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, ratios, run, span
from experiments.paper.measure import Row, Settings
from experiments.vldb09.measure import DNF, measure_matching
from experiments.vldb09.page import PAPER
from tamis.workloads.ads import Workload

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for share in SHARES:
        size = round(share * settings.most)
        rows += [{"rules": size, **row} for row in measure_matching(Workload(size), DNF, settings)]
    return Figure(
        "figure17",
        "Figure 17: scalability, DNFs",
        "rules",
        "rules",
        rows,
        [
            Claim("matches", "11.91 %", f"{100 * rows[-1]['matches']:.2f} %"),
            Claim(
                "DNF against SCAN over trees",
                "up to 100 ×",
                span(ratios(rows, "kindex", "scan-trees")),
            ),
            Claim("DNF against our SCAN", "", span(ratios(rows, "kindex", "scan"))),
            Claim(
                "DNF against Le Subscribe",
                "1.58 to 2.97 ×",
                span(ratios(rows, "kindex", "propagation")),
            ),
            Claim("DNF against SIFT", "11.2 to 20.5 ×", span(ratios(rows, "kindex", "sift"))),
            Claim("tiles against DNF", "", span(ratios(rows, "tiles", "kindex"))),
        ],
    )


if __name__ == "__main__":
    run(make, PAPER)
