"""Tamis holds millions of Boolean rules and finds those that an event satisfies.

>>> import tamis
>>> m = tamis.Matcher()
>>> m.add("teens", "age BETWEEN 13 AND 19 AND country IN ('FR', 'BE')")
>>> m.add("not-ca", "state <> 'CA'")
>>> m.match({"age": 15, "country": "FR"})
['teens']

A rule is a text in the style of a WHERE clause, a model (:class:`And`, :class:`Or`, :class:`Not`,
:class:`Predicate`) or its JSON form. An event is a mapping; many events are a list of mappings, an
Arrow table, a pandas or a polars frame. :func:`evaluate` defines what a rule means, and every
engine gives the same answers.
"""

from __future__ import annotations

# isort: off
import tamis.interrupts  # noqa: F401  # before the imports that take time

# isort: on
from tamis.engines.threads import set_threads
from tamis.errors import (
    BackgroundError,
    CorruptFileError,
    DuplicateRuleError,
    EventError,
    GoneError,
    InputFileError,
    LockedError,
    MissingExtraError,
    PatternError,
    RuleError,
    RuleSyntaxError,
    RuleTooLargeError,
    SchemaError,
    StorageError,
    SubscriptionError,
    TamisError,
    TimeLimitError,
    UnknownDocumentError,
    UnknownEngineError,
    UnknownRuleError,
    UnknownSubscriptionError,
)
from tamis.expr.analysis.describe import describe
from tamis.expr.analysis.explain import Explanation
from tamis.expr.analysis.why_not import Obstacle, Obstacles
from tamis.expr.evaluate import evaluate, score
from tamis.expr.json import from_json, to_json
from tamis.expr.model import And, Expr, Not, Op, Or, Predicate, all_of, any_of
from tamis.expr.text.grammar import parse
from tamis.expr.text.write import to_sql
from tamis.joins.documents import Documents
from tamis.joins.retention import Retention
from tamis.limits import Limits
from tamis.matcher.matcher import AddReport, BadEvent, BadRule, Matcher, RuleChange
from tamis.matcher.open import open_matcher as open  # noqa: A004  the name users know
from tamis.matcher.rule import Rule
from tamis.matcher.selection import tagged

__all__ = [
    "AddReport",
    "And",
    "BackgroundError",
    "BadEvent",
    "BadRule",
    "CorruptFileError",
    "Documents",
    "DuplicateRuleError",
    "EventError",
    "Explanation",
    "Expr",
    "GoneError",
    "InputFileError",
    "Limits",
    "LockedError",
    "Matcher",
    "MissingExtraError",
    "Not",
    "Obstacle",
    "Obstacles",
    "Op",
    "Or",
    "PatternError",
    "Predicate",
    "Retention",
    "Rule",
    "RuleChange",
    "RuleError",
    "RuleSyntaxError",
    "RuleTooLargeError",
    "SchemaError",
    "StorageError",
    "SubscriptionError",
    "TamisError",
    "TimeLimitError",
    "UnknownDocumentError",
    "UnknownEngineError",
    "UnknownRuleError",
    "UnknownSubscriptionError",
    "all_of",
    "any_of",
    "describe",
    "engines",
    "evaluate",
    "from_json",
    "open",
    "parse",
    "score",
    "set_threads",
    "tagged",
    "to_json",
    "to_sql",
]

__version__ = "0.2.0"


def engines() -> list[str]:
    """List the names of all engines, besides ``"auto"``, which stands for ``"tiles"``.

    Examples
    --------
    >>> import tamis
    >>> "tiles" in tamis.engines()
    True
    """
    from tamis.engines.registry import ENGINES

    return list(ENGINES)
