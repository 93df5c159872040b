"""The facade: a set of rules that any number of threads read and write at once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.engines.registry import load_engine
from tamis.errors import RuleError, StorageError, UnknownRuleError
from tamis.expr.analysis.explain import Explanation
from tamis.expr.analysis.why_not import Obstacles
from tamis.expr.event import Event
from tamis.expr.functions.derive import bases_of
from tamis.expr.html import write_box
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import check_logic
from tamis.expr.names import JOINED
from tamis.expr.weights import EventWeights
from tamis.joins.document_store import DocumentStore
from tamis.joins.documents import Documents, check_receivers
from tamis.joins.retention import Retention
from tamis.limits import Limits
from tamis.matcher.batch_searcher import BatchSearcher
from tamis.matcher.chunk_encoder import ChunkEncoder
from tamis.matcher.event_limits import EventLimits
from tamis.matcher.explainer import Explainer
from tamis.matcher.expression_reader import ExpressionReader
from tamis.matcher.expression_searcher import ExpressionSearcher
from tamis.matcher.inputs import split_events
from tamis.matcher.rule import Rule, RuleId, RuleSource, make_rule, to_expr
from tamis.matcher.rule_limits import RuleLimits
from tamis.matcher.schema import Schema
from tamis.matcher.searcher import Searcher
from tamis.matcher.segment import Segment
from tamis.matcher.selection import EVERY_RULE, Selection, Tagged
from tamis.matcher.skipped_events import BadEvent, SkippedEvents
from tamis.matcher.snapshot import Snapshot, View
from tamis.matcher.stats import Stats
from tamis.matcher.storage.directory import create_directory, is_index, replace_directory
from tamis.matcher.storage.document_file import write_documents
from tamis.matcher.storage.manifest import Settings
from tamis.matcher.storage.store import Store
from tamis.matcher.stored_documents import StoredDocuments
from tamis.matcher.tail import NO_TAIL
from tamis.matcher.timed_searcher import TimedSearcher
from tamis.matcher.validity import Clock, Validity, make_clock, to_microseconds
from tamis.matcher.write.bad_rules import BadRule
from tamis.matcher.write.builder import SegmentBuilder
from tamis.matcher.write.change_notes import RuleChange, describe
from tamis.matcher.write.new_rules import NewRules, read_rules
from tamis.matcher.write.responsive import keep_responsive
from tamis.matcher.write.writer import Writer

if TYPE_CHECKING:
    from tamis.matcher.analysis.anatomy import Anatomy
    from tamis.matcher.analysis.backtest import Backtest
    from tamis.matcher.analysis.boundaries import Boundaries
    from tamis.matcher.analysis.check import CheckReport
    from tamis.matcher.analysis.continuous import ContinuousRatifier, PinnedSearch
    from tamis.matcher.analysis.costs import Costs
    from tamis.matcher.analysis.lint import Finding
    from tamis.matcher.analysis.ratify import Difference, Ratification
    from tamis.matcher.analysis.rule_tests import RuleTestReport
    from tamis.matcher.analysis.similar import Similar
    from tamis.matcher.analysis.vocabulary import AttributeUse, Mentioned

__all__ = ["AddReport", "BadEvent", "BadRule", "Matcher", "RuleChange"]

_SMALL_TAIL: Final = 64
"""A larger tail takes so long to freeze that the segment is kept for later searches."""


class AddReport(NamedTuple):
    """The result of :meth:`Matcher.add_many` and :meth:`Matcher.replace_all`."""

    added: int
    """How many rules were added."""
    bad: list[BadRule]
    """The rules that were refused and skipped."""


class Matcher:
    """Holds rules, and finds those that an event satisfies.

    Any number of threads may read and write at once. A search works on the snapshot it found when
    it began, which never changes. It waits for other threads only for the microseconds in which one
    of them adds a rule to, or looks up an event in, the index of the newest rules. Writers queue.

    Parameters
    ----------
    engine
        The name of an engine; see :func:`tamis.engines`.
    logic
        The logic of rules that do not name their own: ``"strong"`` or ``"weak"``.
    schema
        The types of attributes, as far as they are known: ``{"price": "double", "tags":
        "string[]"}``. A declared scalar holds at most one value, ISO texts become timestamps where
        a timestamp is declared, and an event that contradicts the schema is an error. In place of
        a type stands a hierarchy: ``{"date": "levels(year, month, day)"}``, or the parent of each
        node, ``{"city": {"Bonn": "Germany", "Germany": "Europe"}}``.
    clock
        Returns the current time, for rules that are valid for a limited time; the machine's clock
        by default. Every search also takes a time of its own: ``at=``.
    documents
        How long :meth:`publish` remembers events, for rules with join predicates; for ever by
        default. With ``False``, rules with join predicates are refused.
    limits
        The largest rules and events to take, and the longest search; see :class:`Limits`.
    ratify
        ``"continuous"`` has a thread of low priority compare answers with :func:`tamis.evaluate`
        all the time, on events that are searched and on drawn ones; see :meth:`ratify`. `close`
        ends it. :meth:`stats` counts what was compared, and :attr:`differences` has what differs.
    budget
        The share of one core's time that ``ratify="continuous"`` may take.
    on_difference
        Called by that thread with each difference.

    Examples
    --------
    >>> import tamis
    >>> m = tamis.Matcher()
    >>> m.add("r1", "age IN (3, 4) AND state <> 'CA'")
    >>> m.match({"age": 3, "state": "NY"})
    ['r1']
    """

    def __init__(
        self,
        engine: str = "auto",
        logic: str = "strong",
        schema: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        *,
        documents: Retention | Literal[False] | None = None,
        limits: Limits | None = None,
        ratify: Literal["continuous"] | None = None,
        budget: float = 0.01,
        on_difference: Callable[[Difference], None] | None = None,
        _store: Store | None = None,
        _keeps_documents: bool = True,
    ) -> None:
        self._logic = check_logic(logic)
        self._limits = limits or Limits()
        self._event_limits = EventLimits.of(self._limits)
        self._rule_limits = RuleLimits.of(self._limits)
        self._now = make_clock(clock)
        if _store is None:
            takes_joins = documents is not False
            self._builder = SegmentBuilder(load_engine(engine), Schema(schema or {}), takes_joins)
        else:
            # `tamis.open` passes a store, whose builder has this engine and this schema.
            self._builder = _store.builder
        self._engine, self._schema = self._builder.engine, self._builder.schema
        self._expressions = ExpressionReader(self._schema)
        self._document_store = DocumentStore(documents or None)
        self._documents = Documents(
            read=self._schema.read, store=self._document_store, owner=_store
        )
        self._explainer = Explainer(self._schema, self._document_store)
        self._last_searcher: Searcher | None = None
        self._store = _store
        self._stored_documents: StoredDocuments | None = None
        if _store is None:
            self._writer = Writer(self._builder)
        else:
            if _keeps_documents:
                self._stored_documents = StoredDocuments(self._document_store, _store)
            # Last: its background thread writes to the directory, which may be damaged.
            self._writer = Writer(self._builder, _store.take_state(), _store, _store.revision)
        self._ratifier: ContinuousRatifier | None = None
        if ratify is not None:
            self._ratifier = self._start_ratifier(ratify, budget, on_difference)

    # --- Rules ---

    def add(
        self,
        id: RuleId,
        rule: RuleSource,
        *,
        logic: str | None = None,
        weights: Mapping[Any, float] | None = None,
        payload: Any = None,
        tags: Iterable[str] = (),
        priority: int = 0,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        subscription: str | None = None,
        replace: bool = False,
    ) -> None:
        """Add a rule. Every search that begins after the call sees it.

        Parameters
        ----------
        id
            A string or a 64-bit integer that no other rule has.
        rule
            The rule as text, as a model, or in the JSON form.
        logic
            The rule's own logic, ``"strong"`` or ``"weak"``; that of the matcher by default.
        weights
            The weights of the rule's predicates, for :meth:`top`: ``{("author", "Smith"): 2.0}``
            for a value of ``=`` or ``IN``, ``{"price > 10": 0.5}`` for any other predicate.
        payload
            Any JSON to keep with the rule; :meth:`rule` returns it.
        tags
            Names by which ``only=tagged(…)`` selects the rule.
        priority
            Rules of a higher priority come first in :meth:`first`.
        valid_from, valid_until
            The rule matches from the first of these times on, and before the second: a datetime or
            an ISO text, taken as UTC if it names no zone.
        subscription
            The name of the subscription that the rule belongs to: :meth:`publish` records that it
            receives what the rule matches, and ``FROM received d`` is about these documents.
        replace
            Whether to replace a rule of the same id; otherwise such a rule is an error.

        Raises
        ------
        RuleError
            The rule is refused; nothing was changed.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("cheap", "price < 25", tags=["gold"], payload={"send": "mail"})
        >>> m.add("cheap", "price < 20", replace=True)
        >>> m.match({"price": 22})
        []
        """
        try:
            validity = Validity.of(priority, valid_from, valid_until)
            added = make_rule(
                id, rule, logic or self._logic, weights, payload, tags, validity, subscription
            )
            if self._rule_limits is not None:
                self._rule_limits.check(added)
        except RuleError as error:
            error.rule_id = id
            raise
        self._writer.add([added], replace)

    def add_many(
        self,
        rules: Any,
        *,
        on_error: Literal["raise", "skip"] = "raise",
        replace: bool = False,
    ) -> AddReport:
        """Add many rules at once: all of them, or none if one is refused.

        Parameters
        ----------
        rules
            Pairs of id and rule (or triples with the logic), :class:`Rule` objects, a mapping of
            ids to rules, or the complete form: mappings as in JSON lines, with the fields ``id``,
            ``rule`` and optionally ``logic``, ``weights``, ``payload``, ``tags``, ``priority``,
            ``valid_from``, ``valid_until`` and ``subscription``, or an Arrow table with such
            columns. There ``weights`` and ``payload`` may be JSON as text.
        on_error
            ``"skip"`` leaves out the rules that are refused, and reports each of them.
        replace
            Whether to replace rules of the same ids; otherwise such rules are refused.

        Returns
        -------
        AddReport
            How many rules were added, and which were skipped.

        Raises
        ------
        RuleError
            A rule is refused and not skipped; nothing was changed.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> report = m.add_many({"a": "x = 1", "b": "x ="}, on_error="skip")
        >>> report.added, [bad.id for bad in report.bad]
        (1, ['b'])
        """
        with keep_responsive():
            read, bad = self._read_rules(rules, on_error)
            added = self._writer.add(read, replace, bad)
        return AddReport(added, bad or [])

    def replace_all(self, rules: Any, *, on_error: Literal["raise", "skip"] = "raise") -> AddReport:
        """Replace all rules at once: a search sees either all old rules or all new ones.

        Parameters
        ----------
        rules, on_error
            As in :meth:`add_many`. If a rule is refused and not skipped, the old rules stay.

        Returns
        -------
        AddReport
            How many rules were added, and which were skipped.

        Raises
        ------
        RuleError
            A rule is refused and not skipped; nothing was changed.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("old", "x = 1")
        >>> m.replace_all({"new": "x = 2"}).added
        1
        >>> list(m)
        ['new']
        """
        with keep_responsive():
            read, bad = self._read_rules(rules, on_error)
            added = self._writer.replace_all(read, bad)
        return AddReport(added, bad or [])

    def remove(self, id: RuleId) -> None:
        """Remove a rule. No search that begins after the call sees it.

        Raises
        ------
        UnknownRuleError
            No rule has that id.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18")
        >>> m.remove("r1")
        >>> "r1" in m
        False
        """
        self._writer.remove([id])

    def remove_many(self, ids: Iterable[RuleId]) -> int:
        """Remove many rules at once: all of them, or none if an id is unknown.

        Returns
        -------
        int
            How many rules were removed.

        Raises
        ------
        UnknownRuleError
            No rule has one of these ids; nothing was changed.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add_many([(1, "x = 1"), (2, "x = 2"), (3, "x = 3")]).added
        3
        >>> m.remove_many([1, 3])
        2
        """
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise RuleError(f"expected a list of ids, not {ids!r}")
        return self._writer.remove(list(ids))

    def remove_ended(self, at: datetime | None = None) -> int:
        """Remove the rules whose `valid_until` has passed.

        Parameters
        ----------
        at
            The time to compare with; that of the matcher's clock by default.

        Returns
        -------
        int
            How many rules were removed.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("sale", "price < 25", valid_until="2024-12-31")
        >>> m.remove_ended()
        1
        """
        ended = list(self._snapshot.find_ended(self._microseconds(at)))
        return self._writer.remove(ended) if ended else 0

    def rule(self, id: RuleId) -> Rule:
        """Get the rule `id`, with everything that was passed to :meth:`add`.

        Raises
        ------
        UnknownRuleError
            No rule has that id.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18", payload={"send": "mail"})
        >>> m.rule("r1").text, m.rule("r1").payload
        ('age > 18', {'send': 'mail'})
        """
        rule = self._snapshot.find(id)
        if rule is None:
            raise UnknownRuleError(f"there is no rule {id!r}")
        return rule

    def rules(
        self, start: int = 0, *, order: Literal["added", "priority"] = "added"
    ) -> Iterator[Rule]:
        """Iterate over the rules, in the order in which they were added, or by priority.

        The rules are those of the moment of the call, whatever changes while they are read.

        Parameters
        ----------
        start
            How many rules to leave out at the beginning, which takes no time in the order in which
            they were added.
        order
            ``"priority"`` for the highest priority first; of equal ones the oldest comes first.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add_many({"r1": "age > 18", "r2": "age > 21"}).added
        2
        >>> [rule.text for rule in m.rules(start=1)]
        ['age > 21']
        """
        if order == "added":
            return self._snapshot.rules(start)
        if order == "priority":
            return islice(self._snapshot.rules_by_priority(), start, None)
        raise RuleError(f"order= takes 'added' or 'priority', not {order!r}")

    def attributes(self) -> frozenset[str]:
        """Get the names of all attributes that rules mention; no others affect any answer.

        Where a rule applies a function to attributes, these attributes are listed.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18 AND lower(country) = 'fr'")
        >>> sorted(m.attributes())
        ['age', 'country']
        """
        views = self._frozen_views(self._snapshot)
        names = {n for view in views for n in view.segment.engine.rules.dictionary.attributes}
        joins = {name for name in names if name.startswith(JOINED)}
        bases = {base for name in names - joins for base in bases_of(name)}
        return frozenset(bases).union(*(join_named(name).news for name in joins))

    def tags(self) -> frozenset[str]:
        """Get the tags that rules have; ``tagged`` finds rules by no others.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18", tags=["gold", "eu"])
        >>> sorted(m.tags())
        ['eu', 'gold']
        """
        return frozenset(self._snapshot.tags())

    def subscriptions(self) -> frozenset[str]:
        """Get the subscriptions that rules belong to.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18", subscription="ann")
        >>> sorted(m.subscriptions())
        ['ann']
        """
        return frozenset(self._snapshot.subscriptions())

    def validity_times(self) -> NDArray[np.datetime64]:
        """The times at which a rule becomes valid or ceases to be, in rising order.

        Between two of them the answers depend on the event alone.

        Returns
        -------
        numpy.ndarray
            Times in UTC, of type ``datetime64[us]``.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("sale", "price < 25", valid_until="2027-01-01")
        >>> m.validity_times()
        array(['2027-01-01T00:00:00.000000'], dtype='datetime64[us]')
        """
        return self._snapshot.validity_times().view("datetime64[us]")

    def __len__(self) -> int:
        return self._snapshot.size

    def __contains__(self, id: object) -> bool:
        return id in self._snapshot

    def __iter__(self) -> Iterator[RuleId]:
        """Iterate over the ids of all rules, in the order in which they were added."""
        return self._snapshot.ids()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Matcher cannot be pickled or copied, since threads and files belong to it; store it "
            "with save(path), and call tamis.open(path, read_only=True) where it is needed"
        )

    def __repr__(self) -> str:
        where = "" if self._store is None else f", {str(self._store.folder)!r}"
        return f"<tamis.Matcher: {len(self):,} rules, engine {self._engine.name!r}{where}>"

    def _repr_html_(self) -> str:
        return write_box(repr(self).strip("<>"), self.stats()._repr_html_())

    @property
    def limits(self) -> Limits:
        """The largest rules and events that this matcher takes, and the longest search."""
        return self._limits

    # --- Changes ---

    @property
    def revision(self) -> int:
        """The number of the last change: a call that changes rules adds 1, however many they are.

        A directory keeps it, and all processes that have the directory open see the same number
        for the same rules.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18")
        >>> m.add_many({"r2": "age > 21", "r3": "age > 65"}).added
        2
        >>> m.revision
        2
        """
        return self._snapshot.revision

    def watch(self, call: Callable[[RuleChange], None]) -> None:
        """Have `call` called after each change of rules that this matcher makes.

        Parameters
        ----------
        call
            Takes a :class:`RuleChange`. The thread that changes rules calls it, and others wait to
            write meanwhile: it has to be quick, and must not change rules itself.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> changes = []
        >>> m.watch(changes.append)
        >>> m.add("r1", "age > 18")
        >>> m.remove("r1")
        >>> [(change.revision, change.kind, change.ids) for change in changes]
        [(1, 'put', ('r1',)), (2, 'remove', ('r1',))]
        """
        self._writer.watchers.append(lambda revision, change: call(describe(revision, change)))

    # --- One event ---

    def match(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        weights: Mapping[tuple[str, Any], float] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """Find the rules that an event satisfies.

        Parameters
        ----------
        event
            Attributes and their values.
        only
            Consider only these rules: a list of ids (unknown ones are ignored), or
            ``tamis.tagged("gold")`` for rules with certain tags.
        weights
            Checked, but without effect here; see :meth:`top`.
        at
            The time at which rules have to be valid; that of the matcher's clock by default.

        Returns
        -------
        list
            The ids of the matching rules, in the order in which they were added.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("teens", "age BETWEEN 13 AND 19")
        >>> m.add("french", "country = 'FR'")
        >>> m.match({"age": 15, "country": "FR"})
        ['teens', 'french']
        >>> m.match({"age": 15, "country": "FR"}, only=["french"])
        ['french']
        """
        if weights is not None:
            EventWeights.of(weights)
        if self._event_limits is not None:
            self._event_limits.check(event)
        if self._ratifier is not None:
            self._ratifier.take(event)
        searcher = self._searcher
        if only is None and at is None and not searcher.needs_time:
            return searcher.match(event, EVERY_RULE)
        return searcher.match(event, self._select(only, at))

    def match_array(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> NDArray[Any]:
        """Find the rules that an event satisfies, as an array and in no particular order.

        The fastest way to match one event.

        Parameters
        ----------
        event, only, at
            As in :meth:`match`.

        Returns
        -------
        numpy.ndarray
            The ids of the matching rules: integers if all ids are integers, objects otherwise.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add(7, "age > 18")
        >>> m.match_array({"age": 30})
        array([7])
        """
        if self._event_limits is not None:
            self._event_limits.check(event)
        if self._ratifier is not None:
            self._ratifier.take(event)
        searcher = self._searcher
        if only is None and at is None and not searcher.needs_time:
            return searcher.match_array(event, EVERY_RULE)
        return searcher.match_array(event, self._select(only, at))

    def first(
        self,
        event: Event,
        n: int = 1,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """Find the `n` matching rules of the highest priorities.

        Parameters
        ----------
        event
            Attributes and their values.
        n
            How many rules to return at most.
        only, at
            As in :meth:`match`.

        Returns
        -------
        list
            Ids, the highest priority first; of equal priorities the rule that was added first.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("default", "price > 0")
        >>> m.add("sale", "price < 25", priority=5)
        >>> m.first({"price": 20})
        ['sale']
        """
        _check_n(n)
        self._check_size(event)
        return self._searcher.first(event, n, self._select(only, at))

    def top(
        self,
        event: Event,
        n: int = 10,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        weights: Mapping[tuple[str, Any], float] | None = None,
        at: datetime | None = None,
    ) -> list[tuple[RuleId, float]]:
        """Find the `n` matching rules of the highest scores.

        A satisfied predicate scores the rule's weight times the event's weight, summed over the
        event's values that satisfy it; a negated one scores 0. AND adds up its parts, OR takes the
        best of those that hold.

        Parameters
        ----------
        event
            Attributes and their values.
        n
            How many rules to return at most.
        only, at
            As in :meth:`match`.
        weights
            The weights of the event's values: ``{("author", "Smith"): 0.8}``; 1 by default.

        Returns
        -------
        list
            Pairs of id and score, the best first; of equal scores the rule that was added first.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("smith", "author = 'Smith'", weights={("author", "Smith"): 2.0})
        >>> m.add("new", "year > 2020", weights={"year > 2020": 1.5})
        >>> m.top({"author": "Smith", "year": 2024})
        [('smith', 2.0), ('new', 1.5)]
        >>> m.top({"author": "Smith", "year": 2024}, weights={("author", "Smith"): 0.5})
        [('new', 1.5), ('smith', 1.0)]
        """
        _check_n(n)
        self._check_size(event)
        if self._ratifier is not None:
            self._ratifier.take(event)
        searcher = self._searcher
        if only is None and at is None and not searcher.needs_time:
            return searcher.top(event, n, EVERY_RULE, weights)
        return searcher.top(event, n, self._select(only, at), weights)

    def match_expression(
        self,
        event: RuleSource,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """Find the rules that a partially known event could satisfy.

        Parameters
        ----------
        event
            Predicates, in any of the forms of a rule: ``"price BETWEEN 20 AND 40 AND genre =
            'classics'"``. They stand for all events with exactly the attributes mentioned, each
            with one value that satisfies its predicates. With an OR, they stand for the events of
            each alternative.
        only, at
            As in :meth:`match`.

        Returns
        -------
        list
            The ids of the rules that at least one of these events satisfies, in the order in which
            they were added.

        Raises
        ------
        EventError
            The event describes a string only by a pattern such as ``LIKE '%x%'``; or a rule has
            such a pattern, and the event allows infinitely many strings; or a rule applies a
            function to an attribute that the event mentions.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("cheap", "price < 25")
        >>> m.add("dear", "price > 50")
        >>> m.match_expression("price BETWEEN 20 AND 40 AND genre = 'classics'")
        ['cheap']
        """
        snapshot, selection = self._snapshot, self._select(only, at)
        views, tail = snapshot.views, snapshot.tail
        if len(tail) > _SMALL_TAIL:
            views, tail = self._frozen_views(snapshot), NO_TAIL
        searcher = ExpressionSearcher(views, self._schema, self._expressions)
        return searcher.match(event, tail, selection)

    # --- Many events ---

    def match_many(
        self,
        events: Any,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
        form: Literal["pairs", "lists"] = "pairs",
        on_error: Literal["raise", "skip"] = "raise",
        skipped: list[BadEvent] | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """Find the rules that each of many events satisfies.

        Parameters
        ----------
        events
            A list of mappings, an Arrow table, batch or reader, a pandas or a polars frame, or an
            Arrow array of JSON texts, each an object. Arrow columns are read as they are, without a
            loop over rows, and JSON texts without Python objects for their values.
        only, at
            As in :meth:`match`.
        form
            ``"pairs"`` for a row per match, ``"lists"`` for a row per event with a list of rules.
        on_error
            ``"skip"`` leaves out the events that are refused, and reports each of them.
        skipped
            A list that skipped events are appended to, as :class:`BadEvent`. Without it, skipped
            events are reported by a warning.

        Returns
        -------
        pyarrow.Table
            One row per match, with event (the row number) and rule (the id), by event and then in
            the order in which the rules were added. In lists, one row per event, with event and
            rules; ids that are strings are dictionary-encoded. For a reader, a reader: it computes
            batches of bounded size while they are read.

        Raises
        ------
        EventError, SchemaError
            An event is refused and not skipped; the message has its number.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("teens", "age BETWEEN 13 AND 19")
        >>> m.match_many([{"age": 15}, {"age": 40}, {"age": 17}]).to_pydict()
        {'event': [0, 2], 'rule': ['teens', 'teens']}
        >>> m.match_many([{"age": 15}, {"age": 40}], form="lists").to_pydict()
        {'event': [0, 1], 'rules': [['teens'], []]}
        >>> import pyarrow as pa
        >>> m.match_many(pa.array(['{"age": 15}', '{"age": 40}'])).to_pydict()
        {'event': [0], 'rule': ['teens']}
        >>> bad = []
        >>> m.match_many([{"age": b"15"}, {"age": 17}], on_error="skip", skipped=bad).to_pydict()
        {'event': [1], 'rule': ['teens']}
        >>> bad[0].event
        0
        """
        _check_form(form)
        if self._ratifier is not None:
            self._ratifier.take_many(events)
        searcher = self._batch_searcher(on_error, skipped)
        return searcher.match(events, self._select(only, at), form)

    def match_expression_many(
        self,
        events: Iterable[RuleSource],
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
        form: Literal["pairs", "lists"] = "pairs",
        on_error: Literal["raise", "skip"] = "raise",
        skipped: list[BadEvent] | None = None,
    ) -> pa.Table:
        """Find the rules that each of many partially known events could satisfy.

        Parameters
        ----------
        events
            Event expressions; see :meth:`match_expression`.
        only, at, form, on_error, skipped
            As in :meth:`match_many`.

        Returns
        -------
        pyarrow.Table
            As :meth:`match_many` returns it.

        Raises
        ------
        EventError
            An event is refused and not skipped; the message has its number.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("cheap", "price < 25")
        >>> m.add("dear", "price > 50")
        >>> m.match_expression_many(["price > 20", "price BETWEEN 60 AND 70"]).to_pydict()
        {'event': [0, 0, 1], 'rule': ['cheap', 'dear', 'dear']}
        """
        _check_form(form)
        if isinstance(events, str | Mapping):
            raise TypeError("events is an iterable of expressions; pass a single one in a list")
        skips = _to_skipped_events(on_error, skipped)
        selection = self._select(only, at)
        views = self._frozen_views(self._snapshot)
        searcher = ExpressionSearcher(views, self._schema, self._expressions)
        return searcher.match_many(events, selection, form, skips)

    def count_many(
        self,
        events: Any,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        skipped: list[BadEvent] | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """Count the rules that each of many events satisfies, without listing them.

        Parameters
        ----------
        events, only, at, on_error, skipped
            As in :meth:`match_many`.

        Returns
        -------
        pyarrow.Table
            One row per event, with event (the row number) and matches. For a reader, a reader.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("teens", "age BETWEEN 13 AND 19")
        >>> m.count_many([{"age": 15}, {"age": 40}]).to_pydict()
        {'event': [0, 1], 'matches': [1, 0]}
        """
        searcher = self._batch_searcher(on_error, skipped)
        return searcher.count(events, self._select(only, at))

    def top_many(
        self,
        events: Any,
        n: int = 10,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        skipped: list[BadEvent] | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """Find the `n` matching rules of the highest scores for each of many events.

        Parameters
        ----------
        events, only, at, on_error, skipped
            As in :meth:`match_many`.
        n
            How many rules to return per event at most.

        Returns
        -------
        pyarrow.Table
            Columns event (the row number), rank (1 for the best), rule (the id) and score. For a
            reader, a reader.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("low", "x = 1", weights={("x", 1): 0.5})
        >>> m.add("high", "x = 1", weights={("x", 1): 2.0})
        >>> m.top_many([{"x": 1}], n=1).to_pylist()
        [{'event': 0, 'rank': 1, 'rule': 'high', 'score': 2.0}]
        """
        _check_n(n)
        searcher = self._batch_searcher(on_error, skipped)
        return searcher.top(events, n, self._select(only, at))

    def first_many(
        self,
        events: Any,
        n: int = 1,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        skipped: list[BadEvent] | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """Find the `n` matching rules of the highest priorities for each of many events.

        Parameters
        ----------
        events, only, at, on_error, skipped
            As in :meth:`match_many`.
        n
            How many rules to return per event at most.

        Returns
        -------
        pyarrow.Table
            Columns event (the row number), rank (1 for the first), rule (the id) and priority. For
            a reader, a reader.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("default", "price > 0")
        >>> m.add("sale", "price < 25", priority=5)
        >>> m.first_many([{"price": 20}, {"price": 30}]).to_pydict()["rule"]
        ['sale', 'default']
        """
        _check_n(n)
        searcher = self._batch_searcher(on_error, skipped)
        return searcher.first(events, n, self._select(only, at))

    # --- Documents ---

    def publish(
        self,
        event: Event,
        *,
        id: str | None = None,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
        received_by: Iterable[str] | Callable[[frozenset[str]], Iterable[str]] | None = None,
    ) -> list[RuleId]:
        """Find the rules that an event satisfies, then remember the event as a document.

        Events are published one after the other: each sees all events before it.

        Parameters
        ----------
        event
            Attributes and their values.
        id
            The event's id among :attr:`documents`, where it replaces a document of the same id;
            a number by default.
        only, at
            As in :meth:`match`.
        received_by
            The names of the subscriptions that receive the event, or a function that chooses them
            among those of the matching rules; by default all of these receive it. Rules of these
            subscriptions refer to it by ``FROM received d``.

        Returns
        -------
        list
            The ids of the matching rules, in the order in which they were added.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("new low", "price < ALL (SELECT d.price FROM seen d)")
        >>> [m.publish({"price": price}) for price in (30, 40, 20)]
        [['new low'], [], ['new low']]

        Rules of a subscription may refer to what the subscription has received:

        >>> m.add("again", "user = ANY (SELECT d.user FROM received d)", subscription="ann")
        >>> m.add("large", "size > 10", subscription="ann")
        >>> [m.publish({"user": 7, "size": size}, only=["again", "large"]) for size in (5, 20, 6)]
        [[], ['large'], ['again']]
        """
        self._check_size(event)
        if self._ratifier is not None:
            self._ratifier.take(event)
        flat = self._schema.read(event)
        with self._document_store.publishing:
            self._document_store.note_event(flat)
            ids, subscriptions = self._searcher.match_receivers(flat, self._select(only, at))
            chosen: Iterable[str] = subscriptions
            if received_by is not None:
                given = received_by(subscriptions) if callable(received_by) else received_by
                chosen = check_receivers(given)
            self._document_store.add(flat, id, chosen)
        return ids

    @property
    def documents(self) -> Documents:
        """The events that :meth:`publish` remembers, to which join predicates refer.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.publish({"price": 30}, id="offer")
        []
        >>> m.documents["offer"]
        {'price': 30}
        """
        return self._documents

    # --- Explanations ---

    def explain(self, id: RuleId, event: Event) -> Explanation:
        """Explain why the rule `id` matches an event or does not.

        Returns
        -------
        Explanation
            The rule's tree, marked with what holds and what does not. It prints as an indented
            tree; ``to_json()`` gives the same as plain data.

        Raises
        ------
        UnknownRuleError
            No rule has that id.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18 AND country = 'FR'")
        >>> print(m.explain("r1", {"age": 30, "country": "BE"}))
        ✗ AND   [did not hold]
          ✓ age > 18   [age = 30: held]
          ✗ country = 'FR'   [country = 'BE': did not hold]
        """
        self._check_size(event)
        return self._explainer.explain(self.rule(id), event)

    def why(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> dict[RuleId, Explanation]:
        """Explain each rule that an event satisfies.

        Parameters
        ----------
        event, only, at
            As in :meth:`match`.

        Returns
        -------
        dict
            The matching rules, in the order of :meth:`match`, each with its explanation.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18 OR country = 'FR'")
        >>> print(m.why({"age": 30})["r1"])
        ✓ OR   [held]
          ✓ age > 18   [age = 30: held]
          ∅ country = 'FR'   [country is absent: absent]
        """
        self._check_size(event)
        rules = self._searcher.match_rules(event, self._select(only, at))
        return {rule.id: self._explainer.explain(rule, event) for rule in rules}

    def why_not(self, id: RuleId, event: Event, *, at: datetime | None = None) -> Obstacles:
        """Find the fewest predicates that would have to change for the rule `id` to match.

        Predicates are taken as independent of one another: of ``x > 3 AND x < 2`` both may be
        listed, since an attribute may have several values.

        Parameters
        ----------
        id, event
            The rule, and the event that does not satisfy it.
        at
            The time at which the rule has to be valid; that of the matcher's clock by default. A
            rule that is not valid then is reported as such, too.

        Returns
        -------
        Obstacles
            It prints as lines; ``to_json()`` gives the same as plain data.

        Raises
        ------
        UnknownRuleError
            No rule has that id.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18 AND country = 'FR'")
        >>> print(m.why_not("r1", {"age": 30, "country": "BE"}))
        it would match with:
          country = 'FR'   [country = 'BE']
        """
        self._check_size(event)
        return self._explainer.find_obstacles(self.rule(id), event, self._microseconds(at))

    # --- Analysis ---

    def uses(self) -> list[AttributeUse]:
        """List the attributes that rules mention, the most used first, and how rules use them.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age > 18 AND country IN ('FR', 'BE')")
        >>> [(use.attribute, use.predicates, use.values["string"]) for use in m.uses()]
        [('age', 1, 0), ('country', 1, 2)]
        """
        from tamis.matcher.analysis.vocabulary import list_uses

        return list_uses(view.segment for view in self._frozen_views(self._snapshot))

    def mentioned(self, attribute: str) -> Mentioned:
        """Find the values of an attribute that rules mention.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("r1", "age BETWEEN 13 AND 19 OR age > 65")
        >>> [value for values in m.mentioned("age").values.values() for value in values]
        [False, True, 13, 19, 65]
        """
        from tamis.matcher.analysis.vocabulary import find_mentioned

        segments = [view.segment for view in self._frozen_views(self._snapshot)]
        return find_mentioned(segments, attribute)

    def boundaries(
        self,
        event: Event,
        attribute: str,
        *,
        limit: int = 64,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> Boundaries:
        """Find how the matching rules change while one attribute of an event changes.

        Parameters
        ----------
        event
            Attributes and their values.
        attribute
            The attribute that changes.
        limit
            How many of the values that rules mention to look at: those around the event's own.
        only, at
            As in :meth:`match`.

        Returns
        -------
        Boundaries
            The stretches of values within which the same rules match, in rising order.

        Raises
        ------
        EventError
            No rule compares the attribute with a value.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("teens", "age BETWEEN 13 AND 19")
        >>> for stretch in m.boundaries({"age": 15}, "age").stretches:
        ...     print(stretch.low, stretch.high, stretch.matches, stretch.gained, stretch.lost)
        None 13 0 () ()
        13 13 1 ('teens',) ()
        13 19 1 () ()
        19 19 1 () ()
        19 None 0 () ('teens',)
        """
        from tamis.matcher.analysis.boundaries import find_boundaries

        _check_n(limit)
        self._check_size(event)

        def match(events: Sequence[Event]) -> list[list[RuleId]]:
            found = self.match_many(list(events), only=only, at=at, form="lists")
            lists: list[list[RuleId]] = found["rules"].to_pylist()
            return lists

        return find_boundaries(self._schema.read(event), self.mentioned(attribute), match, limit)

    def test(self, *, only: Tagged | Iterable[RuleId] | None = None) -> RuleTestReport:
        """Run the tests that rules carry: events that they must match, and must not match.

        The payload of a rule holds them: ``{"tests": {"must_match": [event, …], "must_not_match":
        [event, …]}}``. A test is about what a rule says, whether or not the rule is valid now.

        Parameters
        ----------
        only
            Run the tests of these rules only.

        Returns
        -------
        RuleTestReport
            It prints as the tests that failed, each with the rule's tree.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> tests = {"must_match": [{"age": 18}], "must_not_match": [{"age": 20}]}
        >>> m.add("adults", "age >= 18", payload={"tests": tests})
        >>> print(m.test())
        adults: must_not_match 1: the rule matches {"age":20}
            ✓ age >= 18   [age = 20: held]
        1 rules with tests: 1 passed, 1 failed
        """
        from tamis.matcher.analysis.rule_tests import run_tests

        selection = self._select(only, None)
        if only is None:
            rules: Iterable[Rule] = self._snapshot.rules_with_payload()
        elif isinstance(selection.only, Tagged):
            carriers = self._snapshot.rules_with_payload()
            rules = (rule for rule in carriers if selection.only.fits(rule.tags))
        else:
            rules = [rule for id in selection.only or () if (rule := self._snapshot.find(id))]
        return run_tests(rules, self._explainer)

    def similar(
        self, rule: RuleSource | RuleId, n: int = 10, *, events: Any = None, seed: int = 0
    ) -> list[Similar]:
        """Find the rules that match nearly the same events as `rule`.

        Parameters
        ----------
        rule
            The id of a rule, or a rule in any of its forms, in the logic of this matcher.
        n
            How many rules to return at most.
        events
            Events to compare by, as for :meth:`match_many`. By default events are drawn at random
            around the values that rules mention, each so that it satisfies some rule; then the
            shares are estimates.
        seed
            The seed of the random draws.

        Returns
        -------
        list of Similar
            Rules, the most similar first, with the share of events that both match, and whether
            one is proved to imply the other. Rules that share none of the events are left out.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18")
        >>> m.add("seniors", "age >= 65")
        >>> m.similar("age >= 66")[0].id
        'seniors'
        """
        from tamis.matcher.analysis.similar import find_similar

        _check_n(n)
        if isinstance(rule, int) and not isinstance(rule, bool):
            wanted = self.rule(rule)
        else:
            known = self._snapshot.find(rule) if isinstance(rule, str) else None
            wanted = known or make_rule("", to_expr(rule), self._logic)
        return find_similar(self, wanted, n, schema=self._schema, events=events, seed=seed)

    def ratify(
        self,
        *,
        sample: int = 1_000,
        seconds: float = 10.0,
        seed: int = 0,
        processes: int | None = None,
        limit: int = 20,
        watch: Callable[[int, float], None] = lambda events, fraction: None,
    ) -> Ratification:
        """Check this matcher's answers against :func:`tamis.evaluate` on difficult events.

        The events are drawn around the values at which the truth of a rule changes: these values,
        their direct neighbours, absent attributes, several values.

        Parameters
        ----------
        sample
            How many rules to check, drawn at random.
        seconds
            How long to check; a few events are checked in any case.
        seed
            The seed of the random draws.
        processes
            How many processes evaluate rules; one per core by default.
        limit
            How many differences to find before stopping.
        watch
            Called repeatedly with the number of events checked and the fraction of the time passed.

        Returns
        -------
        Ratification
            How much was checked, and the differences, each with its rule and event reduced to what
            shows the difference.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18")
        >>> m.ratify(seconds=0.1, processes=1).differences
        []
        """
        from tamis.matcher.analysis.ratify import ratify

        return ratify(
            self,
            schema=self._schema,
            fresh=lambda: Matcher(self._engine.name, self._logic, self._schema.types),
            sample=sample,
            seconds=seconds,
            seed=seed,
            processes=processes,
            limit=limit,
            watch=watch,
        )

    @property
    def differences(self) -> list[Difference]:
        """What ``ratify="continuous"`` has found: the last hundred wrong answers, oldest first.

        Examples
        --------
        >>> import tamis
        >>> with tamis.Matcher(ratify="continuous", budget=0.05) as m:
        ...     m.add("adults", "age >= 18")
        ...     m.differences
        []
        """
        return [] if self._ratifier is None else self._ratifier.differences

    def lint(
        self,
        *,
        single_valued: bool = False,
        watch: Callable[[int, float], None] = lambda rules, fraction: None,
    ) -> list[Finding]:
        """Find rules that never match, always match, repeat another rule, or are implied by one.

        Every finding is proved. What cannot be proved, as for many patterns, is not reported.

        Parameters
        ----------
        single_valued
            Whether no attribute ever has several values. By default only attributes that the
            schema declares as scalars are known to: ``x = 1 AND x = 2`` matches an event with both.
        watch
            Called repeatedly with the number of rules checked and the fraction of the work done.

        Returns
        -------
        list of Finding
            In the order in which the rules were added.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18")
        >>> m.add("seniors", "age >= 65")
        >>> print(m.lint()[0])
        'seniors' matches only where 'adults' does
        """
        from tamis.matcher.analysis.lint import lint

        return lint(self, schema=self._schema, single_valued=single_valued, watch=watch)

    def check(
        self,
        events: Any,
        *,
        watch: Callable[[int, float | None], None] = lambda count, fraction: None,
    ) -> CheckReport:
        """Find out why rules match nothing: compare what they mention with what events have.

        An attribute that is misspelt is absent, and values of different kinds do not compare;
        neither is an error when an event is matched. The check names attributes that rules mention
        and no event has, and attributes whose values never compare with what rules say.

        Parameters
        ----------
        events
            Events like those to come, as for :meth:`match_many`. All are read, in chunks, and only
            their attributes and kinds are kept.
        watch
            Called repeatedly: with the number of events read and None, then with the number of
            rules checked and the fraction of all.

        Returns
        -------
        CheckReport
            The findings, those that affect the most rules first, and how many rules can match. It
            prints as lines.

        Raises
        ------
        EventError
            `events` is not a container of events, or one of them is not a mapping.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "aeg >= 18")
        >>> m.add("french", 'country = "FR"')
        >>> report = m.check([{"age": 30, "country": "FR"}])
        >>> print(report.findings[0])
        no event has 'aeg'; did you mean 'age'? (1 rule: 'adults')
        >>> report.possible, report.rules
        (0, 2)
        """
        from tamis.matcher.analysis.check import check

        return check(
            self._snapshot,
            events,
            mentioned=self.attributes(),
            schema=self._schema,
            watch=watch,
        )

    def backtest(
        self,
        rules: Any,
        events: Any,
        *,
        id: RuleId | None = None,
        time: str | None = None,
        bins: int = 24,
        samples: int = 5,
        watch: Callable[[int], None] = lambda events: None,
    ) -> Backtest:
        """Run draft rules over past events: how many match, when, and what changes.

        The rules of this matcher stay as they are. A draft with the id of one of them is compared
        with it: events that only the draft matches are *gained*, those that only the saved rule
        matches are *lost*. Whether rules are valid at a time is not considered.

        Parameters
        ----------
        rules
            A draft as text or as a model, or several of them as in :meth:`add_many`.
        events
            Past events, as for :meth:`match_many`; the log of a collection; or
            ``tamis.files.EventFile(path)``.
        id
            The id of a single draft; ``"draft"`` by default.
        time
            The attribute with the time of an event: a timestamp, an ISO text, or seconds since
            1970. By default the time at which a log got the event.
        bins
            Into how many periods the time is divided at most.
        samples
            How many events of each kind to return.
        watch
            Called repeatedly with the number of events done.

        Returns
        -------
        Backtest
            It prints as a report; ``to_json()`` gives the same as plain data.

        Raises
        ------
        RuleError
            A draft is refused.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("cheap", "price < 20")
        >>> past = [{"price": price} for price in range(0, 100, 5)]
        >>> print(m.backtest("price BETWEEN 10 AND 30", past, id="cheap", samples=1))
        20 events
        <BLANKLINE>
        'cheap' matches 5 (25.00%), before 4: 3 gained, 2 lost
          price BETWEEN 10 AND 30
          gained, such as
                   4  {"price":20}
          lost, such as
                   0  {"price":0}
        """
        from tamis.matcher.analysis.backtest import backtest

        return backtest(
            self,
            rules,
            events,
            id=id,
            time=time,
            bins=bins,
            samples=samples,
            fresh=lambda: Matcher(self._engine.name, self._logic, self._schema.types),
            watch=watch,
        )

    def stats(self) -> Stats:
        """Get figures about the rules and the index: numbers of rules and segments, sizes in bytes.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18 AND country IN ('FR', 'BE')")
        >>> stats = m.stats()
        >>> stats["rules"], stats["attributes"]
        (1, 2)
        """
        snapshot = self._snapshot
        segments = [view.segment for view in self._frozen_views(snapshot) if snapshot.size]
        rules = [segment.engine.rules for segment in segments]
        figures = {
            "engine": self._engine.name,
            "logic": self._logic,
            "rules": snapshot.size,
            "segments": len(snapshot.views),
            "tail": len(snapshot.tail),
            "attributes": len({a for r in rules for a in r.dictionary.attributes}),
            "atoms": sum(len(r.atoms.table) for r in rules),
            "conjunctions": sum(len(r.forms.conjunction_start) - 1 for r in rules),
            "programs": sum(len(r.forms.program_rule) for r in rules),
            "text_predicates": sum(r.texts.size for r in rules),
            "bytes": sum(segment.engine.nbytes for segment in segments),
            "documents": len(self._document_store),
            **({} if self._ratifier is None else {"ratified": self._ratifier.stats()}),
            **({} if self._store is None else self._store.stats()),
        }
        return Stats(figures)

    def anatomy(self) -> Anatomy:
        """Find out what the index is made of: segments, bytes, attributes, and the largest rules.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18 AND country IN ('FR', 'BE')")
        >>> m.anatomy().conjunction_sizes
        [(2, 1)]
        """
        from tamis.matcher.analysis.anatomy import examine

        snapshot = self._snapshot
        views = self._frozen_views(snapshot) if snapshot.size else ()
        return examine(views, len(snapshot.tail))

    def costs(self, events: Iterable[Event] | None = None, *, seed: int = 0) -> Costs:
        """Measure what searches cost: the parts of the index, slow rules, and what merging gains.

        Rules are searched together, so each is measured alone, in an index of its own. It takes
        some seconds.

        Parameters
        ----------
        events
            Events like those to come, of which the first 200 are used. By default some are drawn
            around the values that rules mention.
        seed
            The same seed draws the same rules and events.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add_many({"plain": "age >= 18", "slow": "name RLIKE '(a|b)+c.*d'"}).added
        2
        >>> found = m.costs([{"age": 20, "name": "abba" * 20}])
        >>> found.measured, found.advice
        (2, ['optimize() would gain nothing: all rules are in one segment.'])
        """
        from tamis.matcher.analysis.costs import CostMeter

        meter = CostMeter(
            self,
            self._snapshot,
            self._schema,
            search_in=self._search_in,
            merge=self._merge_segments,
            # A few rules are found at once by any engine; this one is compiled in little time.
            fresh=lambda: Matcher("scan", self._logic, self._schema.types),
            seed=seed,
        )
        return meter.measure(meter.draw_events() if events is None else events)

    def _search_in(self, snapshot: Snapshot) -> Callable[[Event], object]:
        searcher = Searcher(snapshot, self._schema, self._document_store)
        selection = self._select(None, None)
        return lambda event: searcher.match(event, selection)

    # --- Upkeep and storage ---

    def optimize(self, sample: Any = None) -> None:
        """Merge all rules into one segment, for the fastest matching.

        Rarely needed: segments are merged in the background as rules come. It pays off before a
        long period without changes, or with a sample.

        Parameters
        ----------
        sample
            Events like those to come, as for :meth:`match_many`. An engine may arrange the rules
            to suit them; answers stay the same.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18")
        >>> m.optimize()
        >>> m.stats()["segments"]
        1
        """
        self._writer.optimize([] if sample is None else list(split_events(sample)))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save a copy of all rules and :attr:`documents` in a directory for :func:`tamis.open`.

        The matcher itself stays as it is: later changes do not reach the directory.

        Parameters
        ----------
        path
            A directory that does not exist or is empty.
        overwrite
            Whether to replace rules that are stored there; they are replaced atomically. Processes
            that have the directory open for reading keep the old rules until they refresh.

        Raises
        ------
        StorageError
            The directory is not empty, or cannot be written.

        Examples
        --------
        >>> import tamis, tempfile
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     m.save(f"{folder}/rules")
        ...     with tamis.open(f"{folder}/rules", read_only=True) as stored:
        ...         stored.match({"age": 30})
        ['adults']
        """
        folder = Path(path).absolute()
        settings = Settings(self._engine.name, self._logic, self._schema.types)
        if folder.is_dir() and not overwrite and any(folder.iterdir()):
            hint = "; pass overwrite=True to replace them" if is_index(folder) else ""
            content = "stored rules" if is_index(folder) else "something else"
            raise StorageError(f"the directory holds {content}{hint}", path=str(folder))
        # Another process may have stored rules there since; then `create_directory` raises.
        write = replace_directory if overwrite and is_index(folder) else create_directory
        write(folder, settings, self._merge_segments(), self._write_documents)

    def refresh(self) -> bool:
        """Load what a writer has changed since a directory was opened read-only.

        Returns
        -------
        bool
            Whether there was something new. False for a matcher that is not opened read-only, as it
            always has the newest state.

        Examples
        --------
        >>> import tamis, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = tamis.open(f"{folder}/rules")
        ...     reader = tamis.open(f"{folder}/rules", read_only=True)
        ...     writer.add("adults", "age >= 18")
        ...     print(len(reader), reader.refresh(), len(reader))
        ...     writer.close()
        0 True 1
        """
        if self._store is None:
            return False
        state = self._store.refresh()
        if state is not None:
            self._writer.replace_state(state, self._store.revision)
        documents = self._stored_documents
        return (documents is not None and documents.refresh()) or state is not None

    def close(self) -> None:
        """Stop background work, and release the directory for other writers.

        A stored matcher can still be read, but not changed. A matcher in memory stays usable.

        Examples
        --------
        >>> import tamis
        >>> with tamis.Matcher() as m:  # calls close() at the end
        ...     m.add("adults", "age >= 18")
        """
        try:
            if self._ratifier is not None:
                self._ratifier.close()
            self._writer.close()
        finally:
            if self._stored_documents is not None:
                self._stored_documents.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Inside ---

    def _start_ratifier(
        self, ratify: str, budget: float, on_difference: Callable[[Difference], None] | None
    ) -> ContinuousRatifier:
        from tamis.matcher.analysis.continuous import ContinuousRatifier

        if ratify != "continuous":
            raise ValueError(f"ratify is 'continuous' or None, not {ratify!r}")
        if on_difference is not None and not callable(on_difference):
            raise ValueError(f"on_difference is a function of a difference, not {on_difference!r}")
        return ContinuousRatifier(
            weakref.WeakMethod(self._pin_search),
            self._schema,
            self._document_store,
            budget=budget,
            on_difference=on_difference,
        )

    def _pin_search(self, last: object) -> tuple[object, PinnedSearch]:
        """A search of the newest snapshot for the ratifier, and the snapshot as a mark of it."""
        from tamis.matcher.analysis.continuous import PinnedSearch

        searcher = self._searcher
        snapshot, at = searcher.snapshot, self._now()
        selection = Selection.of(None, at)

        def match_many(event: Event) -> list[RuleId]:
            views = snapshot.frozen_views
            encoder = ChunkEncoder(views, self._schema, self._document_store, None, None, None)
            found = BatchSearcher(views, encoder).match([event], selection, "pairs")
            ids: list[RuleId] = found["rule"].to_pylist()
            return ids

        return snapshot, PinnedSearch(
            is_new=snapshot is not last,
            draw=snapshot.draw_rule,
            at=at,
            has_joins=searcher.has_joins,
            find=snapshot.find,
            match=lambda event: searcher.match(event, selection),
            # With many rules in the tail it would build a segment of them first.
            match_many=match_many if len(snapshot.tail) <= _SMALL_TAIL else None,
            top=lambda event, n: searcher.top(event, n, selection),
        )

    @property
    def _snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self._writer.snapshot

    @property
    def _searcher(self) -> Searcher:
        """A searcher over the newest snapshot, kept until the next change."""
        snapshot, searcher = self._snapshot, self._last_searcher
        if searcher is None or searcher.snapshot is not snapshot:
            # Two threads may both build one; either is right.
            searcher = self._last_searcher = self._build_searcher(snapshot)
        return searcher

    def _build_searcher(self, snapshot: Snapshot) -> Searcher:
        milliseconds = self._limits.milliseconds
        if milliseconds is None:
            return Searcher(snapshot, self._schema, self._document_store)
        return TimedSearcher(milliseconds, snapshot, self._schema, self._document_store)

    def _batch_searcher(self, on_error: str, skipped: list[BadEvent] | None) -> BatchSearcher:
        skips = _to_skipped_events(on_error, skipped)
        views = self._frozen_views(self._snapshot)
        encoder = ChunkEncoder(
            views,
            self._schema,
            self._document_store,
            self._event_limits,
            self._limits.milliseconds,
            skips,
        )
        return BatchSearcher(views, encoder)

    def _check_size(self, event: Any) -> None:
        """Refuse an event that is larger than the limits."""
        if self._event_limits is not None:
            self._event_limits.check(event)

    def _frozen_views(self, snapshot: Snapshot) -> tuple[View, ...]:
        """Views of segments with all rules of `snapshot`.

        If building a segment from its tail takes long, later snapshots keep the segment.
        """
        views = snapshot.frozen_views
        if len(snapshot.tail) > _SMALL_TAIL:
            self._writer.freeze_tail(snapshot, wait=False)
        return views

    def _merge_segments(self) -> Segment | None:
        """All rules in one segment; None if there are no rules."""
        views = [view for view in self._snapshot.frozen_views if view.size]
        if not views:
            return None
        if len(views) == 1 and views[0].size == len(views[0].segment):
            return views[0].segment
        return self._builder.merge(views)

    def _write_documents(self, folder: Path) -> None:
        write_documents(folder, self._document_store)

    def _select(self, only: Tagged | Iterable[RuleId] | None, at: datetime | None) -> Selection:
        return Selection.of(only, self._microseconds(at))

    def _microseconds(self, at: datetime | None) -> int:
        return self._now() if at is None else to_microseconds(at)

    def _read_rules(
        self, rules: Any, on_error: str
    ) -> tuple[list[Rule] | NewRules, list[BadRule] | None]:
        """Read the rules of `add_many`, and a list of the bad ones; None if these raise."""
        _check_on_error(on_error)
        bad: list[BadRule] | None = [] if on_error == "skip" else None
        return read_rules(rules, self._logic, bad, self._rule_limits), bad


def _check_form(form: str) -> None:
    if form not in ("pairs", "lists"):
        raise ValueError(f"form is 'pairs' or 'lists', not {form!r}")


def _to_skipped_events(on_error: str, skipped: list[BadEvent] | None) -> SkippedEvents | None:
    """What takes the events that are skipped; None if none are."""
    _check_on_error(on_error)
    if skipped is not None and on_error != "skip":
        raise ValueError("skipped takes events that are skipped; pass on_error='skip', too")
    return SkippedEvents(skipped) if on_error == "skip" else None


def _check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is 'raise' or 'skip', not {on_error!r}")


def _check_n(n: int) -> None:
    """Refuse anything but a number of rules."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n is a whole number, not {n!r}")
