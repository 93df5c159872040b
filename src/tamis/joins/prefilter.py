"""The pre-filter: join predicates that no event can satisfy, as the documents are now.

Section 4.3.2: a join predicate needs documents that have its attributes, that satisfy its
constants, and that satisfy what it implies together with its rules' constant predicates
(`implied.py`). Each such constraint is *watched*. A watch remembers one document that decides it,
its *witness*, and is decided again only when that document is removed; a watch without a witness
checks each new document. So the pre-filter is up to date at all times, and its cost does not depend
on how many documents there are.

The paper's vector has a bit for each profile. Here there is one for each distinct join predicate,
since evaluating those takes the time: a predicate is ruled out when no rule can match by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from tamis.expr.event import FlatEvent
from tamis.expr.joins.predicate import NO_CONDITION, Comparison, Condition, Every, Quantifier, Test
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Op
from tamis.joins.evaluate import IndexedDocuments
from tamis.joins.implied import infer_values
from tamis.joins.value_sets import (
    EVERYTHING,
    HIGHEST,
    LOWEST,
    ValueSet,
    values_satisfying_predicate,
)

__all__ = ["JoinUsage", "Prefilter"]


class JoinUsage(NamedTuple):
    """How the rules use a join predicate."""

    name: str
    """The join attribute that the predicate becomes."""
    is_positive: bool = False
    """Whether no rule negates it, so that false and unknown are the same to all rules."""
    known: tuple[tuple[str, ValueSet], ...] = ()
    """Attributes of the new document, and the values that all rules with the predicate confine
    them to if they have a single value."""


class _Constraint(NamedTuple):
    """What old documents must satisfy for a join predicate to be true."""

    attribute: str
    values: ValueSet
    is_universal: bool = False
    """Whether all documents must have one of `values`, and not only one document."""
    single: str | None = None
    """An attribute of the new document that must have a single value, or else nothing follows."""


class _Watch:
    """A constraint, and the document that decides it.

    Its witness has one of the values or, where all documents must have one, has none of them.
    """

    __slots__ = ("attribute", "is_universal", "names", "sought", "values", "witness")

    def __init__(self, attribute: str, values: ValueSet, is_universal: bool) -> None:
        self.attribute = attribute
        self.values = values
        self.is_universal = is_universal
        self.sought = ~values if is_universal else values
        self.witness: int | None = None
        self.names: list[tuple[str, str | None]] = []
        """The predicates that it rules out when it fails, and the `single` of each constraint."""

    @property
    def fails(self) -> bool:
        return (self.witness is not None) is self.is_universal


_Key: TypeAlias = tuple[str, ValueSet, bool]
"""A constraint without its `single`: what a watch is found by."""


class Prefilter:
    """The join predicates that no event can satisfy, kept up to date as documents come and go.

    Attributes
    ----------
    usages
        The join predicates that are watched.
    ruled_out
        The predicates that are ruled out, and the `single` of each constraint that fails.
    """

    def __init__(self, documents: IndexedDocuments) -> None:
        self._documents = documents
        self.usages: Mapping[str, JoinUsage] = {}
        self.ruled_out: dict[str, list[str | None]] = {}
        self._watches: dict[_Key, _Watch] = {}
        self._seeking: dict[str, list[_Watch]] = {}
        """The watches without a witness, by attribute."""
        self._witnessed: dict[int, list[_Watch]] = {}
        """The others, by the number of their witness."""

    def watch(self, usages: Mapping[str, JoinUsage]) -> None:
        """Watch the constraints of these join predicates, and of no others."""
        before, self._watches = self._watches, {}
        self.usages, self.ruled_out, self._seeking, self._witnessed = usages, {}, {}, {}
        for name, usage in usages.items():
            for attribute, values, is_universal, single in _constraints(usage):
                key = attribute, values, is_universal
                watch = self._watches.get(key)
                if watch is None:
                    watch = self._watches[key] = before.get(key) or self._create(key)
                    watch.names = []
                watch.names.append((name, single))
        for watch in self._watches.values():
            self._register(watch)
            if watch.fails:
                self._rule_out(watch)

    def rules_out(self, name: str, event: FlatEvent) -> bool:
        """Whether no rule can match this event by a predicate."""
        singles = self.ruled_out.get(name, ())
        return any(single is None or len(event.get(single, ())) < 2 for single in singles)

    def add(self, number: int, document: FlatEvent) -> None:
        """Take note of a new document."""
        if not self._seeking:
            return
        for attribute, values in document.items():
            for watch in self._seeking.pop(attribute, ()):
                holds = any(value in watch.values for value in values)
                self._decide(watch, number if holds is not watch.is_universal else None)

    def remove(self, number: int) -> None:
        """Take note that a document was removed, from the indexes too."""
        for watch in self._witnessed.pop(number, ()):
            self._decide(watch, self._find_witness(watch))

    def _decide(self, watch: _Watch, witness: int | None) -> None:
        failed, watch.witness = watch.fails, witness
        self._register(watch)
        if watch.fails and not failed:
            self._rule_out(watch)
        elif failed and not watch.fails:
            for name, single in watch.names:
                self.ruled_out[name].remove(single)
                if not self.ruled_out[name]:
                    del self.ruled_out[name]

    def _rule_out(self, watch: _Watch) -> None:
        for name, single in watch.names:
            self.ruled_out.setdefault(name, []).append(single)

    def _register(self, watch: _Watch) -> None:
        if watch.witness is None:
            self._seeking.setdefault(watch.attribute, []).append(watch)
        else:
            self._witnessed.setdefault(watch.witness, []).append(watch)

    def _create(self, key: _Key) -> _Watch:
        watch = _Watch(*key)
        watch.witness = self._find_witness(watch)
        return watch

    def _find_witness(self, watch: _Watch) -> int | None:
        index = self._documents.index(watch.attribute)
        if watch.is_universal and index.several:
            # A document with a value outside the set may have another one inside.
            return None
        return index.first(watch.sought)


def _constraints(usage: JoinUsage) -> Iterator[_Constraint]:
    join, known = join_named(usage.name), dict(usage.known)
    if join.aggregate is not None:
        return  # it has a value over no documents, too
    if join.quantifier is Quantifier.ALL:
        # Evaluation finds documents that lack the attribute as fast.
        if usage.is_positive and join.where == NO_CONDITION and join.compared is not None:
            yield from _infer_constraints(join.compared, known, is_universal=True)
        return
    if join.compared is not None:
        if not usage.is_positive:
            return
        yield _Constraint(join.compared.old, EVERYTHING)
        yield from _infer_constraints(join.compared, known)
    where = join.where
    parts: tuple[Condition, ...] = where.children if isinstance(where, Every) else (where,)
    for part in parts:
        if isinstance(part, Comparison):
            yield _Constraint(part.old, EVERYTHING)
            if usage.is_positive:
                yield from _infer_constraints(part, known)
        elif isinstance(part, Test) and part.of_old:
            is_absence = part.predicate.op is Op.PRESENT and part.predicate.negated
            if not is_absence:
                values = values_satisfying_predicate(part.predicate)
                yield _Constraint(part.predicate.attribute, values or EVERYTHING)


def _infer_constraints(
    comparison: Comparison, known: dict[str, ValueSet], is_universal: bool = False
) -> Iterator[_Constraint]:
    if comparison.new in known and comparison.shift is None:
        values = infer_values(comparison, known[comparison.new])
        # It does not pay off to watch for values of a kind.
        if any(span != (LOWEST, HIGHEST) for _, span in values) or not values:
            yield _Constraint(comparison.old, values, is_universal, comparison.new)
