"""The facade: a collection of rules that is read while it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Collection as Several
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import Events, rows_between
from tamis.engines.registry import engine_named
from tamis.errors import RuleError, StorageError, UnknownRuleError
from tamis.expr.derive import bases_of
from tamis.expr.evaluate import score_flat
from tamis.expr.event import Event, FlatEvent
from tamis.expr.explain import Explanation, explain_flat
from tamis.expr.model import Expr, check_logic, predicates
from tamis.expr.names import JOINED
from tamis.expr.obstacles import Obstacles, obstacles_flat
from tamis.expr.sql import join_of
from tamis.expr.weights import EventWeights
from tamis.joins.documents import Documents
from tamis.joins.retention import Retention
from tamis.matcher.collection import Collection
from tamis.matcher.ids import Ids
from tamis.matcher.inputs import event_chunks, rule_items
from tamis.matcher.joined import JoinedRules, joined_of, joins_of, with_truths
from tamis.matcher.life import Clock, Life, clock_of, moment_of
from tamis.matcher.making import BadRule, Maker
from tamis.matcher.results import id_type, joined_matches, joined_tops
from tamis.matcher.rule import Rule, RuleId, RuleSource, Tagged, expr_of, make_rule
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import Chosen, Snapshot, View
from tamis.matcher.stabbing import Stabbing
from tamis.matcher.storage.documents import DocumentFile, read_documents, write_documents
from tamis.matcher.storage.manifest import Settings
from tamis.matcher.storage.store import Store, create, is_index, replace
from tamis.matcher.tail import Reading, TailRule
from tamis.matcher.turns import empty, short_turns

if TYPE_CHECKING:
    from tamis.matcher.kit.lint import Finding
    from tamis.matcher.kit.ratify import Ratification
    from tamis.matcher.kit.similar import Similar

__all__ = ["AddReport", "BadRule", "Matcher"]


class AddReport(NamedTuple):
    """What `Matcher.add_many` did."""

    added: int
    bad: list[BadRule]


class Matcher:
    """Holds rules and finds those that an event satisfies.

    Any number of threads may read and write at once. A reader works on the state it found when it
    began, which never changes, and waits for nobody but for the microseconds that it takes another
    to look up an event among the rules that came last, or to put one there. Writers take turns.

    Parameters
    ----------
    engine
        The name of an engine; see :func:`tamis.engines`.
    logic
        The logic of rules that do not name their own: ``"strong"`` or ``"weak"``.
    schema
        What is known of attributes: ``{"price": "double", "tags": "string[]"}``. A declared
        scalar holds at most one value, ISO texts become timestamps where one is declared,
        and an event that contradicts the schema is an error.
    clock
        Tells what time it is, for rules that are valid for some time only; the machine's by
        default. Methods that find rules take a time of their own, too: ``at=``.
    documents
        How long :meth:`publish` remembers events, for rules with join predicates; without it,
        for ever. With ``False`` such rules are refused.

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
        schema: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        *,
        documents: Retention | Literal[False] | None = None,
    ) -> None:
        self._now = clock_of(clock)
        self._engine = engine_named(engine)
        self._logic = check_logic(logic)
        self._schema = Schema(schema or {})
        self._maker = Maker(self._engine, self._schema, takes_joins=documents is not False)
        self._collection = Collection(self._maker)
        self._store: Store | None = None
        self._have_documents(Documents(documents or None, self._schema.read))

    def _have_documents(self, documents: Documents) -> None:
        self._documents = documents
        self._seen_joins: tuple[Snapshot, JoinedRules | None] | None = None
        """What the join predicates of the last snapshot were."""
        self._document_file: DocumentFile | None = None
        self._seen_documents: tuple[int, int] | None = None
        """Which file of documents was read last, and up to where."""

    @classmethod
    def _stored(
        cls,
        logic: str,
        maker: Maker,
        store: Store,
        clock: Clock | None,
        documents: Documents,
    ) -> Matcher:
        """A matcher over what a directory holds; see :func:`tamis.open`."""
        matcher = cls.__new__(cls)
        matcher._now = clock_of(clock)
        matcher._engine, matcher._schema = maker.engine, maker.schema
        matcher._logic = check_logic(logic)
        matcher._maker = maker
        matcher._collection = Collection(maker, store.state)
        matcher._collection.keep_in(store)
        matcher._store = store
        matcher._have_documents(documents)
        matcher._keep_documents(store)
        store.state = None
        return matcher

    def _keep_documents(self, store: Store) -> None:
        """Have the documents of a directory, and keep what comes there."""
        self._documents.check_writable = store.check_writable
        if store.read_only:
            self._restore_documents()
            return
        state = read_documents(store.folder)
        if state is not None:
            self._documents.restore(state.documents.values(), state.following)
        file = DocumentFile(store.folder, self._documents, state)
        self._document_file = file
        self._documents.keep_in(file)

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
        replace: bool = False,
    ) -> None:
        """Add a rule; it is found from now on.

        Parameters
        ----------
        id
            A string or a 64-bit integer that no other rule has.
        rule
            The rule as text, as a model, or in the JSON form.
        logic
            The rule's own logic.
        weights
            What the rule weighs: ``{("author", "Smith"): 2.0}`` for a value of ``=`` or ``IN``,
            ``{"price > 10": 0.5}`` for a predicate of another kind.
        payload
            Any JSON to keep with the rule.
        tags
            Names by which ``only=tagged(…)`` finds the rule.
        priority
            Rules of a higher one come first in :meth:`first`.
        valid_from, valid_until
            The rule matches from the first of these moments on, and before the second: a datetime
            or an ISO text, taken as UTC if it names no zone.
        replace
            Whether a rule of that id is replaced; without it that is an error.

        Raises
        ------
        RuleError
            The rule is refused, and nothing was changed.
        """
        try:
            life = Life.of(priority, valid_from, valid_until)
            made = make_rule(id, rule, logic or self._logic, weights, payload, tags, life)
        except RuleError as error:
            error.rule_id = id
            raise
        self._collection.add([made], replace)

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
            Pairs of id and rule (or triples with the logic), :class:`Rule` objects, a mapping,
            or an Arrow table with the columns id, rule and, if there is one, logic.
        on_error
            ``"skip"`` leaves out the rules that are refused, and reports each.
        replace
            Whether rules of the same ids are replaced; without it that is an error.
        """
        with short_turns():
            made, bad = self._made_all(rules, on_error)
            added = self._collection.add(made, replace, bad)
            empty([made])
        return AddReport(added, bad or [])

    def replace_all(self, rules: Any, *, on_error: Literal["raise", "skip"] = "raise") -> AddReport:
        """Have these rules and no others: readers see all of the old or all of the new.

        Parameters
        ----------
        rules, on_error
            As in :meth:`add_many`. If one is refused and not skipped, the old rules stay.
        """
        with short_turns():
            made, bad = self._made_all(rules, on_error)
            added = self._collection.replace_all(made, bad)
            empty([made])
        return AddReport(added, bad or [])

    def remove(self, id: RuleId) -> None:
        """Remove a rule; it is not found any more.

        Raises
        ------
        UnknownRuleError
            There is no rule of that id.
        """
        self._collection.remove([id])

    def remove_many(self, ids: Iterable[RuleId]) -> int:
        """Remove many rules at once, and return how many: all, or none if one is not there.

        Raises
        ------
        UnknownRuleError
            There is no rule of one of these ids.
        """
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise RuleError(f"expected a list of ids, not {ids!r}")
        return self._collection.remove(list(ids))

    def remove_ended(self, at: datetime | None = None) -> int:
        """Remove the rules that are not valid any more at a time, and return how many.

        Parameters
        ----------
        at
            By default, the time of the matcher's clock.
        """
        ended = list(self._snapshot.ended(self._moment(at)))
        return self._collection.remove(ended) if ended else 0

    def optimize(self, sample: Any = None) -> None:
        """Bring all rules together for the fastest matching, in the time that takes.

        Not needed: segments are merged in the background as rules come. It is worth its time
        before a long period without changes, or with a sample.

        Parameters
        ----------
        sample
            Some events like those to come, as for :meth:`match_many`: an engine may put the
            rules in an order that is good for them. The answers stay the same.
        """
        self._collection.optimize([] if sample is None else list(event_chunks(sample)))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Store all rules, and :attr:`documents`, in a directory for :func:`tamis.open`.

        The matcher itself stays as it is: what is added later is not in that directory.

        Parameters
        ----------
        path
            A directory that does not exist or is empty.
        overwrite
            Whether rules that are stored there are replaced, at once. Processes that have them
            open for reading go on with the old ones until they refresh.

        Raises
        ------
        StorageError
            The directory holds something, or cannot be written.
        """
        folder = Path(path).absolute()
        settings = Settings(self._engine.name, self._logic, self._schema.types)
        if folder.is_dir() and not overwrite and any(folder.iterdir()):
            hint = "; pass overwrite=True to replace them" if is_index(folder) else ""
            kind = "stored rules" if is_index(folder) else "something else"
            raise StorageError(f"the directory holds {kind}{hint}", path=str(folder))
        views = [view for view in self._snapshot.frozen_views if view.size]
        whole = len(views) == 1 and views[0].size == len(views[0].segment)
        segment = views[0].segment if whole else self._maker.merged(views) if views else None
        if is_index(folder):
            replace(folder, settings, segment, self._write_documents)
        else:
            create(folder, settings, segment, self._write_documents)

    def _write_documents(self, folder: Path) -> None:
        write_documents(folder, self._documents)

    def refresh(self) -> bool:
        """See what a writer has changed since a directory was opened read-only.

        Returns
        -------
        bool
            Whether there is something new. Other matchers always see the newest state.
        """
        if self._store is None:
            return False
        state = self._store.refreshed()
        if state is not None:
            self._collection.show(state)
        return self._restore_documents() or state is not None

    def _restore_documents(self) -> bool:
        """Read the documents of a directory that others write to, if they have changed."""
        assert self._store is not None
        if not self._store.read_only:
            return False
        state = read_documents(self._store.folder)
        seen = None if state is None else (state.number, state.length)
        if seen == self._seen_documents or state is None:
            return False
        self._seen_documents = seen
        self._documents.restore(state.documents.values(), state.following)
        return True

    def close(self) -> None:
        """End what is going on in the background, and let others write to the directory.

        A stored matcher can be read on, but not changed; one in memory stays as it is.
        """
        try:
            self._collection.close()
        finally:
            if self._document_file is not None:
                self._document_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _snapshot(self) -> Snapshot:
        """The state that a reader works on from now on."""
        if self._collection.damage is not None:
            raise self._collection.damage
        return self._collection.snapshot

    def match(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        weights: Mapping[tuple[str, Any], float] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """The ids of the rules that `event` satisfies, in the order in which they were added.

        Parameters
        ----------
        event
            Attributes and their values.
        only
            Look at these rules only: ids (those that no rule has are ignored), or
            ``tamis.tagged("gold")`` for rules with certain tags.
        weights
            Checked, but without effect here: they count in :meth:`top`.
        at
            The time at which rules have to be valid; by default that of the matcher's clock.
        """
        if weights is not None:
            EventWeights.of(weights)
        return self._ids(*self._found(event, only, at))

    def publish(
        self,
        event: Event,
        *,
        id: str | None = None,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """As :meth:`match`, and then remember the event: it is a document seen before.

        Of several threads that publish at once, each sees the events of those before it.

        Parameters
        ----------
        event
            Attributes and their values.
        id
            The id of the event among :attr:`documents`, where it takes the place of another of
            the same id; a number by default.
        only, at
            As in :meth:`match`.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("new low", "price < ALL (SELECT d.price FROM seen d)")
        >>> [m.publish({"price": price}) for price in (30, 40, 20)]
        [['new low'], [], ['new low']]
        """
        flat = self._schema.read(event)
        with self._documents.publishing:
            found = self._ids(*self._found_flat(flat, self._chosen(only, at)))
            self._documents.remember(flat, id)
        return found

    @property
    def documents(self) -> Documents:
        """The events that :meth:`publish` has remembered, as documents seen before."""
        return self._documents

    def match_array(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> NDArray[Any]:
        """As :meth:`match`, but as an array, and in no particular order.

        It is an array of integers if all ids are integers, else one of objects.
        """
        segments, tail = self._found(event, only, at)
        parts: list[NDArray[Any]] = [segment.ids.array(places) for segment, places in segments]
        if tail:
            parts.append(_id_array([entry.rule.id for entry in tail]))
        if len(parts) == 1:
            return parts[0]
        if any(part.dtype == object for part in parts):
            parts = [part.astype(object) for part in parts]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def first(
        self,
        event: Event,
        n: int = 1,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """The `n` matching rules with the highest priorities, the highest first.

        Of equal priorities the rule that was added first comes first.

        Parameters
        ----------
        event
            Attributes and their values.
        n
            How many rules at most.
        only, at
            As in :meth:`match`.
        """
        _check_n(n)
        segments, tail = self._found(event, only, at)
        found: list[tuple[int, RuleId]] = []
        for segment, places in segments:
            by_age = segment.by_age(places)
            priorities = segment.records.lives.priorities(by_age)
            best = np.argsort(-priorities, kind="stable")[:n]
            ids = segment.ids.array(by_age[best]).tolist()
            found += zip(priorities[best].tolist(), ids, strict=True)
        found += [(entry.rule.priority, entry.rule.id) for entry in tail]
        # The sort is stable, and what is older stands first.
        found.sort(key=lambda pair: -pair[0])
        return [id for _, id in found[:n]]

    def top(
        self,
        event: Event,
        n: int = 10,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        weights: Mapping[tuple[str, Any], float] | None = None,
        at: datetime | None = None,
    ) -> list[tuple[RuleId, float]]:
        """The `n` matching rules with the highest scores, best first, with their scores.

        Of equal scores the rule that was added first comes first.

        Parameters
        ----------
        event
            Attributes and their values.
        n
            How many rules at most.
        only, at
            As in :meth:`match`.
        weights
            What the event weighs: ``{("author", "Smith"): 0.8}``; 1 by default.
        """
        _check_n(n)
        snapshot, chosen = self._snapshot, self._chosen(only, at)
        event_weights = EventWeights.of(weights)
        scored: list[tuple[RuleId, float]] = []
        joins, flat = self._joins(snapshot), None
        if joins is not None or weights is not None or snapshot.tail or not snapshot.views:
            flat = self._with_joined(self._schema.read(event), joins.demands if joins else ())
        for view in snapshot.views:
            segment = view.segment
            if flat is None:
                encoded = segment.encode(event)
            elif weights is None:
                encoded = segment.encode_flat(flat)
            else:
                encoded = segment.encode_weighted(flat, event_weights)
            places, scores = segment.engine.top_one(encoded, n, view.mask(chosen))
            scored += zip(segment.ids.array(places).tolist(), scores.tolist(), strict=True)
        reading = Reading(event, self._schema, flat)
        for entry in self._in_tail(snapshot, reading, chosen):
            tail_score = score_flat(entry.tree, reading.flat, entry.weights, event_weights)
            assert tail_score is not None
            scored.append((entry.rule.id, tail_score))
        # The sort is stable, and what is older stands first.
        scored.sort(key=lambda pair: -pair[1])
        return scored[:n]

    def match_expression(
        self,
        event: RuleSource,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> list[RuleId]:
        """The ids of the rules that an event may satisfy of which only so much is known.

        Parameters
        ----------
        event
            Predicates, in any of the forms of a rule: ``"price BETWEEN 20 AND 40 AND genre =
            'classics'"``. It stands for all events that have one value for each attribute it
            mentions, one that satisfies what it says of the attribute, and no other attributes.
            With an OR, it stands for the events of each alternative.
        only, at
            As in :meth:`match`.

        Returns
        -------
        list
            The rules that at least one of these events satisfies, in the order in which they were
            added.

        Raises
        ------
        EventError
            The event says of a string no more than a pattern such as ``LIKE '%x%'``; or a rule
            asks for one, and the event leaves endlessly many strings to look at; or a rule asks for
            a function of an attribute that the event mentions.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("cheap", "price < 25")
        >>> m.add("dear", "price > 50")
        >>> m.match_expression("price BETWEEN 20 AND 40 AND genre = 'classics'")
        ['cheap']
        """
        snapshot, chosen = self._snapshot, self._chosen(only, at)
        asked = Stabbing(event, self._schema)
        views: tuple[View, ...] = snapshot.views
        tail: Iterable[TailRule] = snapshot.tail
        if len(snapshot.tail) > _FEW:
            views, tail = self._frozen_views(snapshot), ()
        found: list[RuleId] = []
        for view in views:
            places = asked.places(view.segment, view.mask(chosen))
            found += view.segment.ids.array(view.segment.by_age(places)).tolist()
        return found + [
            entry.rule.id
            for entry in tail
            if chosen.includes(entry.rule) and asked.matches(entry.rule, entry.tree)
        ]

    def match_many(
        self,
        events: Any,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """The rules that each of many events satisfies.

        Parameters
        ----------
        events
            A list of mappings, an Arrow table, batch or reader, a pandas or a polars frame.
            Arrow columns are read as they are, without a loop over rows.
        only, at
            As in :meth:`match`.

        Returns
        -------
        pyarrow.Table
            event (the row's number) and rule (its id), a row for each match, by event and then
            in the order in which the rules were added. For a reader a reader, whose batches are
            made as they are asked for, each of a bounded size.
        """
        views, chosen = self._frozen_views(self._snapshot), self._chosen(only, at)
        segments = [view.segment for view in views]
        schema = pa.schema([("event", pa.int64()), ("rule", id_type(segments))])

        def batches() -> Iterator[pa.RecordBatch]:
            rows = _FIRST_ROWS
            for first, size, encoded in self._encoded(views, events):
                begin = 0
                while begin < size:
                    end = min(begin + rows, size)
                    parts = [
                        view.segment.engine.match(rows_between(part, begin, end), mask)
                        for view, part in zip(views, encoded, strict=True)
                        for mask in [view.mask(chosen)]
                    ]
                    found = joined_matches(segments, parts, first + begin)
                    yield pa.record_batch([pa.array(found.event), found.rule], schema=schema)
                    rows = _affordable_rows(len(found.event), end - begin)
                    begin = end

        return _answer(events, schema, batches())

    def count_many(
        self,
        events: Any,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """How many rules each of many events satisfies, without making a list of them.

        Returns
        -------
        pyarrow.Table
            event (the row's number) and matches, a row for each event; for a reader a reader.
        """
        views, chosen = self._frozen_views(self._snapshot), self._chosen(only, at)
        schema = pa.schema([("event", pa.int64()), ("matches", pa.int64())])

        def batches() -> Iterator[pa.RecordBatch]:
            for first, size, encoded in self._encoded(views, events):
                counts = np.zeros(size, np.int64)
                for view, part in zip(views, encoded, strict=True):
                    counts += view.segment.engine.count(part, view.mask(chosen))
                columns = [pa.array(np.arange(first, first + size)), pa.array(counts)]
                yield pa.record_batch(columns, schema=schema)

        return _answer(events, schema, batches())

    def top_many(
        self,
        events: Any,
        n: int = 10,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """The best rules of each of many events.

        Returns
        -------
        pyarrow.Table
            event (the row's number), rank (1 for the best), rule and score; for a reader a
            reader.
        """
        _check_n(n)
        views, chosen = self._frozen_views(self._snapshot), self._chosen(only, at)
        segments = [view.segment for view in views]
        types = [pa.int64(), pa.int64(), id_type(segments), pa.float64()]
        schema = pa.schema(zip(["event", "rank", "rule", "score"], types, strict=True))

        def batches() -> Iterator[pa.RecordBatch]:
            for first, _, encoded in self._encoded(views, events):
                parts = [
                    view.segment.engine.top(part, n, view.mask(chosen))
                    for view, part in zip(views, encoded, strict=True)
                ]
                best = joined_tops(segments, parts, n)
                columns = [
                    pa.array(best.event + first),
                    pa.array(best.rank),
                    best.rule,
                    pa.array(best.score),
                ]
                yield pa.record_batch(columns, schema=schema)

        return _answer(events, schema, batches())

    def explain(self, id: RuleId, event: Event) -> Explanation:
        """Why the rule `id` matches `event`, or does not: a tree of what held and what did not.

        It prints as an indented tree; ``to_json()`` gives the same as plain data.
        """
        return self._explained(self.rule(id), event)

    def why(
        self,
        event: Event,
        *,
        only: Tagged | Iterable[RuleId] | None = None,
        at: datetime | None = None,
    ) -> dict[RuleId, Explanation]:
        """Why each rule matches that `event` satisfies, in the order of :meth:`match`.

        Parameters
        ----------
        event
            Attributes and their values.
        only, at
            As in :meth:`match`.
        """
        segments, tail = self._found(event, only, at)
        rules = [
            segment.records.rule(place)
            for segment, places in segments
            for place in segment.by_age(places).tolist()
        ]
        rules += [entry.rule for entry in tail]
        return {rule.id: self._explained(rule, event) for rule in rules}

    def why_not(self, id: RuleId, event: Event, *, at: datetime | None = None) -> Obstacles:
        """The fewest predicates that would have to change for the rule `id` to match `event`.

        It prints as lines; ``to_json()`` gives the same as plain data. Predicates are taken to be
        independent of one another: of ``x > 3 AND x < 2`` both may be told to change, since an
        attribute may have several values. A rule that is not valid `at` the time says so, too.

        Raises
        ------
        UnknownRuleError
            There is no rule of that id.
        """
        rule = self.rule(id)
        expr = self._schema.adapt_rule(rule.expr)
        found = obstacles_flat(expr, self._read_for(expr, event), rule.logic)
        if rule.life.is_valid(self._moment(at)):
            return found
        return msgspec.structs.replace(found, invalid=str(rule.life))

    def similar(
        self, rule: RuleSource | RuleId, n: int = 10, *, events: Any = None, seed: int = 0
    ) -> list[Similar]:
        """The rules that match much the same events as `rule`, the most similar first.

        Parameters
        ----------
        rule
            The id of a rule, or a rule in any of its forms, in the logic of this matcher.
        n
            How many rules at most.
        events
            Events by which to tell, as for :meth:`match_many`. Without them events are drawn that
            satisfy one rule or another, around the values that rules mention: then the shares are
            estimates.
        seed
            Which events are drawn.

        Returns
        -------
        list of Similar
            Rules with the share of each other's events, and whether one is proved to imply the
            other. Rules without a common event among those looked at are not there.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18")
        >>> m.add("seniors", "age >= 65")
        >>> m.similar("age >= 66")[0].id
        'seniors'
        """
        from tamis.matcher.kit.similar import similar

        _check_n(n)
        if isinstance(rule, int) and not isinstance(rule, bool):
            asked = self.rule(rule)
        else:
            known = self._snapshot.find(rule) if isinstance(rule, str) else None
            asked = known or make_rule("", expr_of(rule), self._logic)
        return similar(self, asked, n, schema=self._schema, events=events, seed=seed)

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
        """Compare what this matcher finds with :func:`tamis.evaluate`, on events drawn to be hard.

        They are drawn around the values at which rules change their minds: these values, those just
        beside them, absent attributes, several values.

        Parameters
        ----------
        sample
            How many rules are looked at, drawn at random.
        seconds
            For how long; some events are looked at in any case.
        seed
            Which rules and events.
        processes
            How many processes evaluate rules; by default as many as there are cores.
        limit
            How many differences are enough.
        watch
            Called again and again with how many events were looked at, and what part of the time is
            over.

        Returns
        -------
        Ratification
            How much was looked at, and the differences, each with as much of the rule and of the
            event as it takes.
        """
        from tamis.matcher.kit.ratify import ratify

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

    def lint(
        self,
        *,
        single_valued: bool = False,
        watch: Callable[[int, float], None] = lambda rules, fraction: None,
    ) -> list[Finding]:
        """The rules that never match, always match, repeat another one, or are part of one.

        All of it is proved. What cannot be proved, as for many patterns, is not reported.

        Parameters
        ----------
        single_valued
            Whether no attribute ever has several values. Otherwise only what the schema declares so
            is known to: ``x = 1 AND x = 2`` matches an event with both.
        watch
            Called again and again with how many rules were looked at, and what part of the work is
            done.

        Examples
        --------
        >>> import tamis
        >>> m = tamis.Matcher()
        >>> m.add("adults", "age >= 18")
        >>> m.add("seniors", "age >= 65")
        >>> print(m.lint()[0])
        'seniors' matches only where 'adults' does
        """
        from tamis.matcher.kit.lint import lint

        return lint(self, schema=self._schema, single_valued=single_valued, watch=watch)

    def rule(self, id: RuleId) -> Rule:
        """The rule `id`, with all that was said about it when it was added.

        Raises
        ------
        UnknownRuleError
            There is no rule of that id.
        """
        found = self._snapshot.find(id)
        if found is None:
            raise UnknownRuleError(f"there is no rule {id!r}")
        return found

    def attributes(self) -> frozenset[str]:
        """The names of all attributes that rules mention; no other can make a difference.

        Those that are derived are not among them, but those from which they are.
        """
        views = self._frozen_views(self._snapshot)
        names = {n for view in views for n in view.segment.engine.rules.dictionary.attributes}
        joins = {name for name in names if name.startswith(JOINED)}
        bases = {base for name in names - joins for base in bases_of(name)}
        return frozenset(bases).union(*(join_of(name).news for name in joins))

    def __len__(self) -> int:
        return self._snapshot.size

    def __contains__(self, id: object) -> bool:
        return id in self._snapshot

    def __iter__(self) -> Iterator[RuleId]:
        """The ids of all rules, in the order in which they were added."""
        return self._snapshot.ids()

    def __repr__(self) -> str:
        where = "" if self._store is None else f", {str(self._store.folder)!r}"
        return f"<tamis.Matcher: {len(self):,} rules, engine {self._engine.name!r}{where}>"

    def stats(self) -> dict[str, Any]:
        """Numbers about the collection: rules, segments, sizes in bytes and otherwise."""
        snapshot = self._snapshot
        segments = [view.segment for view in self._frozen_views(snapshot) if snapshot.size]
        rules = [segment.engine.rules for segment in segments]
        return {
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
            "documents": len(self._documents),
            **({} if self._store is None else self._store.stats()),
        }

    def _explained(self, rule: Rule, event: Event) -> Explanation:
        expr = self._schema.adapt_rule(rule.expr)
        return explain_flat(expr, self._read_for(expr, event), rule.logic)

    def _read_for(self, expr: Expr, event: Event) -> FlatEvent:
        """`event` with what the join predicates of one rule become."""
        names = {p.attribute for p in predicates(expr) if p.attribute.startswith(JOINED)}
        return self._with_joined(self._schema.read(event), names)

    def _with_joined(self, event: FlatEvent, names: Several[str]) -> FlatEvent:
        if not names:
            return event
        return with_truths(event, self._documents.joined(names, event))

    def _joins(self, snapshot: Snapshot) -> JoinedRules | None:
        """The join predicates of the rules in a snapshot; None where there are none."""
        seen = self._seen_joins
        if seen is None or seen[0] is not snapshot:
            # Two readers may do so at once, and both are right.
            seen = self._seen_joins = snapshot, joins_of(snapshot)
            if seen[1] is not None:
                self._documents.watch(seen[1].demands)
        return seen[1]

    def _made_all(self, rules: Any, on_error: str) -> tuple[list[Rule], list[BadRule] | None]:
        """The rules of `add_many`, and where to note bad ones: nowhere if they raise."""
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error is 'raise' or 'skip', not {on_error!r}")
        bad: list[BadRule] | None = [] if on_error == "skip" else None
        made: list[Rule] = []
        for item in rule_items(rules):
            try:
                made.append(self._made(item))
            except RuleError as error:
                error.rule_id = _id_of(item)
                if bad is None:
                    raise
                bad.append(BadRule.of(error.rule_id, error))
        return made, bad

    def _made(self, item: Any) -> Rule:
        """One item of `add_many` as a rule."""
        if isinstance(item, Rule):
            return make_rule(
                item.id, item.source, item.logic, item.weights, item.payload, item.tags, item.life
            )
        if isinstance(item, tuple | list) and len(item) in (2, 3):
            id, source, *logic = item
            return make_rule(id, source, (logic[0] if logic else None) or self._logic)
        raise RuleError(f"expected a pair of id and rule, or a triple with the logic, not {item!r}")

    def _found(
        self, event: Event, only: Tagged | Iterable[RuleId] | None, at: datetime | None
    ) -> tuple[list[tuple[Segment, NDArray[np.int32]]], list[TailRule]]:
        """What one event matches: places in segments, and rules of the tail.

        The places have to be used before the next call.
        """
        snapshot, chosen = self._snapshot, self._chosen(only, at)
        if self._joins(snapshot) is not None:
            return self._found_flat(self._schema.read(event), chosen)
        segments = [
            (
                view.segment,
                view.segment.engine.match_one(view.segment.encode(event), view.mask(chosen)),
            )
            for view in snapshot.views
        ]
        return segments, self._in_tail(snapshot, Reading(event, self._schema), chosen)

    def _in_tail(self, snapshot: Snapshot, event: Reading, chosen: Chosen) -> list[TailRule]:
        """The rules of the tail that an event satisfies; refuses what is no event."""
        if not snapshot.size:
            event.flat  # noqa: B018  nobody else has looked at it
        return snapshot.in_tail(event, chosen) if snapshot.tail else []

    def _frozen_views(self, snapshot: Snapshot) -> tuple[View, ...]:
        """All rules in segments; if it takes long to have them so, for those who ask later, too."""
        views = snapshot.frozen_views
        if len(snapshot.tail) > _FEW:
            self._collection.freeze(snapshot, wait=False)
        return views

    def _found_flat(
        self, event: FlatEvent, chosen: Chosen
    ) -> tuple[list[tuple[Segment, NDArray[np.int32]]], list[TailRule]]:
        """As `_found`, for an event that was read before."""
        snapshot = self._snapshot
        joins = self._joins(snapshot)
        if joins is None:
            encoded = [view.segment.encode_flat(event) for view in snapshot.views]
        else:
            encoded, event = joins.encoded(snapshot.views, event, self._documents)
        segments = [
            (view.segment, view.segment.engine.match_one(part, view.mask(chosen)))
            for view, part in zip(snapshot.views, encoded, strict=True)
        ]
        return segments, self._in_tail(snapshot, Reading(event, self._schema, event), chosen)

    @staticmethod
    def _ids(
        segments: list[tuple[Segment, NDArray[np.int32]]], tail: list[TailRule]
    ) -> list[RuleId]:
        """The ids of what was found, in the order in which the rules were added."""
        found: list[RuleId] = []
        for segment, places in segments:
            found += segment.ids.array(segment.by_age(places)).tolist()
        found += [entry.rule.id for entry in tail]
        return found

    def _chosen(self, only: Tagged | Iterable[RuleId] | None, at: datetime | None) -> Chosen:
        """What `only` and `at` stand for."""
        moment = self._moment(at)
        if only is None or isinstance(only, Tagged):
            return Chosen(only, moment)
        if isinstance(only, Iterable) and not isinstance(only, str | bytes):
            return Chosen(frozenset(id for id in only if type(id) in (str, int)), moment)
        raise RuleError(f"only= takes a list of ids or tagged(…), not {only!r}")

    def _moment(self, at: datetime | None) -> int:
        return self._now() if at is None else moment_of(at)

    def _encoded(
        self, views: tuple[View, ...], events: Any
    ) -> Iterator[tuple[int, int, list[Events]]]:
        """`events` in chunks: the first one's number, how many, and encoded for each view."""
        first = 0
        names = JoinedRules(views, ()).demands
        for chunk in event_chunks(events):
            joined: list[FlatEvent] = []
            if names:
                joined = joined_of(chunk, first, names, self._schema, self._documents)
            encoded = [view.segment.encode_chunk(chunk, first, joined) for view in views]
            yield first, len(chunk), encoded
            first += len(chunk)


_FEW = 64
"""How many rules of the tail are made a segment of in a moment."""

_FIRST_ROWS = 1024
_PAIRS = 1 << 22
"""How many events are matched at first, and how many matches a batch is to have at most."""


def _affordable_rows(pairs: int, rows: int) -> int:
    """How many events to match next, when `rows` events had so many matches."""
    return max(1, min(65_536, rows * _PAIRS // max(pairs, 1)))


def _answer(
    events: Any, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> pa.Table | pa.RecordBatchReader:
    """What callers get: all at once, or for a reader a reader."""
    if isinstance(events, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(schema, batches)
    return pa.Table.from_batches(batches, schema)


def _id_array(ids: list[RuleId]) -> NDArray[Any]:
    return Ids.of(ids).array(np.arange(len(ids)))


def _id_of(item: Any) -> Any:
    if isinstance(item, Rule):
        return item.id
    return item[0] if isinstance(item, tuple | list) and item else None


def _check_n(n: int) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n is a whole number, not {n!r}")
