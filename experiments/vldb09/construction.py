"""The construction of the inverted lists: seconds and megabytes (section 7).

*encode* reads the rules, numbers distinct atoms and conjunctions and writes them to arrays, once
for all engines; *build* is the time that an engine adds. The paper's sizes are those of the lists
and the table of their keys: *index*. *All* is an engine with the encoded rules that it uses to
verify and score. Seconds are CPU time.

Usage: python -m experiments.vldb09.construction [--quick] [--most N]
"""

from __future__ import annotations

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings
from experiments.vldb09.measure import CNF, DNF, measure_construction
from experiments.vldb09.page import PAPER
from tamis.workloads.ads import Workload


def make(settings: Settings) -> Figure:
    rows: list[Row] = [
        *measure_construction(Workload(settings.most), DNF),
        *measure_construction(Workload(settings.most, form="cnf", months=6), CNF),
    ]
    dnf, cnf = (next(r for r in rows if r["engine"] == name) for name in ("kindex", "kindex-cnf"))
    return Figure(
        "construction",
        f"Construction, {settings.most:,} rules",
        "",
        "",
        rows,
        [
            Claim("DNF, to load a million rules", "7 minutes", seconds(dnf)),
            Claim("DNF, index of a million rules", "35 MB", megabytes(dnf)),
            Claim("CNF, to load a million rules", "1.5 hours", seconds(cnf)),
            Claim("CNF, index of a million rules", "91 MB", megabytes(cnf)),
        ],
    )


def seconds(row: Row) -> str:
    return f"{row['encode_s'] + row['build_s']:.3g} s for {row['rules']:,}"


def megabytes(row: Row) -> str:
    return f"{row['index_mb']:.3g} MB for {row['rules']:,}"


if __name__ == "__main__":
    run(make, PAPER)
