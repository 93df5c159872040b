"""The rules and events that the engines are measured on, generated and real."""

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
    build_debian_rule,
    build_sigma_rule,
    convert_sigma_event,
    list_operators,
    read_lines,
)

TOP = Path(__file__).resolve().parents[1]

BATCH = 10_000
"""The number of rows of a batch."""
EVENTS = 2_000
"""The largest number of events that are matched one by one."""

Events = list[dict[str, Any]]


class Load(NamedTuple):
    """The rules and events of a scenario."""

    rules: pa.Table
    """A table with the columns id and rule."""
    events: Events
    batch: pa.Table | Events
    """An Arrow table if the events are flat, else mappings."""


class Scenario(NamedTuple):
    """A kind of load."""

    title: str
    load: Callable[[int], Load]
    """Generates a load with about that many rules; a real load has a fixed number."""
    logic: Logic = "strong"


class DataMissing(Exception):
    """The data of a scenario is missing on this machine."""


Workload = begen.Workload | ads.Workload | nested.Workload


def generate_with(make: Callable[[int], Workload]) -> Callable[[int], Load]:
    def load(size: int) -> Load:
        workload = make(size)
        events = workload.events_table(BATCH)
        return Load(workload.rules_table(), workload.events(EVENTS), events)

    return load


def begen_with(**parameters: Any) -> Callable[[int], Load]:
    return generate_with(lambda size: begen.Workload(size=size, **parameters))


def debian(_: int) -> Load:
    folder = find_data_folder()
    rules = {
        r["id"]: build_debian_rule(r["ast"]) for r in read_lines(folder / "debian_rules.jsonl.gz")
    }
    events = [machine["attrs"] for machine in read_lines(folder / "debian_events.jsonl.gz")]
    return Load(build_table(rules), events, events)


def sigma(_: int) -> Load:
    folder = find_data_folder()
    with gzip.open(folder / "sigma_windows_rules.json.gz", "rt", encoding="utf-8") as file:
        corpus = json.load(file)
    rules = {
        r["id"]: build_sigma_rule(r["ast"])
        for r in corpus
        if not list_operators(r["ast"]) & UNSUPPORTED
    }
    events: Events = [
        convert_sigma_event(e) for e in read_lines(folder / "windows_events.jsonl.gz")
    ]
    return Load(build_table(rules), events[::5], events)


def find_data_folder() -> Path:
    folder = Path(os.environ.get("TAMIS_DATA", TOP.parent / "shared" / "data"))
    if not folder.is_dir():
        raise DataMissing(
            f"the real rules and events are not in {folder}; set TAMIS_DATA to their folder"
        )
    return folder


def build_table(rules: dict[str, Expr]) -> pa.Table:
    return pa.table({"id": list(rules), "rule": [tamis.to_sql(rule) for rule in rules.values()]})


SCENARIOS = {
    "begen-0.01": Scenario("BEGen, 0.01 % match", begen_with(match_probability=0.0001)),
    "begen-0.1": Scenario("BEGen, 0.1 % match", begen_with(match_probability=0.001)),
    "begen-1": Scenario("BEGen, 1 % match", begen_with(match_probability=0.01)),
    "begen-9": Scenario("BEGen, 9 % match", begen_with(match_probability=1 / 11)),
    "zipf": Scenario("BEGen, attributes by Zipf's law, 1 % match", begen_with(distribution="zipf")),
    "equality": Scenario("BEGen, equality only, 1 % match", begen_with(operators="min")),
    "cardinality": Scenario(
        "BEGen, 150,000 values an attribute, 0.1 % match",
        begen_with(cardinality=150_000, match_probability=0.001),
    ),
    "unclustered": Scenario("BEGen without base events", begen_with(clustered=False)),
    "ads": Scenario(
        "advertising, DNF, 10 % NOT IN", generate_with(lambda size: ads.Workload(size)), "weak"
    ),
    "ads-cnf": Scenario(
        "advertising, CNF, 10 % NOT IN",
        generate_with(lambda size: ads.Workload(size, form="cnf", months=6)),
        "weak",
    ),
    # A tenth of the rules: each has some five conjunctions and is parsed by itself.
    "nested": Scenario(
        "nested, 1 % match", generate_with(lambda size: nested.Workload(size // 10))
    ),
    "debian": Scenario("dependencies of Debian packages on 60 machines", debian, "weak"),
    "sigma": Scenario("Sigma's detection rules on Windows events", sigma, "weak"),
}
