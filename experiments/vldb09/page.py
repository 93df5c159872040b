"""The page about the experiments, made of their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figure import NAMES

ORDER = ("construction", *(f"figure{number}" for number in range(14, 20)))

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
Most of the time is reading the texts and normalising them in Python, which all engines share. The
lists themselves are made by sorting arrays. An entry takes four bytes (six in CNF) and no weight: a
conjunction is stored once for rules that weigh it differently, so weights stay with the rules.
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


def page(results: Path, plots: str) -> str:
    """The page, given where the numbers are, and the folder of the plots beside it."""
    figures = {name: json.loads((results / f"{name}.json").read_text()) for name in ORDER}
    first = figures[ORDER[0]]
    parts = [HEAD.format(**first["machine"], **first["settings"])]
    for name, figure in figures.items():
        parts.append(f"## {figure['title']}\n")
        if name != "construction":
            parts.append(f"![{figure['title']}]({plots}/{name}.svg)\n")
        parts.append(_claims(figure["claims"]))
        parts.append(WHY[name])
        parts.append(_construction(figure["rows"]) if name == "construction" else _times(figure))
    return "\n".join(parts)


def _claims(claims: list[dict[str, str]]) -> str:
    rows = [[claim["what"], claim["paper"] or "-", claim["ours"]] for claim in claims]
    return _table(["", "the paper", "here"], rows)


def _times(figure: dict[str, Any]) -> str:
    """Milliseconds, a line for each place along the axis."""
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in figure["rows"]:
        about = {
            name: row[name]
            for name in ("form", "rules", "months", "dimensions", "size")
            if name in row
        }
        place = (*(f"{k}: {v:,}" if k == "rules" else f"{k}: {v}" for k, v in about.items()),)
        name = NAMES[row["engine"]] + (", ranked" if row.get("ranked") else "")
        line = lines.setdefault(place, {"matches": f"{100 * row['matches']:.2f} %"})
        line[name] = f"{row['ms']:.3g}"
    columns = list(dict.fromkeys(name for line in lines.values() for name in line))
    rows = [
        [", ".join(place), *(line.get(name, "") for name in columns)]
        for place, line in lines.items()
    ]
    return "Milliseconds an event:\n\n" + _table(["", *columns], rows)


def _construction(rows: list[dict[str, Any]]) -> str:
    columns = {
        "form": "form",
        "engine": "engine",
        "rules": "rules",
        "conjunctions": "distinct conjunctions",
        "programs": "kept as programs",
        "encode_s": "encode, s",
        "build_s": "build, s",
        "index_mb": "index, MB",
        "all_mb": "all, MB",
    }
    return _table(list(columns.values()), [[_cell(row[name]) for name in columns] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
