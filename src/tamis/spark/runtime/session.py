"""Start a Spark session on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.spark.runtime.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["local_session"]

_LOGGING = Path(__file__).with_name("log4j2.properties")


def local_session(
    cores: int | None = None, *, memory: str = "2g", app_name: str = "tamis", **conf: Any
) -> SparkSession:
    """Start a Spark session on this machine, set up for Tamis.

    It needs no installed Java: ``pip install 'tamis[java]'`` brings one. If there is a session
    already, that one is returned, with `conf` applied where Spark still allows it.

    Parameters
    ----------
    cores
        How many cores to use; all by default.
    memory
        The heap of the JVM, which is driver and executor in one. Rules are outside of it.
    app_name
        Spark's name for the application.
    **conf
        Further Spark settings, which override those set here:
        ``local_session(**{"spark.sql.shuffle.partitions": 8})``.

    Raises
    ------
    MissingExtraError
        PySpark or Java is missing; the message has the command that installs it.
    """
    from pyspark.sql import SparkSession

    if cores is not None and (not isinstance(cores, int) or cores < 1):
        raise ValueError(f"cores is a whole number of at least 1, not {cores!r}")
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(find_java())
        # Spark's default is the first python3 on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    cores = cores or os.cpu_count() or 1
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name)
    for name, value in {**_default_settings(cores, memory), **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _default_settings(cores: int, memory: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "spark.driver.memory": memory,
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.python.daemon.module": "tamis.spark.runtime.daemon",
        "spark.sql.execution.arrow.pyspark.enabled": True,
        # Few partitions for few cores; the default of 200 is for clusters.
        "spark.sql.shuffle.partitions": 2 * cores,
        # Streams that remember events need it.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
    }
    for name in ("TAMIS_KERNELS", "TAMIS_KERNEL_CACHE"):
        if name in os.environ:
            settings[f"spark.executorEnv.{name}"] = os.environ[name]
    return settings
