"""Table 5: the build time and the size of an index.

*encode* reads the rules, once for all engines; *build* is the time that an engine adds. *All* is an
engine with the encoded rules. The paper's seconds are those of single inserts into a BE-Tree, its
megabytes those of the tree.

Usage: python -m experiments.sigmod11.table5 [--quick] [--most N]
"""

from __future__ import annotations

from experiments.paper import measure
from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings
from experiments.sigmod11.measure import LOGIC, MEASURED, select_rows
from experiments.sigmod11.page import PAPER
from experiments.sigmod11.texts import find_source
from tamis.workloads import begen, qgrams
from tamis.workloads.base import ChunkedWorkload

BETREE = {
    "uniform": "4.75 s, 84 MB for 1,000,000",
    "zipf": "4.27 s, 82 MB for 1,000,000",
    "names": "4.46 s, 74 MB for 760,000",
    "titles": "2.48 s, 37 MB for 250,000",
}
"""The paper's figures of its tree."""


def new_workload(name: str, settings: Settings) -> ChunkedWorkload:
    match name:
        case "uniform":
            return begen.Workload(settings.most)
        case "zipf":
            return begen.Workload(settings.most, distribution="zipf")
        case _:
            texts, known = find_source(name)
            return qgrams.Workload(min(known, settings.most), texts=texts)


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for name in BETREE:
        built = measure.measure_construction(new_workload(name, settings), MEASURED, LOGIC)
        rows += [{"workload": name, **row} for _, row in built]
    claims = [
        Claim(name, paper, describe(row))
        for name, paper in BETREE.items()
        for row in select_rows(rows, engine="betree", workload=name)
    ]
    return Figure("table5", "Table 5: construction", "", "", rows, claims)


def describe(row: Row) -> str:
    return f"{row['build_s']:.3g} s, {row['all_mb']:.3g} MB for {row['rules']:,}"


if __name__ == "__main__":
    run(make, PAPER)
