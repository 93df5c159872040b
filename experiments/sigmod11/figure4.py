"""Figure 4: how many expressions an l-node may hold.

Usage: python -m experiments.sigmod11.figure4 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

import numpy as np

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings, encode_rules, summarize, time_in_turns
from experiments.sigmod11.measure import LOGIC, select_rows
from experiments.sigmod11.page import PAPER
from experiments.sigmod11.trees import insert, match_call, new_tree
from tamis.encode.events import EventEncoder
from tamis.workloads.begen import Workload

CAPACITIES = (5, 10, 20, 40, 80, 160, 320)
PROBABILITIES = (0.001, 0.01, 0.09)
ADVICE = {0.001: 5, 0.01: 20, 0.09: 20}
"""The paper's Table 4."""


def make(settings: Settings) -> Figure:
    rows = [row for share in PROBABILITIES for row in measure_capacities(share, settings)]
    return Figure(
        "figure4",
        f"Figure 4: capacity of l-nodes, {settings.rules:,} rules",
        "capacity",
        "expressions that an l-node may hold",
        rows,
        [claim for share in PROBABILITIES for claim in claim_capacity(rows, share)],
        panels="match_probability",
        log_x=True,
        batch=1,
    )


def measure_capacities(share: float, settings: Settings) -> list[Row]:
    workload = Workload(settings.rules, match_probability=share)
    rules, _ = encode_rules(workload, LOGIC)
    encoder = EventEncoder(rules)
    events = [encoder.encode(event) for event in workload.events(settings.events)]
    calls = []
    for capacity in CAPACITIES:
        tree = new_tree(rules, capacity)
        insert(tree, rules, np.arange(len(rules.forms.conjunction_start) - 1))
        calls.append(match_call(tree))
    taken, found = time_in_turns(calls, events, settings.seconds)
    return [
        {
            "engine": "betree",
            "match_probability": share,
            "capacity": capacity,
            "matches": float(found.mean() / rules.size),
            **summarize(times),
        }
        for capacity, times in zip(CAPACITIES, taken, strict=True)
    ]


def claim_capacity(rows: list[Row], share: float) -> list[Claim]:
    times = {row["capacity"]: row["ms"] for row in select_rows(rows, match_probability=share)}
    best = min(times, key=times.__getitem__)
    worst = max(times.values()) / times[best]
    return [
        Claim(f"{share:.1%} match: the best capacity", str(ADVICE[share]), str(best)),
        Claim(
            f"{share:.1%} match: the worst against the best", "not significant", f"{worst:.2g} ×"
        ),
    ]


if __name__ == "__main__":
    run(make, PAPER)
