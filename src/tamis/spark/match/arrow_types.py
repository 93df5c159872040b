"""Spark's types as Arrow types, whatever the version of Spark.

The functions of PySpark that convert types are not a public interface: 4.3 names the time zone, 4.1
and 4.2 ask whether there is one.
"""

from __future__ import annotations

import inspect
from functools import partial

import pyarrow as pa
from pyspark.sql.pandas import types as spark_types
from pyspark.sql.types import DataType, StructType

__all__ = ["to_arrow_schema", "to_arrow_type"]

_has_timezone = "timezone" in inspect.signature(spark_types.to_arrow_type).parameters
_convert = (
    partial(spark_types.to_arrow_type, timezone="UTC")
    if _has_timezone
    else spark_types.to_arrow_type
)


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type in which Spark sends values of a type to Python, with times in UTC.

    Raises
    ------
    PySparkException
        Spark cannot send such values.
    """
    converted: pa.DataType = _convert(data_type)
    return converted


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a table; see `to_arrow_type`."""
    return pa.schema([(field.name, to_arrow_type(field.dataType)) for field in schema.fields])
