"""The paper, and what the page says about its experiments."""

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
    },
)

HEAD = """\
# The experiments of "Index Structures and Algorithms for Efficient Profile Matching"

The paper counts how many predicates an index evaluates for a document; so do table 1 and figures 7
and 8 here, by `tamis.engines.papers.intervals.count_predicates`. What the paper could not do comes
after: hundreds of thousands of profiles, measured by time. `make experiments PAPER=profiles01`
measures all of it and writes this page; the numbers are in `experiments/profiles01/results`.

Measured on {cpus} cores, {system}, Python {python}, Numba {numba}. The paper does not say how it
counts overlap. Here it is the part of an interval that other intervals cover as well, on average:
with intervals of size 10 on 50,001 values, that gives what the paper has for figure 7.
"""

WHY: dict[str, str] = {}

PAGE = Page(
    PAPER,
    ("table1", "figure7", "figure8", "scale", "joins"),
    HEAD,
    WHY,
    ("profiles", "overlap", "width", "rules", "documents"),
)
