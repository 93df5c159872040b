"""Matching on Spark: events a second, beside the engine in one process and what Spark has itself.

- *roads*: rules and events of the BE-Tree paper (0.01 % match), the events as Parquet. Events a
  second of `match` and `counts` in this process (`Matcher.match_many` and `count_many`, the file
  read in batches, all cores), and on Spark with 1 core and with 2: a column of maps, one column an
  attribute (of 400 attributes an event has 15), a column of JSON texts, and the fast road that
  reads the files on the executors. `times` is the time as a multiple of that in this process. The
  aim is at most 2. Answers go nowhere (Spark's sink ``noop``); what Spark needs to start does not
  count: each query runs twice, and the second time is taken;
- *rivals*: what one would write with Spark alone, on rules of equalities only, at sizes that it
  survives: a join on one predicate of each rule, with the rest checked on what it leaves (the
  honest rival); a join on every predicate, and a count of those that hold by event and rule; one
  generated expression a rule. All of them give the same matches, which is checked.

Usage: python -m benchmarks.bench_spark [--quick] [--rules N] [--events N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

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
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    parser.add_argument("--rules", type=int, default=1_000_000, help="how many rules")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many events")
    parser.add_argument("--slow-events", type=int, default=200_000, help="as columns and as JSON")
    parser.add_argument("--shards", type=int, default=1, help="of the index")
    parser.add_argument("--rivals", type=int, default=10_000, help="how many rules rivals have")
    parser.add_argument("--expressions", type=int, default=500, help="one expression a rule")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], help="of Spark")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    args = parser.parse_args()
    if args.quick:
        args.rules = args.events = args.slow_events = 2_000
        args.rivals, args.expressions, args.cores = 200, 20, [1]
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), args)
        roads = measure_here(data)
        build_seconds = 0.0
        for cores in args.cores:
            spark = ts.local_session(cores, memory="3g")
            if not build_seconds:
                build_seconds = data.build(spark)
            roads += measure_roads(spark, data, cores)
            rivals = measure_rivals(spark, args) if cores == args.cores[-1] else []
            spark.stop()
    compare(roads)
    show(f"{args.rules:,} rules in {args.shards} shards, built in {build_seconds:.0f} s", roads)
    show(f"Rivals: {args.rivals:,} rules × {args.rivals:,} events", rivals)
    sizes = {"rules": args.rules, "shards": args.shards, "build_s": build_seconds}
    save("bench_spark", {**sizes, "roads": roads, "rivals": rivals}, args.results)


class Data:
    """The workload on the disk."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.folder, self.args = folder, args
        self.workload = Workload(size=args.rules, match_probability=0.0001)
        self.index = folder / "index"
        self.maps = self._write("maps", args.events, as_maps)
        self.columns = self._write("columns", args.slow_events, lambda table: table)
        self.texts = self._write("texts", args.slow_events, as_texts)

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
        """Build the index; how long it took."""
        rules = self.folder / "rules.parquet"
        pq.write_table(self.workload.rules_table(), rules, row_group_size=ROW_GROUP)
        start = perf_counter()
        ts.build(spark.read.parquet(str(rules)), self.index, shards=self.args.shards)
        return perf_counter() - start


def as_maps(table: pa.Table) -> pa.Table:
    """Events as maps from attribute to value."""
    cells = np.stack([column.fill_null(-1).to_numpy() for column in table.columns], axis=1)
    rows, attributes = np.nonzero(cells >= 0)
    starts = np.searchsorted(rows, np.arange(table.num_rows + 1)).astype(np.int32)
    names = pa.array(table.column_names).take(pa.array(attributes))
    maps = pa.MapArray.from_arrays(starts, names, pa.array(cells[rows, attributes]))
    return pa.table({"event": maps})


def as_texts(table: pa.Table) -> pa.Table:
    """Events as JSON texts."""
    maps = as_maps(table)["event"].to_pylist(maps_as_pydicts="strict")
    return pa.table({"event": [json.dumps(row) for row in maps]})


def timed(call: Callable[[], Any]) -> float:
    """The second time: the first one loads, maps and compiles."""
    call()
    start = perf_counter()
    call()
    return perf_counter() - start


def row(road: str, ask: str, cores: int, events: int, seconds: float) -> Row:
    return {
        "road": road,
        "ask": ask,
        "cores": cores,
        "events": events,
        "seconds": seconds,
        "events/s": events / seconds,
    }


def measure_here(data: Data) -> list[Row]:
    """The engine in this process, over the file of maps and the file of columns."""
    with tamis.Matcher() as matcher:
        matcher.add_many(data.workload.rules_table())
        matcher.optimize()
        rows = []
        for path, size in ((data.maps, data.args.events), (data.columns, data.args.slow_events)):
            for ask, method in (("match", matcher.match_many), ("counts", matcher.count_many)):
                for threads in data.args.cores:
                    tamis.set_threads(threads)
                    seconds = timed(lambda: [None for _ in method(reader(path))])  # noqa: B023
                    rows.append(row(f"in process, {path.stem}", ask, threads, size, seconds))
    tamis.set_threads(None)
    return rows


