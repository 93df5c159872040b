"""Figure 18: how the algorithms for CNFs scale.

Usage: python -m experiments.vldb09.figure18 [--quick] [--most N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, ratios, run, span
from experiments.paper.measure import Row, Settings
from experiments.vldb09.measure import CNF, measure_matching
from experiments.vldb09.page import PAPER
from tamis.workloads.ads import Workload

SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)
"""The full set comes first, because `run.py` has just encoded it."""

MONTHS = 6
"""Makes as many rules match as in the paper."""


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for share in SHARES:
        size = round(share * settings.most)
        workload = Workload(size, form="cnf", months=MONTHS)
        rows += [{"rules": size, **row} for row in measure_matching(workload, CNF, settings)]
    return Figure(
        "figure18",
        "Figure 18: scalability, CNFs",
        "rules",
        "rules",
        rows,
        [
            Claim("matches", "5.16 %", f"{100 * rows[0]['matches']:.2f} %"),
            Claim("CNF against PSCAN", "1.9 to 2.6 ×", span(ratios(rows, "kindex-cnf", "pscan"))),
            Claim(
                "CNF against SCAN over trees",
                "10.5 to 12.7 ×",
                span(ratios(rows, "kindex-cnf", "scan-trees")),
            ),
            Claim("CNF against our SCAN", "", span(ratios(rows, "kindex-cnf", "scan"))),
            Claim("tiles against CNF", "", span(ratios(rows, "tiles", "kindex-cnf"))),
        ],
    )


if __name__ == "__main__":
    run(make, PAPER)
