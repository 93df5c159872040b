"""Measures what rules and events cost on Spark in CPU time, for the page docs/reference/sizing.md.

CPU time of all processes together (the driver, the JVM and the Python workers) says what a core has
to do, whatever else runs on the machine. The workload is that of the BE-Tree paper: 400 attributes,
0.01 % of the rules match an event; events are maps in Parquet.

- *build*: CPU per rule to parse, build and write, and the bytes of a rule in the index;
- *open*: CPU to open and verify the index, once a process;
- *match*: CPU per event, for an index of one shard and of several with the same rules, and for
  events alone, read and thrown away. The second run is taken;
- *write*: CPU and bytes per match written as Parquet, beyond matching.

Usage: python -m benchmarks.bench_sizing [--quick] [--rules N] [--events N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from benchmarks.bench_spark import ROW_GROUP, discard, to_maps
from benchmarks.report import RESULTS, Row, save, show
from tamis import spark as ts
from tamis.workloads.begen import Workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=1_000_000, help="how many rules")
    parser.add_argument("--events", type=int, default=300_000, help="how many events")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4], help="of the index")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    if args.quick:
        args.rules = args.events = 2_000
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), args)
    show(f"CPU time of {args.rules:,} rules and {args.events:,} events", rows)
    save("bench_sizing", {"rules": args.rules, "events": args.events, "rows": rows}, args.results)


def measure(folder: Path, args: argparse.Namespace) -> list[Row]:
    workload = Workload(size=args.rules, match_probability=0.0001)
    pq.write_table(workload.rules_table(), folder / "rules.parquet", row_group_size=ROW_GROUP)
    maps = to_maps(workload.events_table(args.events))
    maps = maps.add_column(0, "id", pa.array(range(args.events), pa.int64()))
    pq.write_table(maps, folder / "events.parquet", row_group_size=ROW_GROUP)
    spark = ts.local_session(2, memory="2g")
    rules = spark.read.parquet(str(folder / "rules.parquet"))
    events = spark.read.parquet(str(folder / "events.parquet"))
    rows: list[Row] = []

    def add(what: str, shards: int, seconds: float, count: int, size: float | None = None) -> None:
        micros = 1e6 * seconds / count
        row = {"what": what, "shards": shards, "count": count, "µs each": micros}
        rows.append({**row, "bytes each": size})
        print(f"{what}, {shards} shards: {micros:.3g} µs", file=sys.stderr)

    size = (folder / "events.parquet").stat().st_size
    add("read an event", 0, measure_tree(lambda: discard(events)), args.events, size / args.events)
    for shards in args.shards:
        index = folder / f"index-{shards}"
        seconds = cpu_of(lambda: ts.build(rules, index, shards=shards))  # noqa: B023
        stored = sum(shard.bytes for shard in ts.current(index).shards)
        add("build a rule", shards, seconds, args.rules, stored / args.rules)
        add("open a rule", shards, measure_open(index), args.rules)
        matches = ts.match(events, index, keys="id", events="event", plan="whole")
        matching = measure_tree(lambda: discard(matches))  # noqa: B023
        add("match an event", shards, matching, args.events)
    output = folder / "matches"
    seconds = cpu_of(lambda: matches.write.parquet(str(output))) - matching
    found = spark.read.parquet(str(output)).count()
    written = sum(file.stat().st_size for file in output.glob("*.parquet"))
    add("write a match", 0, max(seconds, 0.0), max(found, 1), written / max(found, 1))
    spark.stop()
    return rows


def measure_open(index: Path) -> float:
    """CPU seconds to open and verify all shards of an index."""
    started = process_time()
    for shard in ts.current(index).shards:
        tamis.open(shard.path, read_only=True).close()
    return process_time() - started


def measure_tree(call: Callable[[], Any]) -> float:
    """CPU seconds of the second call: the first one loads, maps and compiles."""
    call()
    return cpu_of(call)


def cpu_of(call: Callable[[], Any]) -> float:
    """CPU seconds that a call takes in this process and in all that it has started."""
    before = read_cpu()
    call()
    return read_cpu() - before


def read_cpu() -> float:
    """The CPU seconds of this process and of its descendants, dead children included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        seconds[int(entry.name)] = sum(map(int, fields[11:15])) / tick
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(seconds[process] for process in ours)


if __name__ == "__main__":
    main()
