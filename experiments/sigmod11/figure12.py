"""Figure 12: real strings by their 3-grams.

Usage: python -m experiments.sigmod11.figure12 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import Figure, run
from experiments.paper.measuring import Row, Settings
from experiments.sigmod11.measuring import matching, saved
from experiments.sigmod11.page import PAPER
from experiments.sigmod11.texts import SOURCES, source
from tamis.workloads.qgrams import Workload

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Of all texts that there are, or of as many as are asked for."""


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for kind in SOURCES:
        texts, known = source(kind)
        for share in SHARES:
            size = round(share * min(known, settings.most))
            about = {"texts": texts, "rules": size}
            rows += [about | row for row in matching(Workload(size, texts=texts), settings)]
    names, titles = ({"texts": source(kind)[0]} for kind in SOURCES)
    return Figure(
        "figure12",
        "Figure 12: real strings",
        "rules",
        "rules",
        rows,
        [
            *saved(rows, "betree", "gryphon", "names", "37 %", **names),
            *saved(rows, "betree", "propagation", "names", "above 98 %", **names),
            *saved(rows, "betree", "gryphon", "titles", "51 %", **titles),
            *saved(rows, "betree", "propagation", "titles", "above 99 %", **titles),
            *saved(rows, "gryphon", "propagation", "names", "above 0", **names),
            *saved(rows, "gryphon", "propagation", "titles", "above 0", **titles),
        ],
        panels="texts",
    )


if __name__ == "__main__":
    run(make, PAPER)
