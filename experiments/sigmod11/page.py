"""The paper, and what the page says about its experiments."""

from __future__ import annotations

from experiments.paper.figure import Paper
from experiments.paper.page import Page

PAPER = Paper(
    "sigmod11",
    {
        "betree": "BE-Tree (betree)",
        "betree-batch": "BE-Tree, batch (betree-batch)",
        "betree-fresh": "a new BE-Tree",
        "kindex": "k-index (kindex)",
        "propagation": "Propagation",
        "gryphon": "Gryphon",
        "sift": "SIFT",
        "scan": "SCAN",
        "tiles": "tiles",
    },
)

HEAD = """\
# The experiments of "BE-Tree: An Index Structure to Efficiently Match Boolean Expressions"

The figures of the paper's section 7, drawn again with our engines on the workloads of
`tamis.workloads.begen` and `tamis.workloads.qgrams`. `tiles` is our default engine, which the paper
does not know. `make experiments PAPER=sigmod11` measures all of it and writes this page; the
numbers are in `experiments/sigmod11/results`.

Measured on {cpus} cores, {system}, Python {python}, Numba {numba}, with {most:,} rules for figure 5
and table 5 and {rules:,} for the rest, where the paper has a million or 100,000. A time is that of
the engine alone on an encoded event; engines took turns on each event. The time that an engine
saves against another is counted as the paper does: below 0 it is the slower one.

DBLP's authors and titles are not at hand. In their place stand names and titles that come with
Debian's list of packages, or where there is none, those of airports and of Unicode's characters.
"""

WHY = {
    "figure8": """\
The paper's SIFT and k-index list the values of a range, and cannot be built from 6,000 values on.
Here a range is a run of codes for every engine, however many values it spans.
""",
}

PAGE = Page(
    PAPER,
    (
        "table5",
        "figure4",
        "figure5",
        "figure6",
        "figure7",
        "figure8",
        "figure8c",
        "figure9",
        "figure10",
        "figure11",
        "figure12",
        "figure13",
    ),
    HEAD,
    WHY,
    (
        "distribution",
        "operators",
        "texts",
        "rules",
        "dimensions",
        "rule_size",
        "event_size",
        "cardinality",
        "range_percent",
        "selectivity",
        "equality",
        "match_probability",
        "capacity",
        "way",
        "exchanged",
    ),
)
