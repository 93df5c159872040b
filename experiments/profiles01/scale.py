"""Many more profiles than in the paper, measured by time.

The paper's indexes keep bit vectors at their nodes, which grow with the square of the profiles, so
an index is built only up to the size that it allows.

Usage: python -m experiments.profiles01.scale [--quick] [--most N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, ratios, run, span
from experiments.paper.measure import Row, Settings, measure_matching
from experiments.profiles01.measure import INDEXES
from experiments.profiles01.page import PAPER
from experiments.profiles01.profiles import Profiles

SHARES = (0.001, 0.01, 0.1, 1.0)
MOST = dict.fromkeys(INDEXES, 100_000)
"""The largest number of profiles for each index."""

OTHERS = ("lazy", "sift", "tiles")


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for share in SHARES:
        size = max(10, round(share * settings.most))
        engines = (*(name for name in INDEXES if size <= MOST[name]), *OTHERS)
        found = measure_matching(Profiles(size), engines, settings, "strong")
        rows += [{"rules": size, **row} for row in found]
    claims = [
        Claim(
            f"times that {name} takes as long as tiles",
            "-",
            span(ratios([r for r in rows if r["rules"] <= MOST.get(name, size)], "tiles", name)),
        )
        for name in (*INDEXES, *OTHERS[:-1])
    ]
    return Figure(
        "scale",
        f"Up to {settings.most:,} profiles",
        "rules",
        "profiles",
        rows,
        claims,
        log_x=True,
    )


if __name__ == "__main__":
    run(make, PAPER)
