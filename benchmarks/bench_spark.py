"""Measures matching on Spark beside the engine in one process, and beside Spark alone.

- *inputs*: rules and events of the BE-Tree paper (0.01 % match), the events as Parquet. Events per
  second of `match` in pairs and in lists (a list of rules for each event) and of `counts` in this
  process (`Matcher.match_many` and `count_many`, the file read in batches, all cores), and on Spark
  with 1 core and with 2: a column of maps, one column per attribute (of 400 attributes an event has
  15), a column of JSON texts, and files that the executors read themselves. `times` is the time as
  a multiple of that in this process; the aims are 1.2 for maps, 1.5 for JSON and 2 for columns.
  Answers are discarded (Spark's sink ``noop``). The start of Spark does not count: each query runs
  twice, and the second time is taken. `cpu µs` is the processor time of an event in all processes,
  the JVM and its workers included, and `cpu times` the same as a multiple of that in this process:
  it also means something on a machine that does other work;
- *rivals*: solutions with Spark alone, on rules of equalities only, at sizes that it survives: a
  join on one predicate of each rule, with the rest checked on its results (the fair rival); a join
  on every predicate, and a count of those that hold by event and rule; one generated expression per
  rule. All of them give the same matches, which is checked.

Usage: python -m benchmarks.bench_spark [--quick] [--asks match] [--rules N] [--events N]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tamis
from benchmarks.report import RESULTS, Row, save, show
from tamis import spark as ts
from tamis.workloads.begen import Workload

ROW_GROUP = 65_536


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=1_000_000, help="how many rules")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many events")
    parser.add_argument("--slow-events", type=int, default=200_000, help="as columns and as JSON")
    parser.add_argument("--shards", type=int, default=1, help="of the index")
    parser.add_argument("--rivals", type=int, default=10_000, help="how many rules rivals have")
    parser.add_argument("--expressions", type=int, default=500, help="how many expressions")
    parser.add_argument("--no-rivals", action="store_true", help="leave out the rivals")
    parser.add_argument("--asks", nargs="+", default=["match", "lists", "counts"], help="which")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], help="of Spark")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    if args.quick:
        args.rules = args.events = args.slow_events = 2_000
        args.rivals, args.expressions, args.cores = 200, 20, [1]
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), args)
        inputs = measure_in_process(data)
        build_seconds = 0.0
        for cores in args.cores:
            spark = ts.local_session(cores, memory="3g")
            if not build_seconds:
                build_seconds = data.build(spark)
            inputs += measure_inputs(spark, data, cores)
            is_last = cores == args.cores[-1] and not args.no_rivals
            rivals = measure_rivals(spark, args) if is_last else []
            spark.stop()
    add_ratios(inputs)
    show(f"{args.rules:,} rules in {args.shards} shards, built in {build_seconds:.0f} s", inputs)
    if rivals:
        show(f"Rivals: {args.rivals:,} rules × {args.rivals:,} events", rivals)
    sizes = {"rules": args.rules, "shards": args.shards, "build_s": build_seconds}
    save("bench_spark", {**sizes, "inputs": inputs, "rivals": rivals}, args.results)


class Data:
    """The workload, written to the disk."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.folder, self.args = folder, args
        self.workload = Workload(size=args.rules, match_probability=0.0001)
        self.index = folder / "index"
        self.maps = self._write("maps", args.events, to_maps)
        self.columns = self._write("columns", args.slow_events, lambda table: table)
        self.texts = self._write("texts", args.slow_events, to_texts)

    def _write(self, name: str, size: int, form: Callable[[pa.Table], pa.Table]) -> Path:
        path = self.folder / f"{name}.parquet"
        events, writer = self.workload.events_table(size), None
        for first in range(0, size, ROW_GROUP):
            part = form(events.slice(first, ROW_GROUP))
            part = part.add_column(0, "id", pa.array(np.arange(first, first + part.num_rows)))
            writer = writer or pq.ParquetWriter(path, part.schema)
            writer.write_table(part)
        if writer is not None:
            writer.close()
        return path

    def build(self, spark: SparkSession) -> float:
        """Build the index, and return the seconds it took."""
        rules = self.folder / "rules.parquet"
        pq.write_table(self.workload.rules_table(), rules, row_group_size=ROW_GROUP)
        start = perf_counter()
        ts.build(spark.read.parquet(str(rules)), self.index, shards=self.args.shards)
        return perf_counter() - start


def to_maps(table: pa.Table) -> pa.Table:
    """Events as maps from attribute to value."""
    cells = np.stack([column.fill_null(-1).to_numpy() for column in table.columns], axis=1)
    rows, attributes = np.nonzero(cells >= 0)
    starts = np.searchsorted(rows, np.arange(table.num_rows + 1)).astype(np.int32)
    names = pa.array(table.column_names).take(pa.array(attributes))
    maps = pa.MapArray.from_arrays(starts, names, pa.array(cells[rows, attributes]))
    return pa.table({"event": maps})


