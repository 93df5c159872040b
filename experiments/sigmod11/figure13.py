"""Figure 13: one workload is exchanged for another, and back, under events of both kinds.

After each tenth the tree observes the events, and is measured beside a tree that was made of the
same expressions just then.

Usage: python -m experiments.sigmod11.figure13 [--quick] [--rules N] [--events N]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measuring import Row, Settings, encoded, in_turns, summary
from experiments.sigmod11.measuring import DISTRIBUTIONS, LOGIC, chosen
from experiments.sigmod11.page import PAPER
from experiments.sigmod11.trees import Both, insert, match_call, new_tree
from tamis.encode.arrays import Events
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules
from tamis.engines.betree import BeTree
from tamis.workloads.begen import Workload

TURNS = 10
"""In how many steps one workload is exchanged for the other."""

PROBABILITY = 0.001
"""The paper's."""


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
        [claim for way in dict.fromkeys(row["way"] for row in rows) for claim in claims(rows, way)],
        scale=100,
        panels="way",
    )


def exchange(first: str, second: str, settings: Settings) -> list[Row]:
    workloads = [
        Workload(settings.rules, distribution=name, match_probability=PROBABILITY)  # type: ignore[arg-type]
        for name in (first, second)
    ]
    both = Both(*workloads)
    rules, _ = encoded(both, LOGIC)
    encoder = EventEncoder(rules)
    known = both.events(settings.events)
    events, together = [encoder.encode(event) for event in known], encoder.encode_many(known)
    old = np.arange(settings.rules)
    new = old + settings.rules
    tree = new_tree(rules)
    insert(tree, rules, old)
    about = {"way": f"{first}, {second}, {first}"}
    rows = [about | row for row in beside_a_new_one(tree, [old], 0.0, rules, events, settings)]
    for back, (leaving, coming) in enumerate(((old, new), (new, old))):
        for turn in range(1, TURNS + 1):
            end = settings.rules * turn // TURNS
            begin = settings.rules * (turn - 1) // TURNS
            tree.delete_many(leaving[begin:end])
            insert(tree, rules, coming[begin:end])
            tree.observe(together)
            held = [part for part in (leaving[end:], coming[:end]) if len(part)]
            place = back + turn / TURNS
            found = beside_a_new_one(tree, held, place, rules, events, settings)
            rows += [about | row for row in found]
    return rows


def beside_a_new_one(
    tree: BeTree,
    held: list[NDArray[np.int64]],
    place: float,
    rules: EncodedRules,
    events: list[Events],
    settings: Settings,
) -> list[Row]:
    """The times of the tree, and of one that is made now of the expressions that it holds."""
    fresh = new_tree(rules)
    for part in held:
        insert(fresh, rules, part)
    calls = [match_call(tree), match_call(fresh)]
    taken, found = in_turns(calls, events, settings.seconds / TURNS)
    return [
        {
            "exchanged": place,
            "engine": name,
            "matches": float(found.mean() / settings.rules),
            **summary(times),
        }
        for name, times in zip(("betree", "betree-fresh"), taken, strict=True)
    ]


def claims(rows: list[Row], way: str) -> list[Claim]:
    times = {
        name: {row["exchanged"]: row["ms"] for row in chosen(rows, way=way, engine=name)}
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
