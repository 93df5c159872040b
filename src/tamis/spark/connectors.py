"""Spark's connectors, jars that PySpark does not bring: what to type if one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from tamis.errors import MissingExtraError

__all__ = ["check_connector", "connector_errors", "name_driver"]

_PACKAGES: Final = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "delta": "io.delta:delta-spark_{minor}_2.13:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:VERSION",
    "jdbc:postgresql": "org.postgresql:postgresql:42.7.8",
    "jdbc:mysql": "com.mysql:mysql-connector-j:VERSION",
    "jdbc:mariadb": "org.mariadb.jdbc:mariadb-java-client:VERSION",
    "jdbc:sqlserver": "com.microsoft.sqlserver:mssql-jdbc:VERSION",
}
"""The Maven coordinates of each connector, by the name of its format or the start of its URL."""

_DRIVERS: Final = {
    "jdbc:postgresql": "org.postgresql.Driver",
    "jdbc:mysql": "com.mysql.cj.jdbc.Driver",
    "jdbc:mariadb": "org.mariadb.jdbc.Driver",
    "jdbc:sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
"""The class of each database's driver, which Java does not find by itself in ``spark.jars``."""

_NAMES: Final = {"kafka": "Kafka", "delta": "Delta Lake", "iceberg": "Apache Iceberg"}

_SYMPTOMS: Final = (
    "Failed to find data source",
    "Failed to find the data source",
    "DATA_SOURCE_NOT_FOUND",
    "No suitable driver",
    "CATALOG_NOT_FOUND",
    "ClassNotFoundException",
    "Cannot find catalog plugin class",
)
"""What Spark says if the jar of a connector is missing."""


def check_connector(spark: SparkSession, name: str) -> None:
    """Check that a session can use a connector, before a stream starts and fails by it.

    Raises
    ------
    MissingExtraError
        Its jar is missing; the message has the setting that loads it.
    """
    if name == "kafka":
        with connector_errors(spark, name):
            # Spark looks at the options only; it asks no server before rows are read.
            options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
            _ = spark.read.format("kafka").options(**options).load().columns


def name_driver(url: str) -> dict[str, str]:
    """The option of Spark's reader that names the driver of a database, if it is a known one."""
    found = next((name for start, name in _DRIVERS.items() if url.startswith(start)), None)
    return {} if found is None else {"driver": found}


@contextmanager
def connector_errors(spark: SparkSession, name: str) -> Iterator[None]:
    """Turn Spark's error about a missing jar into one that says what to type.

    Parameters
    ----------
    spark
        The session.
    name
        The format, such as ``"kafka"`` or ``"delta"``, or the URL of a database.

    Raises
    ------
    MissingExtraError
        The jar of the connector is missing.
    """
    try:
        yield
    except Exception as error:
        # Spark reports some of them as errors of Java, of a class that PySpark does not wrap.
        if not any(symptom in str(error) for symptom in _SYMPTOMS):
            raise
        raise MissingExtraError(_explain_missing(name, spark.version)) from None


def _explain_missing(name: str, version: str) -> str:
    known = next((key for key in _PACKAGES if name.startswith(key)), None)
    if known is None:
        return f"Spark has no connector for {name}; add its jar to the session by spark.jars"
    minor = ".".join(version.split(".")[:2])
    package = _PACKAGES[known].format(spark=version, minor=minor)
    what = _NAMES.get(known, f"the driver of {known}")
    return (
        f"Spark has no connector for {what}; start the session with it: "
        f'ts.local_session(**{{"spark.jars.packages": "{package}"}}), in a pipeline\'s file '
        f'[spark] conf = {{ "spark.jars.packages" = "{package}" }}'
    )
