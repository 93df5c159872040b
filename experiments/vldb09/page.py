"""The paper, and the text of the page about its experiments."""

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
        "scan-trees": "SCAN over trees",
        "pscan": "PSCAN",
        "tiles": "tiles",
    },
)

HEAD = """\
# The experiments of "Indexing Boolean Expressions"

The figures of the paper's section 7, reproduced with our engines on the workload of
`tamis.workloads.ads`. `kindex` and `kindex-cnf` are the paper's algorithms; `propagation` (Le
Subscribe), `sift`, `pscan` and `scan` are its rivals; `tiles` is our default engine and not part of
the paper. `make experiments` measures everything and writes this page; the numbers are in
`experiments/vldb09/results`.

Measured on {cpus} cores, {system}, Python {python}, Numba {numba}, with {most:,} rules for
construction and scalability (the paper: a million) and {rules:,} for the rest. A time is that of
the engine alone on an encoded event; engines took turns on each event. "a against b" is the time of
b divided by the time of a: above 1, a is faster. Each figure says when it was measured.
"""

WHY = {
    "construction": """\
Seconds are CPU time. Most of it goes into reading the texts and normalising them in Python, which
all engines share. The lists themselves are built by sorting arrays. An entry takes four bytes (six
in CNF). These rules have no weights; with weights an entry takes four bytes more.
""",
    "figure14": """\
Like the paper's SIFT, ours reads whole lists and increments a counter for each entry. But a counter
is one byte, eight of them are compared at once, and the counters of a million conjunctions fit in
the cache. So an entry costs SIFT one addition in cached memory. It costs the Conjunction algorithm
a step in a heap: the list that moved is searched, and put back among some ninety others, with
branches that the processor cannot predict. Skipping saves the reading of entries,
which has become cheap. And where an event has many keys and a tenth of the rules match, there is
little to skip: most entries belong to a conjunction that holds, or that fails by one list only.

Le Subscribe gains from the same change: the truth of all predicates is a table of bytes in the
cache, and a candidate is dropped at the first byte that is 0.
""",
    "figure15": """\
With fewer attributes there are fewer distinct conjunctions. Here all engines get deduplicated
conjunctions, the rivals too; in the paper only the k-index does.
""",
    "figure16": """\
As in the paper, the times of the counting and of the skipping algorithm grow with the conjunctions.
So does that of Le Subscribe, because its candidates are deduplicated here.
""",
    "figure17": """\
Against a SCAN that walks the tree of every rule, as the paper's does, the distance is much smaller
than in the paper: a tree is a run of numbers in memory, and an operator ends at the first operand
that decides it. Our own SCAN evaluates distinct conjunctions, leaves each at the first atom that
fails, the rarest first, and is faster than the Conjunction algorithm. For SIFT and Le Subscribe see
figure 14.
""",
    "figure18": """\
SCAN and tiles read these rules in the form of the encoder, as DNFs or programs. PSCAN and the CNF
algorithm work on CNFs, which are built from the trees. PSCAN leaves a rule at the first disjunction
that fails. The CNF algorithm evaluates fewer rules, but pays for keeping its lists in order. A SCAN
that walks trees leaves a rule at the first disjunction that fails, too, without building CNFs. It
is faster than both, and nowhere near as slow as in the paper.
""",
    "figure19": """\
Ranking saves more than in the paper, in DNF also where few rules match. Conjunctions are indexed as
they are written, also those that contain another one of their rule, so the sum over a conjunction
bounds its rule. Entries have weights; where several rules share a conjunction, the highest one. The
lists skip by a WAND pivot: where the bounds of the first K lists stay below the floor, lists are
added until they do not, and the partition ends if that never happens. The few rules that remain are
scored by their trees, so that all engines give the same score to the last bit. In CNF the bound is
looser: it adds up all entries of a disjunction, of which only the best one scores. The curve of
tiles is that of the engine which a matcher chooses for these rules, `shared`, without the call
around it. On DNFs it gains where many rules match. On CNFs it loses: rules whose disjunctions share
predicates, and programs, are bounded one by one, by their trees; see docs/decisions/0028.
""",
}

PAGE = Page(
    PAPER,
    ("construction", *(f"figure{number}" for number in range(14, 20))),
    HEAD,
    WHY,
    ("form", "rules", "months", "dimensions", "size"),
)
