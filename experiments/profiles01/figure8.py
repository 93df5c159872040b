"""Figure 8: evaluations and how much the profiles overlap.

Usage: python -m experiments.profiles01.figure8 [--quick] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings
from experiments.profiles01.measure import DOCUMENTS, INDEXES, evaluations_of, measure_evaluations
from experiments.profiles01.page import PAPER
from experiments.profiles01.profiles import Profiles

PROFILES = 100
WIDTHS = (50, 150, 300, 500, 800, 1_200, 2_000, 4_000, 8_000, 16_000, 30_000)


def make(settings: Settings) -> Figure:
    documents = min(DOCUMENTS, settings.events)
    rows: list[Row] = []
    for width in WIDTHS:
        profiles = Profiles(PROFILES, width)
        found = measure_evaluations(profiles, INDEXES, documents)
        about = {
            "overlap": profiles.overlap,
            "pairs": profiles.overlapping_pairs,
            "width": width,
        }
        rows += [about | row for row in found]
    overlaps = list(dict.fromkeys(row["overlap"] for row in rows))
    steady = {"interval", "segment"}
    return Figure(
        "figure8",
        f"Figure 8: overlap, {PROFILES} profiles",
        "overlap",
        "part of an interval that others cover, %",
        rows,
        [
            Claim("overlap", "10 to 98 %", f"{overlaps[0]:.0%} to {overlaps[-1]:.0%}"),
            *(
                claim_growth(rows, name, "steady" if name in steady else "rises")
                for name in INDEXES
            ),
            Claim(
                "overlap from which hybrid beats cluster",
                "above 90 %",
                find_crossing(rows, "overlap"),
            ),
            Claim(
                "the same, as pairs of intervals that overlap", "-", find_crossing(rows, "pairs")
            ),
            Claim("always the best", "interval", ", ".join(sorted(find_best(rows, overlaps)))),
        ],
        scale=100,
        y="evaluations",
        y_label="predicates evaluated for a document",
    )


def claim_growth(rows: list[Row], name: str, paper: str) -> Claim:
    counts = evaluations_of(rows, name)
    shown = f"{counts[0]:.0f} to {counts[-1]:.0f} ({counts[-1] / counts[0]:.1f} ×)"
    return Claim(f"{name}, from least to most overlap", "-" if name == "hybrid" else paper, shown)


def find_crossing(rows: list[Row], measure: str) -> str:
    """Find the place from which hybrid evaluates fewer predicates than cluster."""
    places = [row[measure] for row in rows if row["engine"] == "hybrid"]
    wins = [
        h < c
        for h, c in zip(
            evaluations_of(rows, "hybrid"), evaluations_of(rows, "cluster"), strict=True
        )
    ]
    lasting = next((at for at in range(len(wins)) if all(wins[at:])), None)
    return "nowhere" if lasting is None else f"{places[lasting]:.0%}"


def find_best(rows: list[Row], overlaps: list[float]) -> set[str]:
    """Find the indexes that evaluate the fewest predicates at some place."""
    counts = {name: evaluations_of(rows, name) for name in INDEXES}
    return {min(counts, key=lambda name: counts[name][place]) for place in range(len(overlaps))}


if __name__ == "__main__":
    run(make, PAPER)
