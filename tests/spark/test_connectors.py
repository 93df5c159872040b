"""Connectors that are missing, and an Iceberg table by its Python package."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis import spark as ts
from tamis.spark.connectors import connector_errors, name_driver


@pytest.mark.parametrize(
    ("name", "message", "package"),
    [
        ("kafka", "Failed to find data source: kafka.", "spark-sql-kafka-0-10_2.13:4.3.0"),
        ("delta", "[DATA_SOURCE_NOT_FOUND] …", "io.delta:delta-spark_4.3_2.13:"),
        ("iceberg", "Cannot find catalog plugin class …", "iceberg-spark-runtime-4.3_2.13"),
        ("jdbc:postgresql://h/d", "java.sql.SQLException: No suitable driver", "org.postgresql:"),
    ],
)
def test_errors_have_the_setting_that_loads_the_jar(name: str, message: str, package: str) -> None:
    spark: Any = SimpleNamespace(version="4.3.0")
    with pytest.raises(tamis.MissingExtraError) as caught, connector_errors(spark, name):
        raise RuntimeError(message)
    assert '"spark.jars.packages": "' in str(caught.value)
    assert package in str(caught.value)


def test_other_errors_pass() -> None:
    spark: Any = SimpleNamespace(version="4.3.0")
    with pytest.raises(RuntimeError, match="the server is away"), connector_errors(spark, "kafka"):
        raise RuntimeError("the server is away")
    with (
        pytest.raises(tamis.MissingExtraError, match=r"no connector for x; add its jar"),
        connector_errors(spark, "x"),
    ):
        raise RuntimeError("java.lang.ClassNotFoundException: x")
    assert name_driver("jdbc:h2:mem") == {}


def test_an_iceberg_table_by_its_python_package(spark: Any, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalog = SqlCatalog("lake", **place)
    catalog.create_namespace("db")
    rows = {
        "rules": pa.table({"id": ["cheap", "dear"], "rule": ["price < 10", "price > 100"]}),
        "events": pa.table({"event_id": [1, 2, 3], "price": [5.0, 50.0, 500.0]}),
        "matches": pa.table(
            {"event_id": pa.array([], pa.int64()), "rule": pa.array([], pa.string())}
        ),
    }
    tables = {
        name: catalog.create_table(f"db.{name}", content.schema) for name, content in rows.items()
    }
    for name, content in rows.items():
        tables[name].append(content)
    ts.build(spark.createDataFrame(tables["rules"].scan().to_arrow()), tmp_path / "index")
    events = spark.createDataFrame(tables["events"].scan().to_arrow())
    found = ts.match(events, tmp_path / "index").toArrow()
    tables["matches"].append(found.cast(rows["matches"].schema))
    written = catalog.load_table("db.matches").scan().to_arrow().to_pylist()
    catalog.engine.dispose()
    assert sorted((row["event_id"], row["rule"]) for row in written) == [(1, "cheap"), (3, "dear")]
