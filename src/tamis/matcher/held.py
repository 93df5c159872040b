"""What a matcher holds, and what all questions to it have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Collection as Several
from datetime import datetime
from typing import Any, Final

from tamis.engines.base import Engine
from tamis.errors import RuleError, UnknownRuleError
from tamis.expr.event import Event, FlatEvent
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import Expr, Logic, predicates
from tamis.expr.names import JOINED
from tamis.expr.text.sql import join_of
from tamis.joins.document_store import DocumentStore
from tamis.joins.documents import Documents
from tamis.matcher.join_predicates import JoinPredicates, add_join_attributes
from tamis.matcher.rule import Rule, RuleId, Tagged
from tamis.matcher.schema import Schema
from tamis.matcher.snapshot import Chosen, Snapshot, View
from tamis.matcher.storage.store import Store
from tamis.matcher.validity import moment_of
from tamis.matcher.write.writer import Collection

__all__ = ["FEW", "Held"]

FEW: Final = 64
"""How many rules of the tail are made a segment of in a moment."""


class Held:
    """Rules, documents and settings, and what is known of them."""

    _now: Callable[[], int]
    _engine: type[Engine]
    _logic: Logic
    _schema: Schema
    _collection: Collection
    _store: Store | None
    _documents: Documents
    _document_store: DocumentStore
    _seen_joins: tuple[Snapshot, JoinPredicates | None] | None
    """What the join predicates of the last snapshot were."""

    @property
    def _snapshot(self) -> Snapshot:
        """The state that a reader works on from now on."""
        if self._collection.damage is not None:
            raise self._collection.damage
        return self._collection.snapshot

    @property
    def documents(self) -> Documents:
        """The events that :meth:`publish` has remembered, as documents seen before."""
        return self._documents

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
            "documents": len(self._document_store),
            **({} if self._store is None else self._store.stats()),
        }

    def _read_for(self, expr: Expr, event: Event) -> FlatEvent:
        """`event` with what the join predicates of one rule become."""
        names = {p.attribute for p in predicates(expr) if p.attribute.startswith(JOINED)}
        return self._with_joined(self._schema.read(event), names)

    def _with_joined(self, event: FlatEvent, names: Several[str]) -> FlatEvent:
        if not names:
            return event
        return add_join_attributes(event, self._document_store.evaluate_joins(names, event))

    def _joins(self, snapshot: Snapshot) -> JoinPredicates | None:
        """The join predicates of the rules in a snapshot; None where there are none."""
        seen = self._seen_joins
        if seen is None or seen[0] is not snapshot:
            # Two readers may do so at once, and both are right.
            seen = self._seen_joins = snapshot, JoinPredicates.of(snapshot)
            if seen[1] is not None:
                self._document_store.watch(seen[1].usages)
        return seen[1]

    def _frozen_views(self, snapshot: Snapshot) -> tuple[View, ...]:
        """All rules in segments; if it takes long to have them so, for those who ask later, too."""
        views = snapshot.frozen_views
        if len(snapshot.tail) > FEW:
            self._collection.freeze(snapshot, wait=False)
        return views

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
