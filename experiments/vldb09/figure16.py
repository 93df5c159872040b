"""Figure 16: the impact of the size of DNFs, by Zipf's exponent.

Usage: python -m experiments.vldb09.figure16 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings
from experiments.vldb09.measure import DNF, measure_matching
from experiments.vldb09.page import PAPER
from tamis.workloads.ads import Workload

SIZES = {3.0: 1.6, 2.5: 2.3, 2.0: 3.5}
"""Conjunctions a rule on average, by the exponent: Table 1."""


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for exponent, size in SIZES.items():
        workload = Workload(settings.rules, exponent=exponent)
        found = measure_matching(workload, DNF, settings)
        rows += [{"exponent": exponent, "size": size, **row} for row in found]

    def growth(name: str) -> str:
        times = [row["ms"] for row in rows if row["engine"] == name]
        return f"{times[-1] / times[0]:.2g} ×"

    return Figure(
        "figure16",
        f"Figure 16: size of rules, {settings.rules:,} DNFs",
        "size",
        "conjunctions a rule, on average",
        rows,
        [
            Claim("DNF: growth of time from 1.6 to 3.5 conjunctions", "1.9 ×", growth("kindex")),
            Claim("Le Subscribe, the same", "4.3 ×", growth("propagation")),
            Claim("SIFT, the same", "2.1 ×", growth("sift")),
            Claim("SCAN, the same", "not stated", growth("scan")),
            Claim("tiles, the same", "", growth("tiles")),
        ],
    )


if __name__ == "__main__":
    run(make, PAPER)
