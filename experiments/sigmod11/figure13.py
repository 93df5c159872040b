"""Figure 13: one workload is exchanged for another and back, under events of both kinds.

After each tenth the tree observes the events, and is measured beside a new tree of the same
expressions.

Usage: python -m experiments.sigmod11.figure13 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings, encode_rules, summarize, time_in_turns
from experiments.sigmod11.measure import DISTRIBUTIONS, LOGIC, select_rows
from experiments.sigmod11.page import PAPER
from experiments.sigmod11.trees import Both, insert, match_call, new_tree
from tamis.encode.arrays import Events
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules
from tamis.engines.betree import BeTree
from tamis.workloads.begen import Workload

STEPS = 10
"""The number of steps in which one workload is exchanged for the other."""

PROBABILITY = 0.001
"""As in the paper."""


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for first, second in (DISTRIBUTIONS, DISTRIBUTIONS[::-1]):
        rows += exchange(first, second, settings)
    return Figure(
        "figure13",
        f"Figure 13: exchanged workloads, {settings.rules:,} rules",
        "exchanged",
        "expressions exchanged, % of a workload",
        rows,
        [
            claim
            for way in dict.fromkeys(row["way"] for row in rows)
            for claim in state_claims(rows, way)
        ],
        scale=100,
        panels="way",
        batch=1,
    )


def exchange(first: str, second: str, settings: Settings) -> list[Row]:
    workloads = [
        Workload(settings.rules, distribution=name, match_probability=PROBABILITY)  # type: ignore[arg-type]
        for name in (first, second)
    ]
    both = Both(*workloads)
    rules, _ = encode_rules(both, LOGIC)
    encoder = EventEncoder(rules)
    known = both.events(settings.events)
    events, together = [encoder.encode(event) for event in known], encoder.encode_many(known)
    old = np.arange(settings.rules)
    new = old + settings.rules
    tree = new_tree(rules)
    insert(tree, rules, old)
    about = {"way": f"{first}, {second}, {first}"}
    rows = [about | row for row in compare_with_new_tree(tree, [old], 0.0, rules, events, settings)]
    for back, (leaving, coming) in enumerate(((old, new), (new, old))):
        for step in range(1, STEPS + 1):
            end = settings.rules * step // STEPS
            begin = settings.rules * (step - 1) // STEPS
            tree.delete_many(leaving[begin:end])
            insert(tree, rules, coming[begin:end])
            tree.observe(together)
            present = [part for part in (leaving[end:], coming[:end]) if len(part)]
            place = back + step / STEPS
            found = compare_with_new_tree(tree, present, place, rules, events, settings)
            rows += [about | row for row in found]
    return rows


def compare_with_new_tree(
    tree: BeTree,
    present: list[NDArray[np.int64]],
    place: float,
    rules: EncodedRules,
    events: list[Events],
    settings: Settings,
) -> list[Row]:
    """Measure the tree beside a new one of the same expressions."""
    fresh = new_tree(rules)
    for part in present:
        insert(fresh, rules, part)
    calls = [match_call(tree), match_call(fresh)]
    taken, found = time_in_turns(calls, events, settings.seconds / STEPS)
    return [
        {
            "exchanged": place,
            "engine": name,
            "matches": float(found.mean() / settings.rules),
            **summarize(times),
        }
        for name, times in zip(("betree", "betree-fresh"), taken, strict=True)
    ]


def state_claims(rows: list[Row], way: str) -> list[Claim]:
    times = {
        name: {row["exchanged"]: row["ms"] for row in select_rows(rows, way=way, engine=name)}
        for name in ("betree", "betree-fresh")
    }
    ratios = {place: ms / times["betree-fresh"][place] for place, ms in times["betree"].items()}
    begin, end = times["betree"][0.0], times["betree"][2.0]
    return [
        Claim(
            f"{way}: the tree at the end against itself at first", "near 1", f"{end / begin:.2f} ×"
        ),
        Claim(f"{way}: at the end against a new tree", "-", f"{ratios[2.0]:.2f} ×"),
        Claim(f"{way}: at worst against a new tree", "-", f"{max(ratios.values()):.2f} ×"),
    ]


if __name__ == "__main__":
    run(make, PAPER)
