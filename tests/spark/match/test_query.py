"""Errors in events, options or an index are raised before a job starts."""

from __future__ import annotations

import json
import pydoc
import subprocess
import sys
import textwrap
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

import tamis
from tamis import spark as ts
from tamis.errors import EventError, SchemaError, StorageError
from tamis.spark.match.event_columns import choose_columns
from tamis.spark.match.options import MatchKeywords, MatchOptions
from tamis.spark.match.query import prepare_query
from tamis.spark.match.shard_groups import group_shards
from tests.spark.indexes import publish_rules

pytestmark = pytest.mark.usefixtures("spark")
"""Spark parses types only while there is a session."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bad") / "index"
    publish_rules(
        path, [("r1", "price > 10 AND home.city = 'Nice'"), ("r2", "name = 'x'")], shards=2
    )
    return path


def read(ddl: str) -> StructType:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def columns(ddl: str, **options):
    """Choose columns for rules on price, name and home.city."""
    names = frozenset(["price", "name", "home.city"])
    return choose_columns(read(ddl), options.get("keys"), options.get("events"), names)


def prepare(index: Path, ddl: str, ask="match", n: int = 0, **options):
    return prepare_query(read(ddl), index, ask, MatchOptions(**options), n=n)


def test_only_attributes_that_rules_mention_are_sent() -> None:
    chosen = columns("id int, price int, PRICE int, home struct<city: string>, homes int")
    assert [field.name for _, field in chosen.fields] == ["price", "home"]
    chosen = columns("id int, e struct<a: int, name: string, `home.city`: string>", events="e")
    assert [field.name for _, field in chosen.fields] == ["name", "home.city"]


@pytest.mark.parametrize(
    ("ddl", "keys"),
    [
        ("id int, event int", ["id"]),
        ("event int, event_id int", ["event_id"]),
        ("id map<int, int>, event int", ["event"]),
    ],
)
def test_keys_have_a_default(ddl: str, keys: list[str]) -> None:
    schema = read(ddl)
    assert [schema.names[place] for place in columns(ddl).keys] == keys


@pytest.mark.parametrize(
    ("ddl", "options", "message"),
    [
        ("a int, b int", {}, r"pass keys=.*the columns are a, b"),
        ("id int, price int", {"keys": "key"}, "no column 'key'; the columns are id, price"),
        ("id int, price int", {"events": ["prize"]}, "no column 'prize'"),
        ("id int, price int", {"events": "price"}, r"events='price' has the type int"),
        ("id int, m map<int, int>", {"events": "m"}, r"map<int,int>.*maps from strings"),
        ("id int, price int, price int", {}, "2 columns are called 'price'; rename"),
    ],
)
def test_bad_event_columns_are_named(ddl: str, options, message: str) -> None:
    with pytest.raises(EventError, match=message):
        columns(ddl, **options)


@pytest.mark.parametrize(
    ("ddl", "options", "column"),
    [
        ("id int, price binary", {}, "'price' has the type binary"),
        ("id int, e struct<price: binary>", {"events": "e"}, "'price'"),
        ("id int, home struct<city: array<binary>>", {}, "'home.city' has the type binary"),
        ("id int, price interval day", {}, "'price'"),
        ("id int, price variant", {}, "'price'"),
        ("id int, m map<string, binary>", {"events": "m"}, "'m' has the type binary"),
    ],
)
def test_types_that_rules_cannot_compare_are_refused(
    index: Path, ddl: str, options, column: str
) -> None:
    with pytest.raises(EventError, match=f"column {column}.*cast it"):
        prepare(index, ddl, **options)


def test_types_of_other_columns_do_not_matter(index: Path) -> None:
    prepare(index, "id int, name string, total binary, home struct<zip: binary, city: string>")


def test_a_column_that_contradicts_the_schema_is_refused(tmp_path: Path) -> None:
    publish_rules(tmp_path / "index", [(1, "price > 3")], schema={"price": "double"})
    with pytest.raises(
        SchemaError, match="'price' is declared as double, but the column is string"
    ):
        prepare(tmp_path / "index", "id int, price string")


@pytest.mark.parametrize(
    ("ask", "key"), [("match", "rule"), ("counts", "Matches"), ("top", "rank")]
)
def test_a_key_named_like_an_answer_is_refused(index: Path, ask: str, key: str) -> None:
    with pytest.raises(EventError, match=f"already have a column '{key}'; rename"):
        prepare(index, f"{key} int, name string", keys=key, ask=ask)


def test_columns_that_no_rule_mentions_give_a_warning(index: Path) -> None:
    with pytest.warns(UserWarning, match="no rule mentions any of the columns id, payload"):
        prepare(index, "id int, payload string")


@pytest.mark.parametrize("n", [-1, 1.5, True])
def test_n_is_a_whole_number(index: Path, n) -> None:
    with pytest.raises(ValueError, match="whole number"):
        prepare(index, "id int, name string", ask="top", n=n)


def test_a_missing_index_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no such index"):
        prepare(tmp_path / "nowhere", "id int, name string")


def test_an_unknown_version_is_reported(index: Path) -> None:
    with pytest.raises(StorageError, match="there is no version 7; the versions are 1"):
        prepare(index, "id int, name string", version=7)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    version = publish_rules(tmp_path / "index", [(1, "a = 1")])
    manifest = Path(version.folder) / "VERSION.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(StorageError, match="format 99"):
        prepare(tmp_path / "index", "id int, a int")


def test_a_missing_shard_is_reported(tmp_path: Path) -> None:
    version = publish_rules(tmp_path / "index", [(1, "a = 1")])
    Path(version.shards[0].path).rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="ship=True"):
        prepare(tmp_path / "index", "id int, a int")


def test_a_worker_without_address_space_names_the_setting(tmp_path: Path) -> None:
    version = publish_rules(
        tmp_path / "index", [(i, f"a = {i} AND b = 'b{i}'") for i in range(20_000)]
    )
    script = f"""
        import resource
        from pathlib import Path
        from tamis.engines.registry import load_engine
        from tamis.spark.match.worker import ShardName, open_shards

        load_engine("auto")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 100_000, used + 100_000))
        open_shards((ShardName({str(version.shards[0].path)!r}, ""),))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert "spark.executor.pyspark.memory" in done.stderr


