"""One file of rules means the same on every road: in process, by the command, and on Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import tamis
from tamis import spark as ts
from tamis.cli import app
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import flatten
from tamis.files.rule_reader import load_rules
from tamis.spark.job.config import read_config
from tamis.spark.job.pipeline import run_pipeline
from tests.json_spelling import spell_events
from tests.road_cases import OF_NUMBERS, draw_event, draw_guarded, draw_rule, to_json_event
from tests.spark.cluster import environment
from tests.spark.connect_port import connect_port
from tests.spark.documents import published
from tests.spark.indexes import publish_rules

Pairs: TypeAlias = list[tuple[int, str]]

RULES: list[dict[str, Any]] = [
    {"id": "cheap", "rule": "price < 10", "priority": 3, "tags": ["low", "all"]},
    {"id": "ended", "rule": "price < 10", "priority": 9, "valid_until": "2020-01-01T00:00:00"},
    {"id": "future", "rule": "price < 10", "priority": 8, "valid_from": "2998-01-01T00:00:00"},
    {
        "id": "summer",
        "rule": "price >= 5",
        "priority": 5,
        "valid_from": "2024-06-01T00:00:00+02:00",
        "valid_until": "2024-09-01T00:00:00",
        "tags": ["all"],
    },
    {"id": "weak", "rule": "city <> 'Paris'", "logic": "weak", "priority": 1},
    {"id": "strong", "rule": "city <> 'Paris'", "priority": -1, "payload": {"owner": "Ana"}},
    {
        "id": "tree",
        "rule": {"or": [{"attr": "city", "=": "Nice"}, {"attr": "price", ">": 40}]},
        "weights": [["city", "Nice", 2.5], ["price > 40", 0.5]],
        "tags": ["low"],
        "priority": 2,
    },
    {"id": "any", "rule": "TRUE", "priority": -(2**63)},
]
"""Everything that a rule may have; all priorities differ, so that an order is expected."""

EVENTS: list[dict[str, Any]] = [
    {"id": n, "price": price, "city": city, "at": f"2024-{1 + n % 12:02d}-15T12:00:00"}
    for n, (price, city) in enumerate(
        (price, city) for price in (None, 3.0, 7.5, 50.0) for city in (None, "Paris", "Nice")
    )
]
NOW = datetime(2024, 7, 1, tzinfo=UTC)
"""When all roads have to answer; "summer" is valid then."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rules as JSON lines, and the events as JSON lines and Parquet."""
    folder = tmp_path_factory.mktemp("same")
    for name, lines in (("rules", RULES), ("events", EVENTS)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
    pq.write_table(event_table(), folder / "events.parquet")
    return folder


def event_table() -> pa.Table:
    times = [datetime.fromisoformat(event["at"]).replace(tzinfo=UTC) for event in EVENTS]
    return pa.table(
        {
            "id": pa.array([event["id"] for event in EVENTS], pa.int64()),
            "price": pa.array([event["price"] for event in EVENTS], pa.float64()),
            "city": pa.array([event["city"] for event in EVENTS], pa.string()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def matcher(folder: Path) -> tamis.Matcher:
    matcher = tamis.Matcher()
    assert not load_rules(matcher, str(folder / "rules.jsonl")).bad
    return matcher


@pytest.fixture(scope="module")
def index(spark: SparkSession, folder: Path) -> Path:
    """The index that the pipeline builds from the file of rules, in two shards."""
    job = """
        [rules]
        path = "rules.jsonl"
        [index]
        path = "index"
        shards = 2
    """
    (folder / "job.toml").write_text(textwrap.dedent(job))
    outcome = run_pipeline(read_config(folder / "job.toml"), spark=spark)
    assert (outcome.version.rules, outcome.version.bad) == (len(RULES), 0)
    return folder / "index"


def pairs(frame: Any) -> Pairs:
    return sorted((row["id"], row["rule"]) for row in frame.collect())


def expect(matcher: tamis.Matcher, **options: Any) -> Pairs:
    found = [(e["id"], str(rule)) for e in EVENTS for rule in matcher.match(e, **options)]
    assert found
    return sorted(found)


def by_command(spark: SparkSession, folder: Path, _: Path) -> Pairs:
    out = folder / "command.jsonl"
    arguments = ["match", folder / "rules.jsonl", folder / "events.jsonl", "-o", out]
    done = CliRunner().invoke(app, [*map(str, arguments), "--at", NOW.isoformat()])
    assert done.exit_code == 0, done.output
    lines = map(json.loads, out.read_text().splitlines())
    return sorted((line["event"], rule) for line in lines for rule in line["rules"])


def by_table(spark: SparkSession, folder: Path, index: Path) -> Pairs:
    return pairs(ts.match(spark.read.parquet(str(folder / "events.parquet")), index, at=NOW))


def by_shards(spark: SparkSession, folder: Path, index: Path) -> Pairs:
    events = spark.read.parquet(str(folder / "events.parquet"))
    return pairs(ts.match(events, index, at=NOW, plan="sharded"))


def by_json(spark: SparkSession, folder: Path, index: Path) -> Pairs:
    events = spark.read.parquet(str(folder / "events.parquet"))
    texts = events.selectExpr("id", "to_json(struct(price, city)) AS event")
    return pairs(ts.match(texts, index, events="event", at=NOW))


def by_sql(spark: SparkSession, folder: Path, index: Path) -> Pairs:
    spark.read.parquet(str(folder / "events.parquet")).createOrReplaceTempView("same")
    ts.register(spark, index, "same_match", keys="id BIGINT", at=NOW)
    return pairs(spark.sql("SELECT * FROM same_match(TABLE(same))"))


def by_files(spark: SparkSession, folder: Path, index: Path) -> Pairs:
    return pairs(ts.match_files(spark, folder / "events.parquet", index, at=NOW))


def by_stream(spark: SparkSession, folder: Path, index: Path) -> Pairs:
    source = folder / "stream"
    source.mkdir()
    pq.write_table(event_table(), source / "part.parquet")
    schema = spark.read.parquet(str(source)).schema
    query = ts.match_stream(
        spark.readStream.schema(schema).parquet(str(source)),
        index,
        output=folder / "streamed",
        checkpoint=folder / "checkpoint",
        trigger="availableNow",
        at=NOW,
    )
    query.awaitTermination()
    return pairs(spark.read.parquet(str(folder / "streamed")))


ROADS: list[Callable[[SparkSession, Path, Path], Pairs]] = [
    by_command, by_table, by_shards, by_json, by_sql, by_files, by_stream,
]  # fmt: skip


@pytest.mark.parametrize("road", ROADS, ids=[road.__name__ for road in ROADS])
def test_every_road_finds_the_same_rules(
    spark: SparkSession,
    folder: Path,
    index: Path,
    matcher: tamis.Matcher,
    road: Callable[[SparkSession, Path, Path], Pairs],
) -> None:
    assert road(spark, folder, index) == expect(matcher, at=NOW)


EXPRESSIONS = [
    "price BETWEEN 4 AND 6",
    "city IN ('Nice', 'Rome')",
    "price > 60 OR city = 'Paris'",
    "price = 7.5 AND city <> 'Nice'",
]
"""Partially known events; what each could match is asked on every road."""

CHOSEN = [(0, "strong"), (3, "cheap"), (4, "weak"), (7, "tree"), (10, "ended"), (11, "summer")]
"""Pairs of event and rule to explain, some of which match."""


def expect_expressions(matcher: tamis.Matcher) -> Pairs:
    found = [
        (number, str(rule))
        for number, text in enumerate(EXPRESSIONS)
        for rule in matcher.match_expression(text, at=NOW)
    ]
    assert len(found) > len(EXPRESSIONS)
    return sorted(found)


def expressions_table(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(list(enumerate(EXPRESSIONS)), "id long, expression string")


@pytest.mark.parametrize("plan", ["whole", "sharded"])
def test_expressions_match_the_same_rules(
    spark: SparkSession, index: Path, matcher: tamis.Matcher, plan: Any
) -> None:
    table = expressions_table(spark)
    found = ts.match_expression(table, index, at=NOW, plan=plan)
    assert pairs(found) == expect_expressions(matcher)


def test_expressions_match_the_same_rules_in_sql(
    spark: SparkSession, index: Path, matcher: tamis.Matcher
) -> None:
    expressions_table(spark).createOrReplaceTempView("expressions")
    ts.register(
        spark, index, "same_expressions", ask="match_expression", events="expression",
        keys="id BIGINT", at=NOW,
    )  # fmt: skip
    found = spark.sql("SELECT * FROM same_expressions(TABLE(expressions))")
    assert pairs(found) == expect_expressions(matcher)


def test_refused_expressions_are_left_out_by_all_shards(
    spark: SparkSession, index: Path, matcher: tamis.Matcher
) -> None:
    bad = [(10, "price >"), (11, None), (12, "city LIKE '%x%'")]
    table = expressions_table(spark).union(spark.createDataFrame(bad, "id long, expression string"))
    refused = {row["id"]: row["error"] for row in ts.refused(
        table, index, expressions="expression"
    ).collect()}  # fmt: skip
    assert set(refused) == {10, 11, 12}
    found = ts.match_expression(table, index, at=NOW, on_error="skip", plan="sharded")
    assert pairs(found) == expect_expressions(matcher)
    with pytest.raises((PySparkException, tamis.TamisError), match="character"):
        ts.match_expression(table, index, at=NOW).collect()
    with pytest.raises(TypeError, match="leave out events="):
        ts.match_expression(table, index, events="expression")
    with pytest.raises(tamis.EventError, match="has to hold expressions"):
        ts.match_expression(table.selectExpr("id", "struct(id) AS expression"), index)


Explained: TypeAlias = list[tuple[Any, ...]]


def expect_explained(matcher: tamis.Matcher, ask: str, style: str) -> Explained:
    write = str if style == "text" else lambda found: json.dumps(found.to_json(), sort_keys=True)
    expected: Explained = []
    for id, rule in CHOSEN:
        if ask == "explain":
            explained = matcher.explain(rule, EVENTS[id])
            expected.append((id, rule, explained.held, write(explained)))
        else:
            obstacles = matcher.why_not(rule, EVENTS[id], at=NOW)
            matches = rule in matcher.match(EVENTS[id], at=NOW)
            expected.append((id, rule, matches, write(obstacles)))
    return sorted(expected)


def expect_why(matcher: tamis.Matcher) -> Explained:
    return sorted(
        (event["id"], str(rule), str(found))
        for event in EVENTS
        for rule, found in matcher.why(event, at=NOW).items()
    )


def chosen_pairs(spark: SparkSession) -> DataFrame:
    # Other columns and repeated pairs make no difference.
    rows = [(rule, "?", id) for id, rule in [*CHOSEN, CHOSEN[0]]]
    return spark.createDataFrame(rows, "rule string, price string, id long")


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize("form", ["columns", "json", "sql"])
def test_explanations_are_the_same(
    spark: SparkSession, folder: Path, index: Path, matcher: tamis.Matcher, form: str, style: Any
) -> None:
    events = spark.read.parquet(str(folder / "events.parquet"))
    asks: list[tuple[Any, Callable[..., DataFrame]]]
    asks = [("explain", ts.explain), ("why_not", ts.why_not)]
    for ask, function in asks:
        if form == "sql":
            events.join(chosen_pairs(spark).select("id", "rule"), "id").distinct(
            ).createOrReplaceTempView("chosen")  # fmt: skip
            ts.register(spark, index, "explained", ask=ask, keys="id BIGINT", at=NOW, style=style)
            answers = spark.sql("SELECT * FROM explained(TABLE(chosen))")
        elif form == "json":
            texts = events.selectExpr("id", "to_json(struct(*)) AS event")
            answers = function(
                texts, index, chosen_pairs(spark), events="event", at=NOW, style=style
            )
        else:
            answers = function(events, index, chosen_pairs(spark), at=NOW, style=style)
        assert answers.columns == ["id", "rule", "matches", "explanation"]
        rows = [tuple(row) for row in answers.collect()]
        if style == "json":
            rows = [(*row[:3], json.dumps(json.loads(row[3]), sort_keys=True)) for row in rows]
        assert sorted(rows) == expect_explained(matcher, ask, style)


def test_why_explains_every_match(
    spark: SparkSession, folder: Path, index: Path, matcher: tamis.Matcher
) -> None:
    events = spark.read.parquet(str(folder / "events.parquet"))
    found = ts.why(events, index, at=NOW)
    assert sorted(map(tuple, found.collect())) == expect_why(matcher)
    events.createOrReplaceTempView("same")
    ts.register(spark, index, "same_why", ask="why", keys="id BIGINT", at=NOW)
    found = spark.sql("SELECT * FROM same_why(TABLE(same))")
    assert sorted(map(tuple, found.collect())) == expect_why(matcher)


def test_pairs_of_unknown_rules_are_refused_or_left_out(
    spark: SparkSession, folder: Path, index: Path
) -> None:
    events = spark.read.parquet(str(folder / "events.parquet"))
    unknown = spark.createDataFrame([(0, "strong"), (1, "no such")], "id long, rule string")
    with pytest.raises((PySparkException, tamis.TamisError), match="no such"):
        ts.explain(events, index, unknown).collect()
    found = ts.explain(events, index, unknown, on_error="skip").collect()
    assert [(row["id"], row["rule"]) for row in found] == [(0, "strong")]
    with pytest.raises(tamis.EventError, match="no column 'rule'"):
        ts.explain(events, index, unknown.select("id"))
    with pytest.raises(ValueError, match="style is"):
        ts.why(events, index, style="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize("plan", ["whole", "sharded"])
def test_lists_have_the_same_rules(
    spark: SparkSession, folder: Path, index: Path, matcher: tamis.Matcher, plan: Any
) -> None:
    events = spark.read.parquet(str(folder / "events.parquet"))
    expected = {e["id"]: sorted(matcher.match(e, at=NOW, only=["cheap", "tree"])) for e in EVENTS}
    assert [] in expected.values()
    texts = events.selectExpr("id", "to_json(struct(*)) AS event")
    for table, column in ((events, None), (texts, "event")):
        found = ts.match(
            table, index, events=column, at=NOW, only=["cheap", "tree"], form="lists", plan=plan
        )
        assert found.columns == ["id", "rules"]
        assert {row["id"]: sorted(row["rules"]) for row in found.collect()} == expected
    with pytest.raises(ValueError, match="form is"):
        ts.match(events, index, form="sets")  # type: ignore[arg-type]


CONNECT = """
    import sys
    from datetime import datetime
    from pyspark.sql import SparkSession
    from tamis import spark as ts

    events, index, at, out = sys.argv[1:]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert type(spark).__module__ == "pyspark.sql.connect.session"
    now = datetime.fromisoformat(at)
    found = ts.match(spark.read.parquet(events), index, at=now).toPandas()
    # Relative to the folder of this process, which is not that of the workers.
    files = ts.match_files(spark, "events.parquet", index, at=now).toPandas()
    found.assign(road="table").to_json(out + "/table.json", orient="records")
    files.assign(road="files").to_json(out + "/files.json", orient="records")
    texts = spark.read.json(index + "/../expressions.jsonl")
    partial = ts.match_expression(texts, index, at=now).toPandas()
    partial.to_json(out + "/expressions.json", orient="records")
    events = spark.read.parquet(events)
    chosen = spark.read.json(index + "/../chosen.jsonl")
    for ask in (ts.explain, ts.why_not):
        explained = ask(events, index, chosen, at=now).toPandas()
        explained.to_json(out + "/" + ask.__name__ + ".json", orient="records")
    ts.why(events, index, at=now).toPandas().to_json(out + "/why.json", orient="records")
    malformed = spark.createDataFrame([(7, "{")], "id long, event string")
    try:
        ts.match(malformed, index, events="event").collect()
    except Exception as error:
        print(type(error).__name__, error)
    spark.stop()
"""


@pytest.mark.slow
def test_spark_connect_finds_the_same_rules(
    folder: Path, index: Path, matcher: tamis.Matcher, tmp_path: Path
) -> None:
    arguments = [str(folder / "events.parquet"), str(index), NOW.isoformat(), str(tmp_path)]
    texts = [{"id": id, "expression": text} for id, text in enumerate(EXPRESSIONS)]
    chosen = [{"id": id, "rule": rule} for id, rule in CHOSEN]
    for name, lines in (("expressions", texts), ("chosen", chosen)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with connect_port():
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(CONNECT), *arguments],
            env=environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    for name in ("table", "files"):
        rows = json.loads((tmp_path / f"{name}.json").read_text())
        assert sorted((row["id"], row["rule"]) for row in rows) == expect(matcher, at=NOW)
    rows = json.loads((tmp_path / "expressions.json").read_text())
    assert sorted((row["id"], row["rule"]) for row in rows) == expect_expressions(matcher)
    rows = json.loads((tmp_path / "why.json").read_text())
    assert sorted(tuple(row.values()) for row in rows) == expect_why(matcher)
    # What an executor raised, on one line.
    (refused,) = done.stdout.splitlines()
    assert refused.startswith("EventError event id=7: ")
    for ask in ("explain", "why_not"):
        rows = json.loads((tmp_path / f"{ask}.json").read_text())
        assert sorted(tuple(row.values()) for row in rows) == expect_explained(matcher, ask, "text")


def test_each_event_may_have_its_own_time(
    spark: SparkSession, folder: Path, index: Path, matcher: tamis.Matcher
) -> None:
    events = spark.read.parquet(str(folder / "events.parquet"))
    expected = sorted(
        (e["id"], rule)
        for e in EVENTS
        for rule in matcher.match(e, at=datetime.fromisoformat(e["at"]).replace(tzinfo=UTC))
    )
    assert expected != expect(matcher, at=NOW)
    assert pairs(ts.match(events, index, at="at")) == expected
    assert pairs(ts.match(events, index, at="at", plan="sharded")) == expected
    counted = {row["id"]: row["matches"] for row in ts.counts(events, index, at="at").collect()}
    assert counted == {e["id"]: sum(id == e["id"] for id, _ in expected) for e in EVENTS}


def test_times_may_lie_outside_of_all_datetimes(spark: SparkSession, index: Path) -> None:
    events = spark.sql(
        "SELECT 1 AS id, 3.0D AS price, timestamp_micros(9000000000000000000) AS at "
        "UNION ALL SELECT 2, 3.0D, timestamp_micros(-9000000000000000000) "
        "UNION ALL SELECT 3, 3.0D, NULL"
    )
    found = pairs(ts.match(events, index, at="at", only=["ended", "future", "cheap"]))
    assert found == [(1, "cheap"), (1, "future"), (2, "cheap"), (2, "ended"), (3, "cheap")]


@pytest.mark.parametrize("plan", ["whole", "sharded"])
def test_first_counts_top_and_only(
    spark: SparkSession, folder: Path, index: Path, matcher: tamis.Matcher, plan: Any
) -> None:
    events = spark.read.parquet(str(folder / "events.parquet"))
    first = ts.first(events, index, 2, at=NOW, plan=plan).collect()
    assert sorted((r["id"], r["rank"], r["rule"], r["priority"]) for r in first) == sorted(
        (e["id"], rank, rule, matcher.rule(rule).priority)
        for e in EVENTS
        for rank, rule in enumerate(matcher.first(e, 2, at=NOW), 1)
    )
    low = tamis.tagged("low")
    assert pairs(ts.match(events, index, at=NOW, only=low, plan=plan)) == expect(
        matcher, at=NOW, only=low
    )
    best = ts.top(events, index, 1, at=NOW, only=["tree"], plan=plan).collect()
    assert sorted((r["id"], r["rule"], r["score"]) for r in best) == sorted(
        (e["id"], rule, score)
        for e in EVENTS
        for rule, score in matcher.top(e, 1, at=NOW, only=["tree"])
    )
    counted = ts.counts(events, index, at=NOW, only=iter(["cheap", "weak"]), plan=plan).collect()
    expected = expect(matcher, at=NOW, only=["cheap", "weak"])
    assert {r["id"]: r["matches"] for r in counted} == {
        e["id"]: sum(id == e["id"] for id, _ in expected) for e in EVENTS
    }


def test_files_are_matched_in_shards(
    spark: SparkSession, folder: Path, index: Path, matcher: tamis.Matcher
) -> None:
    files = folder / "events.parquet"
    options: dict[str, Any] = {"at": NOW, "plan": "sharded"}
    assert pairs(ts.match_files(spark, files, index, **options)) == expect(matcher, at=NOW)
    lists = ts.match_files(spark, files, index, form="lists", **options).collect()
    assert {row["id"]: sorted(row["rules"]) for row in lists} == {
        e["id"]: sorted(matcher.match(e, at=NOW)) for e in EVENTS
    }
    counted = ts.match_files(spark, files, index, ask="counts", **options).collect()
    assert {row["id"]: row["matches"] for row in counted} == {
        e["id"]: len(matcher.match(e, at=NOW)) for e in EVENTS
    }
    first = ts.match_files(spark, files, index, ask="first", n=2, **options).collect()
    assert sorted((r["id"], r["rank"], r["rule"]) for r in first) == sorted(
        (e["id"], rank, rule)
        for e in EVENTS
        for rank, rule in enumerate(matcher.first(e, 2, at=NOW), 1)
    )


def test_batches_of_first_equal_single_calls(matcher: tamis.Matcher) -> None:
    found = matcher.first_many(event_table(), 3, at=NOW).to_pylist()
    assert [(row["event"], row["rank"], row["rule"], row["priority"]) for row in found] == [
        (e["id"], rank, rule, matcher.rule(rule).priority)
        for e in EVENTS
        for rank, rule in enumerate(matcher.first(e, 3, at=NOW), 1)
    ]


def test_an_index_that_is_built_anew_is_read_anew(spark: SparkSession, tmp_path: Path) -> None:
    """Workers keep shards open; a path does not say what is there now."""
    events = spark.createDataFrame([(1, 1)], "id long, x long")
    for text, expected in (("x = 1", [(1, "a")]), ("x = 2", [])):
        for file in sorted(tmp_path.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        rules = spark.createDataFrame([("a", text)], "id string, rule string")
        ts.build(rules, tmp_path / "index")
        assert pairs(ts.match(events, tmp_path / "index")) == expected


def test_an_update_and_the_quarantine_carry_everything(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id string, rule string, priority string, valid_until date, tags array<string>"
    day = datetime(2020, 1, 1, tzinfo=UTC).date()
    rules = spark.createDataFrame(
        [("a", "x = 1", "7", day, ["t"]), ("bad", "x =", "5", day, ["u"])], schema
    )
    version = ts.build(rules, tmp_path / "index")
    with tamis.open(version.shards[0].path, read_only=True) as matcher:
        rule = matcher.rule("a")
    assert (rule.priority, rule.valid_until) == (7, datetime(2020, 1, 1, tzinfo=UTC))
    changes = spark.createDataFrame([("a", "x = 2", "8", None, ["v"])], schema)
    updated = ts.update(tmp_path / "index", changes, delete=None)
    with tamis.open(updated.shards[0].path, read_only=True) as matcher:
        rule = matcher.rule("a")
    assert (rule.priority, rule.valid_until, rule.tags) == (8, None, frozenset({"v"}))
    refused = spark.read.parquet(str(updated.quarantine))
    assert [row.asDict() for row in refused.drop("message", "position").collect()] == [
        {
            "id": "bad", "rule": "x =", "logic": None, "weights": None, "payload": None,
            "tags": ["u"], "priority": "5", "valid_from": None, "subscription": None,
            "valid_until": "2020-01-01 00:00:00.000000",
        }
    ]  # fmt: skip
    # What was repaired goes in as it is.
    repaired = refused.selectExpr("* EXCEPT (rule, message, position)", "'x = 3' AS rule")
    last = ts.update(tmp_path / "index", repaired, delete=None)
    assert (last.rules, last.bad) == (2, 0)


def test_bad_columns_say_how_to_leave_them_out(spark: SparkSession, tmp_path: Path) -> None:
    rules = spark.createDataFrame(
        [("a", "x = 1", True)], "id string, rule string, priority boolean"
    )
    with pytest.raises(tamis.RuleError, match="pass priority=None if the column means something"):
        ts.build(rules, tmp_path / "index")
    assert ts.build(rules, tmp_path / "index", priority=None).rules == 1
    events = spark.createDataFrame([(1, 1)], "id long, x long")
    with pytest.raises(tamis.EventError, match="no column 'when' for at="):
        ts.match(events, tmp_path / "index", at="when")
    with pytest.raises(tamis.EventError, match="has to hold timestamps"):
        ts.match(events, tmp_path / "index", at="x")


JSON_ROWS = 1_100
"""More texts than a worker reads without kernels."""


@pytest.fixture(scope="module")
def json_events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index and 1,100 events of one partition, as JSON texts; each is spelled in its own way."""
    folder, random = tmp_path_factory.mktemp("texts"), Random(41)
    rules = [(n, draw_guarded(random, OF_NUMBERS)) for n in range(40)]
    rules += [(n, draw_rule(random)) for n in range(40, 50)]
    publish_rules(folder / "index", rules, shards=2)
    events = [to_json_event(draw_event(random)) for _ in range(JSON_ROWS)]
    texts = [text.decode() for text in spell_events(events)]
    columns = {"id": range(JSON_ROWS), "doc": texts, "raw": [text.encode() for text in texts]}
    pq.write_table(pa.table(columns), folder / "events.parquet")
    matches = [
        (number, id)
        for number, flat in enumerate(map(flatten, events))
        for id, rule in [(id, tamis.parse(text)) for id, text in rules]
        if evaluate_flat(rule, flat, "strong") is True
    ]
    (folder / "expected.json").write_text(json.dumps(sorted(matches)))
    return folder


@pytest.mark.parametrize("column", ["doc", "raw"])
@pytest.mark.parametrize("road", ["table", "sharded", "sql", "files"])
def test_texts_of_json_match_the_same_rules(
    spark: SparkSession, json_events: Path, road: str, column: str
) -> None:
    path, index = json_events / "events.parquet", json_events / "index"
    options: dict[str, Any] = {"events": column, "keys": "id"}
    events = spark.read.parquet(str(path)).coalesce(1)
    if road == "files":
        found = ts.match_files(spark, path, index, **options)
    elif road == "sql":
        events.createOrReplaceTempView("texts")
        ts.register(spark, index, "match_texts", events=column, keys="id BIGINT")
        found = spark.sql(f"SELECT * FROM match_texts(TABLE(SELECT id, {column} FROM texts))")
    else:
        found = ts.match(events, index, plan="sharded" if road == "sharded" else "whole", **options)
    expected = json.loads((json_events / "expected.json").read_text())
    assert len(expected) > JSON_ROWS
    assert sorted([row["id"], row["rule"]] for row in found.collect()) == expected


def test_a_column_of_numbers_is_no_event_in_sql(spark: SparkSession, json_events: Path) -> None:
    ts.register(spark, json_events / "index", "match_numbers", events="id", keys="id BIGINT")
    spark.range(3).createOrReplaceTempView("numbers")
    with pytest.raises((PySparkException, tamis.TamisError), match="events='id' has the type"):
        spark.sql("SELECT * FROM match_numbers(TABLE(numbers))").collect()


@pytest.mark.parametrize(
    "rules", [published.BY_USER, published.OF_ALL], ids=["by user", "one group"]
)
def test_every_road_forgets_the_same_documents(
    spark: SparkSession, tmp_path: Path, rules: list[tuple[str, str]]
) -> None:
    events = published.make_late_events(120)
    publish_rules(tmp_path / "index", rules, shards=2)
    table = spark.createDataFrame([tuple(event.values()) for event in events], published.SCHEMA)
    published.write_files(tmp_path / "events", events, 3)
    by_time = tamis.Retention(age=600, by="at")
    plain = published.expect(rules, events)
    for retention in (tamis.Retention(count=9), by_time, tamis.Retention(7, 600, "at")):
        expected = published.expect(rules, events, retention)
        assert expected != plain

        def answers(stream: DataFrame, retention: tamis.Retention = retention) -> DataFrame:
            return ts.publish(stream, tmp_path / "index", order="id", retention=retention)

        assert published.found(answers(table)) == expected
        folder = tmp_path / f"{retention.count} {retention.by}"
        folder.mkdir()
        (folder / "events").symlink_to(tmp_path / "events")
        assert published.found(published.run_stream(spark, folder, answers)) == expected
    # In the order of the times, groups need not see each other.
    by_user = ("user",) if rules is published.BY_USER else ()
    in_order = ts.publish(
        table, tmp_path / "index", order=["at", "id"], retention=by_time, by=by_user
    )
    events.sort(key=lambda e: (e["at"] or published.START - timedelta(days=1), e["id"]))
    assert published.found(in_order) == published.expect(rules, events, by_time)
