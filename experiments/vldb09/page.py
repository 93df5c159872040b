"""The paper, and what the page says about its experiments."""

from __future__ import annotations

from experiments.paper.figure import Paper
from experiments.paper.page import Page

PAPER = Paper(
    "vldb09",
    {
        "kindex": "DNF (kindex)",
        "kindex-cnf": "CNF (kindex-cnf)",
        "propagation": "Le Subscribe (propagation)",
        "sift": "SIFT",
        "scan": "SCAN",
        "pscan": "PSCAN",
        "tiles": "tiles",
    },
)

HEAD = """\
# The experiments of "Indexing Boolean Expressions"

The figures of the paper's section 7, drawn again with our engines on the workload of
`tamis.workloads.ads`: `kindex` and `kindex-cnf` are the paper's algorithms, `propagation` (Le
Subscribe), `sift`, `pscan` and `scan` its rivals, and `tiles` is our default engine, which the
paper does not know. `make experiments` measures all of it and writes this page; the numbers are in
`experiments/vldb09/results`.

Measured on {cpus} cores, {system}, Python {python}, Numba {numba}, with {most:,} rules for
construction and scalability (the paper: a million) and {rules:,} for the rest. A time is that of
the engine alone on an encoded event; engines took turns on each event. "a against b" says how many
times as long b takes: above 1 a is faster.
"""

WHY = {
    "construction": """\
Seconds are the processor's. Most of them go into reading the texts and normalising them in Python,
which all engines share. The lists themselves are made by sorting arrays. An entry takes four bytes
(six in CNF) and no weight: a conjunction is stored once for rules that weigh it differently, so
weights stay with the rules.
""",
    "figure14": """\
The paper's SIFT reads whole lists and pays for a counter each; so does ours, but a counter is one
byte, eight of them are compared at once, and the counters of a million conjunctions stay in the
cache. An entry costs SIFT one addition to memory that is near. It costs the Conjunction algorithm a
place in an order: the list that moved is searched, and sorted in again among some ninety others,
with branches that cannot be foreseen. Skipping saves the reading of entries, which is what has
become cheap; and where an event has many keys and a tenth of the rules match, there is little to
skip: most entries belong to something that holds, or that fails by one list only.

Le Subscribe gains by the same change: the truth of all predicates is a table of bytes in the cache,
and a candidate is dropped at the first byte that is 0.
""",
    "figure15": """\
With fewer attributes there are fewer distinct conjunctions, which all engines here are given
deduplicated, the rivals too; in the paper only the k-index was.
""",
    "figure16": """\
As in the paper the times of the counting and the skipping algorithm grow as the conjunctions do. Le
Subscribe's does, too: its candidates are deduplicated here.
""",
    "figure17": """\
The distance between SCAN and the others is smaller than in the paper: our SCAN evaluates distinct
conjunctions, not trees of all rules, and leaves each at the first atom that fails, the rarest
first. What stands under figure 14 explains SIFT and Le Subscribe.
""",
    "figure18": """\
SCAN and tiles see these rules as their encoder leaves them, as DNFs or programs; the CNFs that
PSCAN and the CNF algorithm work on are made of the trees. PSCAN leaves a rule at the first
disjunction that fails. The CNF algorithm evaluates fewer rules, but pays for the order of its
lists.
""",
    "figure19": """\
A rule that is not pruned is scored by its tree, to the last bit as by every other engine, not by
weights in the entries, and that is dearer than to report that it matches. So ranking pays only
where bounds prune most of the rules. In DNF they do not, for two reasons. The bound of a key is the
weight of the one rule that weighs it most, far above what other rules weigh it. And conjunctions
copy from one another here, so some contain another one of their rule and are dropped by the
encoder: the score of such a rule is not bounded by what is left of it, and it keeps every
conjunction that it shares from being pruned. A CNF is indexed as it was written, so that its bounds
hold.
""",
}

PAGE = Page(
    PAPER,
    ("construction", *(f"figure{number}" for number in range(14, 20))),
    HEAD,
    WHY,
    ("form", "rules", "months", "dimensions", "size"),
)