def test_bad_json_is_quoted(spark, index: Path) -> None:
    frame = spark.createDataFrame([(1, '{"price": '), (2, "{}")], "id int, text string")
    with pytest.raises(EventError, match=r"the event is not JSON: .*price"):
        ts.match(frame, index, events="text").collect()


def test_a_stream_cannot_be_matched_in_shards(spark, index: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "'x' AS name")
    with pytest.raises(EventError, match="foreachBatch"):
        ts.match(stream, index, plan="sharded")


def count_groups(index: Path, **options) -> int:
    return len(group_shards(ts.current(index), MatchOptions(**options)))


def test_the_plan_goes_by_size(index: Path) -> None:
    version = ts.current(index)
    size = max(shard.bytes for shard in version.shards)
    assert len(version.shards) == 2
    assert count_groups(index) == 1
    assert count_groups(index, memory=4 * size) == 1
    assert count_groups(index, memory=size) == 2
    assert count_groups(index, plan="sharded") == 2
    assert count_groups(index, plan="sharded", memory=4 * size) == 1
    assert count_groups(index, plan="whole", memory=1) == 1
    with pytest.raises(ValueError, match="plan is"):
        MatchOptions(plan="half")  # type: ignore[arg-type]


def test_memory_is_a_number_of_bytes() -> None:
    sizes: list[int | str] = [5, "7", "8g", "16 MB", "2K"]
    assert [MatchOptions(memory=size).memory_bytes for size in sizes] == [
        5,
        7,
        8 << 30,
        16 << 20,
        2 << 10,
    ]
    for wrong in (0, -1, "many", True, 1.5):
        with pytest.raises(ValueError, match="'8g'"):
            MatchOptions(memory=wrong)  # type: ignore[arg-type]


def test_options_are_the_keyword_arguments_of_match() -> None:
    keywords = [
        parameter
        for parameter in signature(ts.match).parameters.values()
        # The form is that of the answers of `match` alone.
        if parameter.kind == parameter.KEYWORD_ONLY and parameter.name != "form"
    ]
    names = [parameter.name for parameter in keywords]
    assert names == [field.name for field in fields(MatchOptions)]
    assert set(names) == set(MatchKeywords.__annotations__)
    assert [p.default for p in keywords] == [field.default for field in fields(MatchOptions)]


def test_threads_can_be_set() -> None:
    matcher = tamis.Matcher()
    matcher.add_many([(i, f"a = {i}") for i in range(10)])
    events = [{"a": i % 12} for i in range(3_000)]
    wanted = matcher.match_many(events)
    try:
        tamis.set_threads(1)
        assert matcher.match_many(events).equals(wanted)
    finally:
        tamis.set_threads(None)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="at least 1"):
            tamis.set_threads(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [ts.match, ts.top, ts.counts, ts.matcher, ts.match_stream])
def test_help_lists_the_options_of_every_function(function: Any) -> None:
    parameters = signature(function).parameters
    expected = {"keys", "events", "plan", "memory", "ship"}
    assert expected <= parameters.keys()
    assert ("version" in parameters) is (function is not ts.match_stream)
    assert not [p for p in parameters.values() if p.kind is p.VAR_KEYWORD]
    assert "**options" not in pydoc.plain(pydoc.render_doc(function)).splitlines()[2]
