"""The pre-filter: join predicates that no event can satisfy, as the documents are now.

Section 4.3.2: a join predicate needs documents that have its attributes, that satisfy its
constants, and that satisfy what its rules' constant predicates imply together with it
(`implied.py`). Each such constraint is *watched*. A watch that wants a document remembers one, a
*witness*, and is looked at again only when that very document goes; one without a witness looks at
each document that comes.
So the pre-filter is up to date at all times, and costs little however many documents there are.

The paper's vector has a bit for each profile. Here it is one for each distinct join predicate, as
these are what takes time to evaluate: it is cleared where no profile with the predicate can match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tamis.expr.event import FlatEvent
from tamis.expr.joins.predicate import NO_CONDITION, Comparison, Condition, Every, Quantifier, Test
from tamis.expr.model import Op
from tamis.expr.text.sql import join_of
from tamis.joins.evaluate import IndexedDocuments
from tamis.joins.implied import implied
from tamis.joins.value_sets import EVERYTHING, HIGHEST, LOWEST, Spans, of_predicate

__all__ = ["JoinUsage", "Prefilter"]


class JoinUsage(NamedTuple):
    """What the rules make of a join predicate."""

    name: str
    """The attribute that the predicate becomes."""
    is_positive: bool = False
    """Whether no rule negates it, so that it makes no difference why it is not true."""
    known: tuple[tuple[str, Spans], ...] = ()
    """Attributes of the new document, and the values that all rules with the predicate confine
    them to, where they have one value."""


class _Constraint(NamedTuple):
    """What old documents must be like for a join predicate to be true."""

    attribute: str
    spans: Spans
    is_universal: bool = False
    """Whether all documents must have a value in `spans`, and not only one."""
    single: str | None = None
    """An attribute of the new document which must have one value, or else nothing follows."""


class _Watch:
    """A constraint, and the document that decides it.

    That is one with a value in the spans or, where all must have one, a document without.
    """

    __slots__ = ("attribute", "is_universal", "names", "sought", "spans", "witness")

    def __init__(self, attribute: str, spans: Spans, is_universal: bool) -> None:
        self.attribute = attribute
        self.spans = spans
        self.is_universal = is_universal
        self.sought = ~spans if is_universal else spans
        self.witness: int | None = None
        self.names: list[tuple[str, str | None]] = []
        """The predicates that it rules out when it fails, and what must have one value then."""

    @property
    def fails(self) -> bool:
        return (self.witness is not None) is self.is_universal


_Key = tuple[str, Spans, bool]


class Prefilter:
    """The constraints of all join predicates, kept up to date.

    Attributes
    ----------
    usages
        What is watched.
    ruled_out
        The predicates that are ruled out, and for each constraint that fails the attribute of the
        new document which must have one value, or None.
    """

    def __init__(self, documents: IndexedDocuments) -> None:
        self._documents = documents
        self.usages: Mapping[str, JoinUsage] = {}
        self.ruled_out: dict[str, list[str | None]] = {}
        self._watches: dict[_Key, _Watch] = {}
        self._seeking: dict[str, list[_Watch]] = {}
        """By attribute, those without a witness."""
        self._witnessed: dict[int, list[_Watch]] = {}
        """By the number of the witness."""

    def watch(self, usages: Mapping[str, JoinUsage]) -> None:
        """Watch the constraints of these, and of no others."""
        before, self._watches = self._watches, {}
        self.usages, self.ruled_out, self._seeking, self._witnessed = usages, {}, {}, {}
        for name, usage in usages.items():
            for attribute, spans, is_universal, single in _constraints(usage):
                key = attribute, spans, is_universal
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
        """Whether nothing depends on a predicate for this event: no rule matches by it."""
        singles = self.ruled_out.get(name, ())
        return any(single is None or len(event.get(single, ())) < 2 for single in singles)

    def add(self, number: int, document: FlatEvent) -> None:
        """A document has come."""
        if not self._seeking:
            return
        for attribute, values in document.items():
            for watch in self._seeking.pop(attribute, ()):
                holds = any(value in watch.spans for value in values)
                self._decide(watch, number if holds is not watch.is_universal else None)

    def remove(self, number: int) -> None:
        """A document has gone, from the indexes too."""
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
            # A value outside the spans says nothing of a document that has others as well.
            return None
        return index.first(watch.sought)


def _constraints(usage: JoinUsage) -> Iterator[_Constraint]:
    join, known = join_of(usage.name), dict(usage.known)
    if join.quantifier is Quantifier.ALL:
        # That documents lack the attribute is seen as fast by evaluating it.
        if usage.is_positive and join.where == NO_CONDITION and join.compared is not None:
            yield from _implied(join.compared, known, is_universal=True)
        return
    if join.compared is not None:
        if not usage.is_positive:
            return
        yield _Constraint(join.compared.old, EVERYTHING)
        yield from _implied(join.compared, known)
    where = join.where
    parts: tuple[Condition, ...] = where.children if isinstance(where, Every) else (where,)
    for part in parts:
        if isinstance(part, Comparison):
            yield _Constraint(part.old, EVERYTHING)
            if usage.is_positive:
                yield from _implied(part, known)
        elif isinstance(part, Test) and part.of_old:
            is_absence = part.predicate.op is Op.PRESENT and part.predicate.negated
            if not is_absence:
                yield _Constraint(
                    part.predicate.attribute, of_predicate(part.predicate) or EVERYTHING
                )


def _implied(
    comparison: Comparison, known: dict[str, Spans], is_universal: bool = False
) -> Iterator[_Constraint]:
    if comparison.new in known:
        spans = implied(comparison, known[comparison.new])
        # That values are of a kind is not worth while to watch.
        if any(span != (LOWEST, HIGHEST) for _, span in spans) or not spans:
            yield _Constraint(comparison.old, spans, is_universal, comparison.new)
