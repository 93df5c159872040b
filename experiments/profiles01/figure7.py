"""Figure 7: evaluations and the number of profiles, which hardly overlap.

Usage: python -m experiments.profiles01.figure7 [--quick] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Settings
from experiments.profiles01.measure import (
    BASELINES,
    DOCUMENTS,
    INDEXES,
    evaluations_of,
    measure_evaluations,
)
from experiments.profiles01.page import PAPER
from experiments.profiles01.profiles import Profiles

SIZES = tuple(range(100, 1_001, 100))


def make(settings: Settings) -> Figure:
    documents = min(DOCUMENTS, settings.events)
    rows, overlaps = [], []
    for size in SIZES:
        profiles = Profiles(size)
        overlaps.append(profiles.overlap)
        found = measure_evaluations(profiles, INDEXES + BASELINES, documents)
        rows += [{"profiles": size, **row} for row in found]
    worst = [max(evaluations_of(rows, name)[place] for name in INDEXES) for place in (0, -1)]
    means = {name: sum(evaluations_of(rows, name)) for name in INDEXES}
    order = sorted(means, key=means.__getitem__)
    naive = evaluations_of(rows, "naive")
    return Figure(
        "figure7",
        "Figure 7: number of profiles",
        "profiles",
        "profiles",
        rows,
        [
            Claim("overlap", "1 to 20 %", f"{min(overlaps):.1%} to {max(overlaps):.1%}"),
            Claim("without an index", "200 to 2,000", f"{naive[0]:,.0f} to {naive[-1]:,.0f}"),
            Claim("the worst index", "18 to 47", f"{worst[0]:.0f} to {worst[1]:.0f}"),
            Claim("the best two", "interval, cluster", ", ".join(order[:2])),
            Claim("all, best first", "-", ", ".join(order)),
        ],
        y="evaluations",
        y_label="predicates evaluated for a document",
    )


if __name__ == "__main__":
    run(make, PAPER)
