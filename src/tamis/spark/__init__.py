"""Rules and events that are Spark tables; needs the extra ``tamis[spark]``."""

from __future__ import annotations

from importlib.util import find_spec

from tamis.errors import MissingExtraError

if find_spec("pyspark") is None or find_spec("pandas") is None:
    raise MissingExtraError("tamis.spark needs PySpark; type: pip install 'tamis[spark]'")

from tamis.spark.session import local_session

__all__ = [
    "local_session",
]
