"""The question that a stream or a job has about its events; Kafka's records have defaults."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tamis.spark.column_names import quote
from tamis.spark.index.layout import PathLike
from tamis.spark.match.event_columns import choose_keys
from tamis.spark.match.options import MatchKeywords, Names, StreamKeywords
from tamis.spark.match.tables import match, refused
from tamis.spark.stream.kafka import CARRIED, IDENTITY, VALUE, is_kafka

__all__ = ["Question", "prepare_question"]

NO_VALUE: Final = "the record has no value"
"""Why a record of Kafka without a value is a dead letter."""


@dataclass(frozen=True)
class Question:
    """A question about events: which rules match, and which records are not events."""

    index: PathLike
    keys: tuple[str, ...]
    """The columns that identify an event."""
    carried: tuple[str, ...]
    """More columns that the answers have."""
    is_of_records: bool
    """Whether events are the values of Kafka's records; one without a value is not an event."""
    options: StreamKeywords

    def match_options(self, version: int | None, at: datetime | None = None) -> MatchKeywords:
        """The options of `match`, `counts` and `top`.

        Parameters
        ----------
        version
            The version of the index.
        at
            When rules have to be valid, unless the user says it.
        """
        options: MatchKeywords = {**self.options, "version": version}
        options["keys"] = (*self.keys, *self.carried)
        if options.get("at") is None:
            options["at"] = at
        return options

    def keep_events(self, records: DataFrame) -> DataFrame:
        """Leave out the records without a value."""
        return records.where(F.col(VALUE).isNotNull()) if self.is_of_records else records

    def find_matches(
        self, records: DataFrame, version: int | None = None, at: datetime | None = None
    ) -> DataFrame:
        """Find the rules that each event matches."""
        return match(self.keep_events(records), self.index, **self.match_options(version, at))

    def find_dead_letters(self, records: DataFrame, version: int) -> DataFrame:
        """Find the records that are not events, and the reasons."""
        names = dict.fromkeys([*self.keys, *self.carried])
        column = self.options.get("events")
        if isinstance(column, str):
            names[column] = None
        options = self.match_options(version)
        options["keys"] = tuple(names)
        found = refused(self.keep_events(records), self.index, **options)
        if not self.is_of_records:
            return found
        empty = records.where(F.col(VALUE).isNull())
        return found.unionByName(empty.select(*map(quote, names), F.lit(NO_VALUE).alias("error")))


def prepare_question(
    schema: StructType, path: PathLike, carry: Names, options: StreamKeywords
) -> Question:
    """Choose keys, events and what is carried; for records of Kafka there are usual ones.

    Parameters
    ----------
    schema
        The schema of the events.
    path
        A published index.
    carry, options
        As in :func:`tamis.spark.match_stream`.
    """
    options = options.copy()
    from_kafka = is_kafka(schema)
    if from_kafka:
        options["keys"] = options.get("keys") or IDENTITY
        options["events"] = options.get("events") or VALUE
    if carry is None:
        carry = [name for name in CARRIED if name in schema.names] if from_kafka else []
    keys = tuple(choose_keys(schema, options.get("keys")))
    carried = [carry] if isinstance(carry, str) else carry
    return Question(
        path,
        keys,
        tuple(name for name in carried if name not in keys),
        from_kafka and options.get("events") == VALUE,
        options,
    )
