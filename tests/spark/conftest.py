"""One Spark session for all tests of a run: starting one takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tamis.spark import local_session
from tests.parts.jars import require_jars, session_jars
from tests.parts.kafka import Broker, start_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two cores that keeps its tables and scratch files in a folder of pytest."""
    folder = tmp_path_factory.mktemp("spark")
    session = local_session(
        2,
        memory="1g",
        app_name="tamis tests",
        **{
            "spark.jars": session_jars(),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker."""
    require_jars("spark-kafka")
    with start_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
