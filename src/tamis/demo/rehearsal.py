"""Compile the kernels that the demo uses: ``python -m tamis.demo.rehearsal``.

It does in one process, with few rules and flights, what the demo does on Spark. It needs neither
Spark nor Java, so `make demo` lets it run while they are being installed.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

import tamis
from tamis.demo.alerts import alert_rules
from tamis.demo.flights import load_flights
from tamis.demo.telling import explain_flight, measure_costs
from tamis.encode.compiler.background import compile_in_place
from tamis.encode.plain import warm_up as plain_kernels

__all__ = ["rehearse"]

_SIZE = 4_000


def rehearse() -> None:
    """Build an index, open it, match flights in a batch, and tell what the report tells."""
    flights = load_flights(_SIZE)
    rules = dict(alert_rules(flights, _SIZE, seed=1))
    table = pa.table({"id": list(rules), "rule": list(rules.values())})
    with compile_in_place(), TemporaryDirectory() as folder:
        # Few rules are read without them.
        plain_kernels.is_compiled()
        path = Path(folder) / "index"
        with tamis.open(path) as matcher:
            matcher.add_many(table)
        with tamis.open(path, read_only=True) as matcher:
            matcher.match_many(flights, form="lists")
            explain_flight(matcher, flights.slice(0, 1).to_pylist()[0])
            measure_costs(matcher, flights)


if __name__ == "__main__":
    rehearse()
