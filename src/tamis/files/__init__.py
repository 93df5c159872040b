"""Rules and events out of files, matches into files; the format is told by the file's name.

Whatever is wrong with a file is an :class:`~tamis.errors.InputFileError`, which names the file and,
where there is one, the line.

>>> import tamis
>>> from tamis.files import load_rules, read_events
>>> m = tamis.Matcher()
>>> load_rules(m, "rules.jsonl")                                        # doctest: +SKIP
>>> for batch in read_events("events.parquet"):                         # doctest: +SKIP
...     print(m.match_many(batch.events))
"""

from tamis.files.events import EventBatch, read_event, read_events
from tamis.files.export import save_rules, write_rules
from tamis.files.match import Answer, Question, answers, expression_answer
from tamis.files.output import open_output
from tamis.files.rules import LoadReport, load_rule, load_rules
from tamis.files.source import STDIN

__all__ = [
    "STDIN",
    "Answer",
    "EventBatch",
    "LoadReport",
    "Question",
    "answers",
    "expression_answer",
    "load_rule",
    "load_rules",
    "open_output",
    "read_event",
    "read_events",
    "save_rules",
    "write_rules",
]
