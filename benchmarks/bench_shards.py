"""Measures an index for Spark: its build, its use, and the cost of each further shard.

- *shards*: the same rules in 1, 2, 4 and 8 shards, each with an engine of its own; CPU time per
  event of `match_many` with batches of 10,000 events, and of encoding the events for all shards.
  One process, one thread.
- *job* (with ``--job``, instead): executors write text rules as Parquet, `tamis.spark.build` builds
  an index, and `match` uses it, each task with as many shards as fit in half of ``--memory``. For
  each step seconds, CPU seconds of all processes (JVM and Python workers), and their largest total
  memory: their own, and with the pages of mapped files.

Rules and events are those of the BE-Tree paper, of which 0.01 % match.

Usage: python -m benchmarks.bench_shards [--quick] [--rules N] [--job] [--memory SIZE]
                                         [--events N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import tamis
from benchmarks.report import RESULTS, Row, save, show
from tamis.workloads import begen
from tamis.workloads.partitioned import PartitionedTable

BATCH = 10_000
SHARDS = (1, 2, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=1_000_000)
    parser.add_argument("--job", action="store_true", help="build and match on Spark")
    parser.add_argument("--memory", default="1g", help="for the rules of a task, in the job")
    parser.add_argument("--events", type=int, default=20_000, help="of the job")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    if args.quick:
        args.rules, args.events = 2_000, 500
    workload = begen.Workload(size=args.rules, match_probability=0.0001)
    if args.job:
        figures = measure_job(workload, args.events, args.memory)
        show(f"{args.rules:,} rules and {args.events:,} events on Spark", figures["steps"])
        show("Its index", figures["index"])
        save("bench_shards_job", figures, args.results)
    else:
        rules = workload.rules_table()
        events = workload.events_table(500 if args.quick else 4 * BATCH)
        rows = [measure_shards(rules, events, count) for count in SHARDS]
        show(f"Matching {args.rules:,} rules in shards", rows)
        save("bench_shards", {"shards": rows}, args.results)


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


def measure_job(workload: begen.Workload, events: int, memory: str) -> dict[str, list[Row]]:
    from tamis import spark as ts
    from tamis.spark.generate import generate

    with tempfile.TemporaryDirectory() as name:
        rules, sent, index = (Path(name, part) for part in ("rules", "events", "index"))
        session = ts.local_session(2)
        generate(session, PartitionedTable(workload, events), sent)
        with watch_step("generate") as generating:
            generate(session, PartitionedTable(workload), rules)
        with watch_step("build") as building:
            version = ts.build(session.read.parquet(str(rules)), index)
        with watch_step("match") as matching:
            table = session.read.parquet(str(sent))
            found = ts.match(table, index, plan="sharded", memory=memory).count()
        session.stop()
    size = sum(shard.bytes for shard in version.shards) / 2**20
    built = {"rules": version.rules, "shards": len(version.shards), "mb": size, "matches": found}
    return {"steps": [generating, building, matching], "index": [built]}


@contextmanager
def watch_step(step: str) -> Iterator[Row]:
    """Measure a step; the row is complete when it has ended."""
    row: Row = {"step": step}
    watch = Watch()
    begin, before = perf_counter(), measure_use().cpu
    try:
        yield row
        row["seconds"] = perf_counter() - begin
        row["cpu_s"] = measure_use().cpu - before
    finally:
        watch.stop()
    row["own_mb"] = watch.own / 2**20
    row["with_files_mb"] = watch.with_files / 2**20


class Use(NamedTuple):
    """The resources that this process and its descendants use; shared pages count once."""

    own: int
    """Bytes, without mapped files."""
    with_files: int
    """Bytes, with the resident pages of mapped files."""
    cpu: float
    """Seconds."""


def measure_use() -> Use:
    """Add up the use of this process and its descendants; Linux only."""
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
    memory = [read_memory(pid) for pid in mine]
    own, with_files = (sum(sizes) for sizes in zip(*memory, strict=True))
    return Use(own, with_files, ticks / os.sysconf("SC_CLK_TCK"))


def read_memory(pid: int) -> tuple[int, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines[1:]}
    return sizes["Pss_Anon"], sizes["Pss"]


class Watch:
    """Records the largest memory use, every second."""

    def __init__(self) -> None:
        self.own = self.with_files = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while True:
            use = measure_use()
            self.own = max(self.own, use.own)
            self.with_files = max(self.with_files, use.with_files)
            if self._end.wait(1):
                return

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


if __name__ == "__main__":
    main()
