"""Figure 14: the impact of selectivity on DNFs, by the number of months.

Usage: python -m experiments.vldb09.figure14 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, ratios, run, span
from experiments.paper.measure import Row, Settings
from experiments.vldb09.measure import DNF, measure_matching
from experiments.vldb09.page import PAPER
from tamis.workloads.ads import Workload

MONTHS = (12, 6, 3, 2, 1)


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for months in MONTHS:
        workload = Workload(settings.rules, months=months)
        rows += [{"months": months, **row} for row in measure_matching(workload, DNF, settings)]
    growth = {name: [r["ms"] for r in rows if r["engine"] == name] for name in DNF}
    more = rows[-1]["matches"] / rows[0]["matches"]
    return Figure(
        "figure14",
        f"Figure 14: selectivity, {settings.rules:,} DNFs",
        "matches",
        "rules that match an event, %",
        rows,
        [
            Claim("DNF against SIFT", "11.2 to 20.9 ×", span(ratios(rows, "kindex", "sift"))),
            Claim(
                "DNF against Le Subscribe",
                "below 1 for few matches, above for many",
                span(ratios(rows, "kindex", "propagation")),
            ),
            *(
                Claim(
                    f"{name}: growth of time where {more:.1f} times as many rules match",
                    {"kindex": "sublinear", "propagation": "more linear"}.get(name, "not stated"),
                    f"{growth[name][-1] / growth[name][0]:.2g} ×",
                )
                for name in ("kindex", "propagation", "sift")
            ),
            Claim("tiles against DNF", "", span(ratios(rows, "tiles", "kindex"))),
        ],
        scale=100,
    )


if __name__ == "__main__":
    run(make, PAPER)