def to_texts(table: pa.Table) -> pa.Table:
    """Events as JSON texts."""
    maps = to_maps(table)["event"].to_pylist(maps_as_pydicts="strict")
    return pa.table({"event": [json.dumps(row) for row in maps]})


class Cost(NamedTuple):
    """What a call takes, in seconds."""

    wall: float
    cpu: float
    """Of this process and all that it started."""


def time_second_call(call: Callable[[], Any]) -> Cost:
    """Measure the second call: the first one loads, maps and compiles."""
    call()
    start, cpu = perf_counter(), read_cpu_seconds()
    call()
    return Cost(perf_counter() - start, read_cpu_seconds() - cpu)


def read_cpu_seconds() -> float:
    """The processor time that this process and its living descendants have used so far."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # The process has ended.
        children.setdefault(int(fields[1]), []).append(int(file.parent.name))
        # Its own time, and that of its children that have ended.
        used[int(file.parent.name)] = sum(map(int, fields[11:15]))
    ticks, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        ticks += used.get(process, 0)
        waiting += children.get(process, [])
    return ticks / os.sysconf("SC_CLK_TCK")


def new_row(input_form: str, ask: str, cores: int, events: int, cost: Cost) -> Row:
    row: Row = {
        "input": input_form,
        "ask": ask,
        "cores": cores,
        "events": events,
        "seconds": cost.wall,
        "events/s": events / cost.wall,
        "cpu µs": 1e6 * cost.cpu / events,
    }
    print(row, file=sys.stderr, flush=True)
    return row


def measure_in_process(data: Data) -> list[Row]:
    """Measure the engine in this process, on the file of maps and the file of columns."""
    with tamis.Matcher() as matcher:
        matcher.add_many(data.workload.rules_table())
        matcher.optimize()
        rows = []
        for path, size in ((data.maps, data.args.events), (data.columns, data.args.slow_events)):
            methods: dict[str, Callable[..., Any]] = {
                "match": matcher.match_many,
                "lists": partial(matcher.match_many, form="lists"),
                "counts": matcher.count_many,
            }
            for ask in data.args.asks:
                method = methods[ask]
                for threads in data.args.cores:
                    tamis.set_threads(threads)
                    cost = time_second_call(lambda: [None for _ in method(open_reader(path))])  # noqa: B023
                    rows.append(new_row(f"in process, {path.stem}", ask, threads, size, cost))
    tamis.set_threads(None)
    return rows


def open_reader(path: Path) -> pa.RecordBatchReader:
    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name != "id"]

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in file.iter_batches(ROW_GROUP, columns=names):
            yield batch.rename_columns([""]) if names == ["event"] else batch

    first = file.schema_arrow.remove(0)
    schema = first if names != ["event"] else pa.schema([pa.field("", first.types[0])])
    return pa.RecordBatchReader.from_batches(schema, batches())


def measure_inputs(spark: SparkSession, data: Data, cores: int) -> list[Row]:
    args, rows = data.args, []

    def measure(input_form: str, ask: str, events: int, answers: Callable[[], DataFrame]) -> None:
        rows.append(
            new_row(input_form, ask, cores, events, time_second_call(lambda: discard(answers())))
        )

    asks: list[tuple[str, Callable[..., DataFrame], dict[str, Any]]] = [
        ("match", ts.match, {"ask": "match"}),
        ("lists", partial(ts.match, form="lists"), {"ask": "match", "form": "lists"}),
        ("counts", ts.counts, {"ask": "counts"}),
    ]
    for ask, function, options in asks:
        if ask not in args.asks:
            continue
        maps, columns, texts = (
            spark.read.parquet(str(path)) for path in (data.maps, data.columns, data.texts)
        )
        measure("maps", ask, args.events, lambda: function(maps, data.index, events="event"))  # noqa: B023
        measure("columns", ask, args.slow_events, lambda: function(columns, data.index))  # noqa: B023
        measure("JSON", ask, args.slow_events, lambda: function(texts, data.index, events="event"))  # noqa: B023
        measure(
            "files of maps",
            ask,
            args.events,
            lambda: ts.match_files(spark, data.maps, data.index, events="event", **options),  # noqa: B023
        )
        measure(
            "files of columns",
            ask,
            args.slow_events,
            lambda: ts.match_files(spark, data.columns, data.index, **options),  # noqa: B023
        )
    return rows


def discard(answers: DataFrame) -> None:
    answers.write.format("noop").mode("overwrite").save()


def add_ratios(inputs: list[Row]) -> None:
    """Add the time of each input as a multiple of that in this process, with as many threads."""
    here = {
        (r["ask"], r["cores"], r["input"].endswith("maps")): r
        for r in inputs
        if r["input"].startswith("in process")
    }
    for r in inputs:
        base = here[r["ask"], r["cores"], not r["input"].endswith("columns")]
        r["times"] = base["events/s"] / r["events/s"]
        r["cpu times"] = r["cpu µs"] / base["cpu µs"]


def measure_rivals(spark: SparkSession, args: argparse.Namespace) -> list[Row]:
    """Measure the rivals on rules of equalities; all read the same tables in memory."""
    workload = Workload(size=args.rivals, match_probability=0.001, equality=1.0, operators="min")
    texts = workload.rules_table()
    predicates = spark.createDataFrame(list_predicates(texts).to_pandas()).cache()
    maps = to_maps(workload.events_table(args.rivals))
    maps = maps.add_column(0, "id", pa.array(range(args.rivals), pa.int64()))
    events = spark.createDataFrame(maps).cache()
    flat = workload.events_table(args.rivals)
    flat = spark.createDataFrame(
        flat.add_column(0, "id", pa.array(range(args.rivals), pa.int64()))
    ).cache()
    for table in (predicates, events, flat):
        table.count()
    with tempfile.TemporaryDirectory() as folder:
        ts.build(spark.createDataFrame(texts), folder + "/index", shards=1)
        few = texts.slice(0, args.expressions)
        rivals: list[tuple[str, int, Callable[[], DataFrame]]] = [
            ("tamis", args.rivals, lambda: ts.match(events, folder + "/index", events="event")),
            (
                "one access predicate",
                args.rivals,
                lambda: join_access_predicate(events, predicates),
            ),
            (
                "all predicates, counted",
                args.rivals,
                lambda: join_all_predicates(events, predicates),
            ),
            ("an expression per rule", args.expressions, lambda: match_by_expressions(flat, few)),
        ]
        rows, matches = [], {}
        for name, rules, query in rivals:
            matches[name] = query().count()
            seconds = time_second_call(lambda: discard(query())).wall  # noqa: B023
            rows.append(
                {
                    "rival": name,
                    "rules": rules,
                    "matches": matches[name],
                    "seconds": seconds,
                    "events/s": args.rivals / seconds,
                }
            )
        first = ts.match(events, folder + "/index", events="event").where(
            F.col("rule") < args.expressions
        )
        expected = matches["tamis"]
        found = matches["one access predicate"], matches["all predicates, counted"]
        if found != (expected, expected) or matches["an expression per rule"] != first.count():
            raise SystemExit(f"the rivals disagree: {matches}")
    for row in rows:
        row["times tamis"] = rows[0]["events/s"] / row["events/s"]
    return rows


def list_predicates(rules: pa.Table) -> pa.Table:
    """A row for each predicate of each rule, with their number; `access` marks one of them."""
    rows: list[Row] = []
    for number, text in zip(rules["id"].to_pylist(), rules["rule"].to_pylist(), strict=True):
        parts = sorted(part.split(" = ") for part in text.split(" AND "))
        # The last name belongs to one of the rarer attributes.
        for place, (attribute, value) in enumerate(parts):
            rows.append(
                {
                    "rule": number,
                    "attribute": attribute,
                    "value": int(value),
                    "size": len(parts),
                    "access": place == len(parts) - 1,
                }
            )
    return pa.Table.from_pylist(rows)


def join_access_predicate(events: DataFrame, predicates: DataFrame) -> DataFrame:
    """Find candidates by one predicate of each rule; check the others on the event's map."""
    rest = predicates.groupBy("rule").agg(
        F.map_from_entries(F.collect_list(F.struct("attribute", "value"))).alias("all")
    )
    access = predicates.where("access").join(rest, "rule")
    parts = events.select("id", "event", F.explode("event").alias("attribute", "value"))
    found = parts.join(F.broadcast(access), ["attribute", "value"])
    holds = F.forall(F.map_entries("all"), lambda p: F.col("event")[p["key"]] == p["value"])
    return found.where(holds).select("id", "rule")


def join_all_predicates(events: DataFrame, predicates: DataFrame) -> DataFrame:
    """Count the predicates of each rule that hold for each event; all of them make a match."""
    parts = events.select("id", F.explode("event").alias("attribute", "value"))
    found = parts.join(F.broadcast(predicates), ["attribute", "value"])
    counted = found.groupBy("id", "rule", "size").count()
    return counted.where("count = size").select("id", "rule")


def match_by_expressions(events: DataFrame, rules: pa.Table) -> DataFrame:
    """Evaluate each rule as an expression of its own."""
    pairs = zip(rules["id"].to_pylist(), rules["rule"].to_pylist(), strict=True)
    cases = F.array(*(F.when(F.expr(text), F.lit(number)) for number, text in pairs))
    return events.select("id", F.explode(F.array_compact(cases)).alias("rule"))


if __name__ == "__main__":
    main()
