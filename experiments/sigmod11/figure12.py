"""Figure 12: real strings by their 3-grams.

Usage: python -m experiments.sigmod11.figure12 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measure import Row, Settings
from experiments.sigmod11.measure import claim_saving, measure_matching
from experiments.sigmod11.page import PAPER
from experiments.sigmod11.texts import SOURCES, find_source
from tamis.workloads.qgrams import Workload

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the available texts, or of the largest number in the settings if that is smaller."""


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for kind in SOURCES:
        texts, known = find_source(kind)
        for share in SHARES:
            size = round(share * min(known, settings.most))
            about = {"texts": texts, "rules": size}
            rows += [about | row for row in measure_matching(Workload(size, texts=texts), settings)]
    names, titles = ({"texts": find_source(kind)[0]} for kind in SOURCES)
    return Figure(
        "figure12",
        "Figure 12: real strings",
        "rules",
        "rules",
        rows,
        [
            *claim_saving(rows, "betree", "gryphon", "names", "37 %", **names),
            *claim_saving(rows, "betree", "propagation", "names", "above 98 %", **names),
            *claim_saving(rows, "betree", "gryphon", "titles", "51 %", **titles),
            *claim_saving(rows, "betree", "propagation", "titles", "above 99 %", **titles),
            *claim_saving(rows, "gryphon", "propagation", "names", "above 0", **names),
            *claim_saving(rows, "gryphon", "propagation", "titles", "above 0", **titles),
        ],
        panels="texts",
    )


if __name__ == "__main__":
    run(make, PAPER)
