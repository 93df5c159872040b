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
    "figure5": """\
The BE-Tree comes first among the paper's algorithms here as well, but its rivals come in another
order, and nearer. All engines read the same codes: a range is a run of codes, which the paper's
k-index and SIFT spell out as values, and which makes them so slow there. Propagation tests its
candidates in packed arrays, and SIFT counts in bytes. The k-index, whose lists are sorted again at
every step, is the one that gains least. And what a matching rule costs, all engines pay: with a
million rules, of which 1 % match, each of them has ten thousand to write.

`benchmarks/bench_betree.py` measured a million rules (median µs of the kernel): all but Gryphon
beside other work, some of them again on a quiet machine.

| | betree-batch | betree | propagation | sift | gryphon | kindex | scan | tiles |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| uniform | 574 | 676 | 895 | 933 | | 12,960 | 30,570 | 80 |
| uniform, quiet | 541 | | 847 | 617 | 9,441 | | | |
| Zipf | 621 | 847 | 2,221 | 2,152 | | 37,667 | 26,881 | 123 |
| Zipf, quiet | 543 | | 939 | 1,623 | 28,799 | | | |

So the next best takes 1.1 to 1.6 times as long as `betree-batch` under a uniform distribution,
where the paper has five times, and 1.7 to 3.5 times under Zipf's, where it has 2.7: engines that
read more memory suffer more from neighbours. A million insertions took 2.5 to 4.4 s in one call,
and 8 to 11 µs each in calls of their own; the tree takes 117 MB, 217 with room for more.
""",
    "figure7": """\
The next best is SIFT or Propagation. With Zipf's law a tree that knows nothing in advance,
`betree`, partitions by attributes that turn out to be common; `betree-batch` does not.
""",
    "figure11": """\
At 9 % what counts is how many rules are written, not how they are found: all engines but the
k-index and SCAN take much the same. The k-index falls behind below 1 % as well, for what is said
under figure 5.
""",
    "figure12": """\
There are far fewer strings here than DBLP has: 2,053 maintainers and 58,649 synopses against
760,000 and 250,000. A rule has an equality for each 3-gram of its string, and an event that many
attributes; hardly a rule survives its rarest 3-gram. With so few rules all but the k-index and SCAN
spend most of their few microseconds on the event itself, and the BE-Tree, which looks at
more nodes than Gryphon has edges to follow, comes behind. The gap closes as strings become
more: `betree-batch` is the first of the paper's algorithms on the synopses.
""",
    "figure13": """\
Times go up from the first measurement to the last for both trees, the adapted and the new one:
what is compared is one with the other at the same place. A tree that has been through both
workloads is as good as one that was made for the last, within a few percent; with 100,000 rules it
took 1.12 and 0.95 times as long.
""",
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
