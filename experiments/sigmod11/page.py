"""The paper, and the text of the page about its experiments."""

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
        "kindex-listed": "k-index, ranges listed",
        "propagation": "Propagation",
        "gryphon": "Gryphon",
        "sift": "SIFT",
        "sift-listed": "SIFT, ranges listed",
        "scan": "SCAN",
        "scan-trees": "SCAN over trees",
        "tiles": "tiles",
    },
)

HEAD = """\
# The experiments of "BE-Tree: An Index Structure to Efficiently Match Boolean Expressions"

The figures of the paper's section 7, reproduced with our engines on the workloads of
`tamis.workloads.begen` and `tamis.workloads.qgrams`. `tiles` is our default engine and not part of
the paper. `make experiments PAPER=sigmod11` measures everything and writes this page; the numbers
are in `experiments/sigmod11/results`.

Measured on {cpus} cores, {system}, Python {python}, Numba {numba}, with {most:,} rules for table 5
and {rules:,} for the rest unless a title says otherwise, where the paper has a million or 100,000.
A time is that of the engine alone on encoded events, in CPU time of its thread. Each figure says
when it was measured and how many events a call matches: with one event a call, the fixed cost of a
call, some 9 µs, is part of every time. The time that an engine saves against another is counted as
in the paper: below 0, the engine is the slower one.

DBLP's authors and titles are not available here. Names and titles from Debian's list of packages
replace them, or, without that list, the names of airports and of Unicode's characters.
"""

WHY = {
    "figure5": """\
`kindex-listed` and `sift-listed` are the rivals as the paper has them: an entry for every value of
a range. SCAN over trees evaluates the predicates of a rule as they are written. In the other
engines a range is a run of codes, and in the k-index a few nodes of a hierarchy.

The BE-Tree, as `betree-batch`, is the fastest of the paper's algorithms here as well, but rivals
are closer. At a million rules the next best takes 1.04 times as long under a uniform distribution
(SIFT with listed values), against five times in the paper, and 1.7 times under Zipf's law
(Propagation), against 2.7. Propagation tests its candidates in packed arrays, and SIFT counts in
bytes. Attributes have 50 values here, so a range lists few of them, and the k-index is faster with
lists than with a hierarchy, where an event is in a list for each level. And all engines pay for
writing the matches: with a million rules, of which 1 % match, each of them writes ten thousand.

`benchmarks/bench_betree.py` measured a million rules on 2026-11-18 (median µs of the kernel, one
event a call, beside other work), without the k-index and SCAN:

| | betree-batch | betree | propagation | sift | gryphon | tiles |
| --- | --- | --- | --- | --- | --- | --- |
| uniform | 439 | 714 | 1,043 | 728 | 33,148 | 236 |
| Zipf | 511 | 1,159 | 1,178 | 1,145 | 56,745 | 155 |

So with one event a call the next best takes 1.7 times as long as `betree-batch` under a uniform
distribution, and 2.2 times under Zipf's law: a call finds the caches cold. A million insertions
took 4.6 to 4.8 s in one call, and 11 to 12 µs each in single calls; the tree takes 118 MB, or
218 MB with its spare room.
""",
    "figure7": """\
The next best is SIFT or Propagation. With Zipf's law a tree without statistics, `betree`,
partitions by attributes that turn out to be common; `betree-batch` does not.
""",
    "figure11": """\
At 0.01 % and 0.1 % the BE-Tree is the fastest of the paper's algorithms, up to three times as fast
as the next. At 9 % SIFT or Propagation is. SIFT has counted all predicates anyway, and reads its
counters once, whatever matches; Propagation tests its candidates in packed arrays. `tiles` tests 64
rules of a tile at once, and gains most where many match. The k-index is slow below 1 % as well, for
the reasons given under figure 5, most of all where many predicates are ranges.
""",
    "figure12": """\
There are far fewer strings here than in DBLP: 2,053 maintainers and 58,649 synopses against 760,000
and 250,000. A rule has an equality for each 3-gram of its string, and an event as many attributes;
the rarest 3-gram rules out nearly all rules. Propagation files a rule under that one and has little
left to test, so it is the fastest of the paper's algorithms, where the paper has it far behind the
BE-Tree. With so few rules the other engines spend most of their few microseconds on the event
itself. The BE-Tree is faster than Gryphon, as in the paper.
""",
    "figure13": """\
Times rise from the first measurement to the last for both trees, the adapted and the new one, so
compare the two at the same place. A tree that has been through both workloads is as good as a new
one for the last, or better: under Zipf's law it has learned which attributes are common, and takes
half of the time of a new tree, which has seen no events.
""",
    "figure8": """\
The paper's SIFT and k-index list the values of a range, and cannot be built from 6,000 values on.
Here a range is a run of codes for every engine, whatever the number of its values.
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
