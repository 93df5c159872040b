"""The paper, and the text of the page about its experiments."""

from __future__ import annotations

from experiments.paper.figure import Paper
from experiments.paper.page import Page

PAPER = Paper(
    "profiles01",
    {
        "cluster": "Cluster Index",
        "interval": "Interval Index",
        "hybrid": "Hybrid Index",
        "segment": "Segment Tree",
        "interval-tree": "Interval Tree",
        "naive": "naive",
        "lazy": "lazy",
        "tiles": "tiles",
        "sift": "SIFT",
        "none": "no join predicates",
        "simple": "simple ones",
        "conjunction": "conjunctions",
        "joins-first": "joins first",
        "constants-first": "constants first",
        "estimated": "estimated",
        "no-index": "no index",
    },
)

HEAD = """\
# The experiments of "Index Structures and Algorithms for Efficient Profile Matching"

The paper counts how many predicates an index evaluates for a document. Table 1 and figures 7 and 8
do the same here, with `tamis.engines.papers.intervals.count_predicates`. The last three sections go
beyond the paper: they measure the time with many thousands of profiles and documents, and the order
of the two phases that section 4.3.1 leaves to an estimate.
`make experiments PAPER=profiles01` measures everything and writes this page; the numbers are in
`experiments/profiles01/results`.

Measured on {cpus} cores, {system}, Python {python}, Numba {numba}. The paper does not say how it
counts overlap. Here it is the mean share of an interval that other intervals cover as well: with
intervals of size 10 on 50,001 values, this gives the paper's overlap for figure 7.
"""

WHY: dict[str, str] = {}

PAGE = Page(
    PAPER,
    ("table1", "figure7", "figure8", "scale", "joins", "phases"),
    HEAD,
    WHY,
    ("profiles", "overlap", "width", "rules", "documents", "topics", "joins"),
)
