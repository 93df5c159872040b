"""What the paper could not do: many profiles, by time.

The paper's indexes keep bit vectors at their nodes, which grow with the square of the profiles, so
each takes part as far as its size allows.

Usage: python -m experiments.profiles01.scale [--quick] [--most N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, ratios, run, span
from experiments.paper.measuring import Row, Settings, matching
from experiments.profiles01.measuring import INDEXES
from experiments.profiles01.page import PAPER
from experiments.profiles01.profiles import Profiles

SHARES = (0.001, 0.01, 0.1, 1.0)
MOST = dict.fromkeys(INDEXES, 100_000)
"""The most profiles that an index is built of."""

OTHERS = ("lazy", "sift", "tiles")


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for share in SHARES:
        size = max(10, round(share * settings.most))
        engines = (*(name for name in INDEXES if size <= MOST[name]), *OTHERS)
        found = matching(Profiles(size), engines, settings, "strong")
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
