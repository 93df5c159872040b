"""One Spark session for all tests of a run: starting one takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tamis.spark import local_session

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
            "spark.local.dir": str(folder / "local"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    yield session
    session.stop()
