"""An index for Spark: what it takes to build, and what each further shard costs.

- *build* (with ``--build``): `tamis.spark.build` of text rules in Parquet under ``local[2]``, from
  the call to the published version: seconds, CPU seconds of all processes (JVM and Python
  workers), and the most memory that they had together, without what is mapped from files.
- *shards*: the same rules in 1, 2, 4 and 8 shards, each with an engine of its own; CPU time an
  event of `match_many` with batches of 10,000 events, and of encoding the events for all shards.
  One process, one thread.

Rules and events are those of the BE-Tree paper, of which 0.01 % match.

Usage: python benchmarks/bench_shards.py [--quick] [--build] [--rules N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from report import RESULTS, Row, save, show

import tamis
from tamis.workloads import begen

BATCH = 10_000
SHARDS = (1, 2, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    parser.add_argument("--build", action="store_true", help="build with Spark, too")
    parser.add_argument("--rules", type=int, default=1_000_000)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    args = parser.parse_args()
    size = 2_000 if args.quick else args.rules
    workload = begen.Workload(size=size, match_probability=0.0001)
    rules = workload.rules_table()
    figures: Row = {}
    if args.build:
        figures["build"] = [measure_build(rules)]
        show(f"Build of {size:,} rules", figures["build"])
    events = workload.events_table(500 if args.quick else 4 * BATCH)
    figures["shards"] = [measure_shards(rules, events, count) for count in SHARDS]
    show(f"Matching by {size:,} rules in shards", figures["shards"])
    save("bench_shards", figures, args.results)


def measure_shards(rules: pa.Table, events: pa.Table, count: int) -> Row:
    numbers = np.arange(len(rules)) % count
    matchers = []
    for shard in range(count):
        matcher = tamis.Matcher()
        matcher.add_many(rules.filter(pa.array(numbers == shard)))
        matcher.match_many(events.slice(0, 100))
        matchers.append(matcher)
    batches = events.to_batches(max_chunksize=BATCH)
    begin = process_time()
    found = sum(len(m.match_many(batch)) for batch in batches for m in matchers)
    matching = process_time() - begin
    segments = [view.segment for m in matchers for view in m._snapshot.frozen_views]
    begin = process_time()
    for batch in batches:
        for segment in segments:
            segment.encode_chunk(batch, 0)
    encoding = process_time() - begin
    return {
        "shards": count,
        "us_match": 1e6 * matching / len(events),
        "us_encode": 1e6 * encoding / len(events),
        "matches": found,
    }


def measure_build(rules: pa.Table) -> Row:
    from tamis import spark as ts

    with tempfile.TemporaryDirectory() as name:
        file, index = Path(name, "rules.parquet"), Path(name, "index")
        pq.write_table(rules, file, row_group_size=100_000)
        session = ts.local_session(2)
        table = session.read.parquet(str(file))
        watch = Watch()
        begin, before = perf_counter(), use_of_all().cpu
        version = ts.build(table, index)
        seconds, cpu = perf_counter() - begin, use_of_all().cpu - before
        watch.stop()
        session.stop()
    return {
        "rules": version.rules,
        "shards": len(version.shards),
        "seconds": seconds,
        "cpu_s": cpu,
        "peak_mb": watch.peak / 2**20,
        "index_mb": sum(shard.bytes for shard in version.shards) / 2**20,
    }


class Use(NamedTuple):
    """What this process and all that it started use."""

    memory: int
    """Bytes, without what is mapped from files; shared pages count once."""
    cpu: float
    """Seconds."""


def use_of_all() -> Use:
    """Linux only."""
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            stats[int(entry.name)] = text.rpartition(")")[2].split()
    mine = {os.getpid()}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in mine} - mine:
        mine |= more
    ticks = sum(int(field) for pid in mine & stats.keys() for field in stats[pid][11:15])
    return Use(sum(map(anonymous, mine)), ticks / os.sysconf("SC_CLK_TCK"))


def anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon"))


class Watch:
    """Looks every second at how much memory is used."""

    def __init__(self) -> None:
        self.peak = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._end.wait(1):
            self.peak = max(self.peak, use_of_all().memory)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


if __name__ == "__main__":
    main()
