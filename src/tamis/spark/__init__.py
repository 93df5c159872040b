"""Match on Spark: rules and events that are tables; needs the extra ``tamis[spark]``.

>>> from tamis import spark as ts                     # doctest: +SKIP
>>> ts.build(rules, path, id="id", rule="rule")       # doctest: +SKIP
>>> ts.match(events, path, keys="id").show()          # doctest: +SKIP
"""

from __future__ import annotations

from importlib.util import find_spec

from tamis.errors import MissingExtraError

if find_spec("pyspark") is None or find_spec("pandas") is None:
    raise MissingExtraError("tamis.spark needs PySpark; type: pip install 'tamis[spark]'")

from tamis.spark.backtest import backtest
from tamis.spark.change_feed import follow
from tamis.spark.deliveries.sinks import send_to_server, send_to_webhooks
from tamis.spark.deliveries.tables import deliveries
from tamis.spark.documents.tables import publish
from tamis.spark.index.build import build, update
from tamis.spark.index.layout import Shard, Version
from tamis.spark.index.publish import forget, rollback
from tamis.spark.index.versions import current, version, versions
from tamis.spark.match.explanations import explain, why, why_not
from tamis.spark.match.files import match_files
from tamis.spark.match.sql import register
from tamis.spark.match.tables import (
    counts,
    first,
    match,
    match_expression,
    matcher,
    refused,
    top,
)
from tamis.spark.ratify import Difference, Ratification, ratify
from tamis.spark.report import report
from tamis.spark.runtime.session import local_session
from tamis.spark.runtime.work import Metrics, install_errors, metrics
from tamis.spark.stream.batch_log import Batch
from tamis.spark.stream.kafka import Topic, read_kafka
from tamis.spark.stream.output import batches
from tamis.spark.stream.stream import match_stream
from tamis.spark.stream.tables import Table

__all__ = [
    "Batch",
    "Difference",
    "Metrics",
    "Ratification",
    "Shard",
    "Table",
    "Topic",
    "Version",
    "backtest",
    "batches",
    "build",
    "counts",
    "current",
    "deliveries",
    "explain",
    "first",
    "follow",
    "forget",
    "local_session",
    "match",
    "match_expression",
    "match_files",
    "match_stream",
    "matcher",
    "metrics",
    "publish",
    "ratify",
    "read_kafka",
    "refused",
    "register",
    "report",
    "rollback",
    "send_to_server",
    "send_to_webhooks",
    "top",
    "update",
    "version",
    "versions",
    "why",
    "why_not",
]

install_errors()