def reader(path: Path) -> pa.RecordBatchReader:
    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name != "id"]

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in file.iter_batches(ROW_GROUP, columns=names):
            yield batch.rename_columns([""]) if names == ["event"] else batch

    first = file.schema_arrow.remove(0)
    schema = first if names != ["event"] else pa.schema([pa.field("", first.types[0])])
    return pa.RecordBatchReader.from_batches(schema, batches())


def measure_roads(spark: SparkSession, data: Data, cores: int) -> list[Row]:
    args, rows = data.args, []

    def note(road: str, ask: str, events: int, answers: Callable[[], DataFrame]) -> None:
        rows.append(row(road, ask, cores, events, timed(lambda: sink(answers()))))

    asks: tuple[tuple[Literal["match", "counts"], Callable[..., DataFrame]], ...]
    asks = ("match", ts.match), ("counts", ts.counts)
    for ask, function in asks:
        maps, columns, texts = (
            spark.read.parquet(str(path)) for path in (data.maps, data.columns, data.texts)
        )
        note("maps", ask, args.events, lambda: function(maps, data.index, events="event"))  # noqa: B023
        note("columns", ask, args.slow_events, lambda: function(columns, data.index))  # noqa: B023
        note("JSON", ask, args.slow_events, lambda: function(texts, data.index, events="event"))  # noqa: B023
        note(
            "files of maps",
            ask,
            args.events,
            lambda: ts.match_files(spark, data.maps, data.index, ask=ask, events="event"),  # noqa: B023
        )
        note(
            "files of columns",
            ask,
            args.slow_events,
            lambda: ts.match_files(spark, data.columns, data.index, ask=ask),  # noqa: B023
        )
    return rows


def sink(answers: DataFrame) -> None:
    answers.write.format("noop").mode("overwrite").save()


def compare(roads: list[Row]) -> None:
    """Note each road's time as a multiple of that in this process, with as many threads."""
    here = {
        (r["ask"], r["cores"], r["road"].endswith("maps")): r["events/s"]
        for r in roads
        if r["road"].startswith("in process")
    }
    for r in roads:
        base = here[r["ask"], r["cores"], not r["road"].endswith("columns")]
        r["times"] = base / r["events/s"]


def measure_rivals(spark: SparkSession, args: argparse.Namespace) -> list[Row]:
    """Rules of equalities; all rivals read the same tables, which are in memory."""
    workload = Workload(size=args.rivals, match_probability=0.001, equality=1.0, operators="min")
    texts = workload.rules_table()
    predicates = spark.createDataFrame(predicates_of(texts).to_pandas()).cache()
    maps = as_maps(workload.events_table(args.rivals))
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
        asked: list[tuple[str, int, Callable[[], DataFrame]]] = [
            ("tamis", args.rivals, lambda: ts.match(events, folder + "/index", events="event")),
            ("one access predicate", args.rivals, lambda: join_one(events, predicates)),
            ("all predicates, counted", args.rivals, lambda: join_all(events, predicates)),
            ("an expression a rule", args.expressions, lambda: expressions(flat, few)),
        ]
        rows, matches = [], {}
        for name, rules, query in asked:
            matches[name] = query().count()
            seconds = timed(lambda: sink(query()))  # noqa: B023
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
        if found != (expected, expected) or matches["an expression a rule"] != first.count():
            raise SystemExit(f"the rivals disagree: {matches}")
    for row in rows:
        row["times tamis"] = rows[0]["events/s"] / row["events/s"]
    return rows


def predicates_of(rules: pa.Table) -> pa.Table:
    """A row for each predicate of each rule, with how many the rule has; access marks one."""
    rows: list[Row] = []
    for number, text in zip(rules["id"].to_pylist(), rules["rule"].to_pylist(), strict=True):
        parts = sorted(part.split(" = ") for part in text.split(" AND "))
        # The last one by name is of the rarer attributes.
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


def join_one(events: DataFrame, predicates: DataFrame) -> DataFrame:
    """Candidates by one predicate of each rule; the others are checked on the event's map."""
    rest = predicates.groupBy("rule").agg(
        F.map_from_entries(F.collect_list(F.struct("attribute", "value"))).alias("all")
    )
    access = predicates.where("access").join(rest, "rule")
    parts = events.select("id", "event", F.explode("event").alias("attribute", "value"))
    found = parts.join(F.broadcast(access), ["attribute", "value"])
    holds = F.forall(F.map_entries("all"), lambda p: F.col("event")[p["key"]] == p["value"])
    return found.where(holds).select("id", "rule")


def join_all(events: DataFrame, predicates: DataFrame) -> DataFrame:
    """How many predicates of each rule hold for each event; all of them is a match."""
    parts = events.select("id", F.explode("event").alias("attribute", "value"))
    found = parts.join(F.broadcast(predicates), ["attribute", "value"])
    counted = found.groupBy("id", "rule", "size").count()
    return counted.where("count = size").select("id", "rule")


def expressions(events: DataFrame, rules: pa.Table) -> DataFrame:
    """Each rule as a column of its own."""
    pairs = zip(rules["id"].to_pylist(), rules["rule"].to_pylist(), strict=True)
    cases = F.array(*(F.when(F.expr(text), F.lit(number)) for number, text in pairs))
    return events.select("id", F.explode(F.array_compact(cases)).alias("rule"))


if __name__ == "__main__":
    main()
