"""What the engines are measured on: rules and events from generators, and from the world."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import tamis
from tamis.expr.model import Expr, Logic
from tamis.workloads import ads, begen, nested
from tests.real.neutral import (
    UNSUPPORTED,
    debian_rule,
    operators,
    read_lines,
    sigma_event,
    sigma_rule,
)

TOP = Path(__file__).resolve().parents[1]

BATCH = 10_000
"""The rows of a batch."""
EVENTS = 2_000
"""The events that are matched one by one, at most."""

Events = list[dict[str, Any]]


class Load(NamedTuple):
    """The rules and events of a scenario."""

    rules: pa.Table
    """With the columns id and rule."""
    events: Events
    batch: pa.Table | Events
    """An Arrow table where events are flat, else mappings."""


class Scenario(NamedTuple):
    """A kind of load."""

    title: str
    load: Callable[[int], Load]
    """Makes it with about as many rules; a real load has as many as it has."""
    logic: Logic = "strong"


class NotAtHand(Exception):
    """The data of a scenario is not on this machine."""


Workload = begen.Workload | ads.Workload | nested.Workload


def generated(make: Callable[[int], Workload]) -> Callable[[int], Load]:
    def load(size: int) -> Load:
        workload = make(size)
        events = workload.events_table(BATCH)
        return Load(workload.rules_table(), workload.events(EVENTS), events)

    return load


def of_begen(**parameters: Any) -> Callable[[int], Load]:
    return generated(lambda size: begen.Workload(size=size, **parameters))


def debian(_: int) -> Load:
    folder = data_folder()
    rules = {r["id"]: debian_rule(r["ast"]) for r in read_lines(folder / "debian_rules.jsonl.gz")}
    events = [machine["attrs"] for machine in read_lines(folder / "debian_events.jsonl.gz")]
    return Load(table(rules), events, events)


def sigma(_: int) -> Load:
    folder = data_folder()
    with gzip.open(folder / "sigma_windows_rules.json.gz", "rt", encoding="utf-8") as file:
        corpus = json.load(file)
    rules = {r["id"]: sigma_rule(r["ast"]) for r in corpus if not operators(r["ast"]) & UNSUPPORTED}
    events: Events = [sigma_event(e) for e in read_lines(folder / "windows_events.jsonl.gz")]
    return Load(table(rules), events[::5], events)


def data_folder() -> Path:
    folder = Path(os.environ.get("TAMIS_DATA", TOP.parent / "shared" / "data"))
    if not folder.is_dir():
        raise NotAtHand(
            f"the real rules and events are not in {folder}; TAMIS_DATA says where else"
        )
    return folder


def table(rules: dict[str, Expr]) -> pa.Table:
    return pa.table({"id": list(rules), "rule": [tamis.to_sql(rule) for rule in rules.values()]})


SCENARIOS = {
    "begen-0.01": Scenario("BEGen, 0.01 % match", of_begen(match_probability=0.0001)),
    "begen-0.1": Scenario("BEGen, 0.1 % match", of_begen(match_probability=0.001)),
    "begen-1": Scenario("BEGen, 1 % match", of_begen(match_probability=0.01)),
    "begen-9": Scenario("BEGen, 9 % match", of_begen(match_probability=1 / 11)),
    "zipf": Scenario("BEGen, attributes by Zipf's law, 1 % match", of_begen(distribution="zipf")),
    "equality": Scenario("BEGen, equality only, 1 % match", of_begen(operators="min")),
    "cardinality": Scenario(
        "BEGen, 150,000 values an attribute, 0.1 % match",
        of_begen(cardinality=150_000, match_probability=0.001),
    ),
    "unclustered": Scenario("BEGen without base events", of_begen(clustered=False)),
    "ads": Scenario(
        "advertising, DNF, 10 % NOT IN", generated(lambda size: ads.Workload(size)), "weak"
    ),
    # A tenth of the rules: each is some five conjunctions, and costs a parse of its own.
    "nested": Scenario("nested, 1 % match", generated(lambda size: nested.Workload(size // 10))),
    "debian": Scenario("dependencies of Debian packages on 60 machines", debian, "weak"),
    "sigma": Scenario("Sigma's detection rules on Windows events", sigma, "weak"),
}
