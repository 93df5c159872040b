"""Reads rules and events from files, matches them, and writes matches and rules.

The file's extension decides the format: JSON lines, JSON, CSV or Parquet. A file that cannot be
used raises :class:`~tamis.errors.InputFileError`, which names the file and, where there is one, the
line.

>>> import tamis
>>> from tamis.files import load_rules, read_events
>>> m = tamis.Matcher()
>>> load_rules(m, "rules.jsonl")                                        # doctest: +SKIP
>>> for batch in read_events("events.parquet"):                         # doctest: +SKIP
...     print(m.match_many(batch.events))
"""

from tamis.files.details import Details
from tamis.files.event_reader import EventBatch, EventFile, read_event, read_events
from tamis.files.match_writer import open_match_writer
from tamis.files.matching import MatchBatch, Query, match_expression, match_file
from tamis.files.rule_reader import LoadReport, load_rule, load_rules
from tamis.files.rule_writer import rule_to_json, save_rules, write_rules
from tamis.files.source import STDIN

__all__ = [
    "STDIN",
    "Details",
    "EventBatch",
    "EventFile",
    "LoadReport",
    "MatchBatch",
    "Query",
    "load_rule",
    "load_rules",
    "match_expression",
    "match_file",
    "open_match_writer",
    "read_event",
    "read_events",
    "rule_to_json",
    "save_rules",
    "write_rules",
]
