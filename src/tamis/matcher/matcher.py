"""The facade: a collection of rules that is read while it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from tamis.engines.registry import load_engine
from tamis.errors import RuleError, StorageError
from tamis.expr.event import Event
from tamis.expr.model import check_logic
from tamis.joins.document_store import DocumentStore
from tamis.joins.documents import Documents
from tamis.joins.retention import Retention
from tamis.matcher.batch_searcher import Batching
from tamis.matcher.inputs import event_chunks, rule_items
from tamis.matcher.join_predicates import JoinPredicates
from tamis.matcher.rule import Rule, RuleId, RuleSource, Tagged, expr_of, make_rule
from tamis.matcher.schema import Schema
from tamis.matcher.searcher import check_n
from tamis.matcher.snapshot import Snapshot
from tamis.matcher.storage.document_file import DocumentFile, read_documents, write_documents
from tamis.matcher.storage.manifest import Settings
from tamis.matcher.storage.store import Store, create, is_index, replace
from tamis.matcher.validity import Clock, Life, clock_of
from tamis.matcher.write.builder import BadRule, Maker
from tamis.matcher.write.responsive import empty, short_turns
from tamis.matcher.write.writer import Collection

if TYPE_CHECKING:
    from tamis.matcher.analysis.lint import Finding
    from tamis.matcher.analysis.ratify import Ratification
    from tamis.matcher.analysis.similar import Similar

__all__ = ["AddReport", "BadRule", "Matcher"]


class AddReport(NamedTuple):
    """What `Matcher.add_many` did."""

    added: int
    bad: list[BadRule]


class Matcher(Batching):
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
        self._engine = load_engine(engine)
        self._logic = check_logic(logic)
        self._schema = Schema(schema or {})
        self._maker = Maker(self._engine, self._schema, takes_joins=documents is not False)
        self._collection = Collection(self._maker)
        self._store: Store | None = None
        self._have_documents(DocumentStore(documents or None))

    def _have_documents(self, documents: DocumentStore) -> None:
        self._document_store = documents
        self._documents = Documents(read=self._schema.read, store=documents)
        self._seen_joins: tuple[Snapshot, JoinPredicates | None] | None = None
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
        documents: DocumentStore,
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
        self._document_store.check_writable = store.check_writable
        if store.read_only:
            self._restore_documents()
            return
        state = read_documents(store.folder)
        if state is not None:
            self._document_store.restore(state.documents.values(), state.following)
        file = DocumentFile(store.folder, self._document_store, state)
        self._document_file = file
        self._document_store.attach_journal(file)

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
        write_documents(folder, self._document_store)

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
        self._document_store.restore(state.documents.values(), state.following)
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
        with self._document_store.publishing:
            found = self._ids(*self._found_flat(flat, self._chosen(only, at)))
            self._document_store.add(flat, id)
        return found

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
        from tamis.matcher.analysis.similar import similar

        check_n(n)
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
        from tamis.matcher.analysis.lint import lint

        return lint(self, schema=self._schema, single_valued=single_valued, watch=watch)

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


def _id_of(item: Any) -> Any:
    if isinstance(item, Rule):
        return item.id
    return item[0] if isinstance(item, tuple | list) and item else None
