"""Ratifies a live matcher all the time: a thread compares its answers with the rule language.

The thread has a budget, a share of the time of one core, and the lowest priority that the system
gives. It works in steps of half a millisecond, with pauses between them. It asks for an event now
and then: the next search hands one over, which costs every other search one look at an attribute.
Without live events it draws some that are hard for the rules (`hard_events.py`).

Each event is searched by `match`, `match_many` and `top` in one snapshot, and rules of that
snapshot are evaluated one by one: some at random, and some that match. Join predicates are
evaluated over copies of the documents, taken together with the answers.
"""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from random import Random
from typing import Any, Final, NamedTuple

from tamis.errors import TamisError
from tamis.expr.evaluate import evaluate_flat, is_true, join_values, score_flat
from tamis.expr.event import Event, FlatEvent, extend_event
from tamis.expr.functions.derive import make_comparable
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Value, predicates
from tamis.expr.names import JOINED
from tamis.expr.normalize import nnf
from tamis.expr.text.write import to_sql
from tamis.expr.weights import EventWeights, RuleWeights
from tamis.forks import call_in_child
from tamis.joins.document_store import DocumentStore, decode_flat
from tamis.matcher.analysis.hard_events import EventSampler, to_event
from tamis.matcher.analysis.ratify import Difference
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema

__all__ = ["ContinuousRatifier", "PinnedSearch"]

_logger = logging.getLogger("tamis")

_STEP: Final = 0.0005
"""Seconds of work between two pauses: how long a search may have to wait for the interpreter."""
_LONGEST_PAUSE: Final = 1.0
_RULES: Final = 64
"""How many rules are drawn from a snapshot, and how many that match are added for an event."""
_DRAWN: Final = 4
"""How many events are drawn for each live one, or for each time that none came."""
_KEPT: Final = 100
"""How many differences are kept."""
_TOP: Final = 10
_MOST_DOCUMENTS: Final = 20_000
"""With more documents, rules with join predicates are left out: all would have to be read."""

_NO_EVENT_WEIGHTS: Final = EventWeights.of(None)


class PinnedSearch(NamedTuple):
    """All ways to search one snapshot, at one time."""

    is_new: bool
    """Whether the rules have changed since the last search that was pinned."""
    draw: Callable[[Random], Rule | None]
    """Draws a rule; None if the one that was drawn has been removed."""
    at: int
    """The time, in microseconds."""
    has_joins: bool
    find: Callable[[RuleId], Rule | None]
    match: Callable[[Event], list[RuleId]]
    match_many: Callable[[Event], list[RuleId]] | None
    """None where it would take long."""
    top: Callable[[Event, int], list[tuple[RuleId, float]]]


class _Sampled(NamedTuple):
    """A rule that is evaluated, in all the forms that this takes."""

    rule: Rule
    expr: Any
    """Adapted to the schema and bound to the subscription."""
    tree: Any
    """In negation normal form."""
    weights: RuleWeights
    has_joins: bool


class ContinuousRatifier:
    """Compares the answers of a matcher with `tamis.evaluate`, in a thread of low priority.

    Parameters
    ----------
    pin
        Returns a search of the newest snapshot, and a mark of it; takes the mark that the last call
        has returned. The matcher that it belongs to is not kept alive.
    schema, documents
        Those of the matcher.
    budget
        The share of one core's time.
    on_difference
        Called in the thread with each difference.
    seed
        Of the random draws.

    Attributes
    ----------
    wants_event
        Whether the next search should hand over its event.
    """

    def __init__(
        self,
        pin: weakref.WeakMethod[Callable[[object], tuple[object, PinnedSearch]]],
        schema: Schema,
        documents: DocumentStore,
        *,
        budget: float,
        on_difference: Callable[[Difference], None] | None = None,
        seed: int | None = None,
    ) -> None:
        is_number = isinstance(budget, int | float) and not isinstance(budget, bool)
        if not is_number or not 0 < budget <= 1:
            raise ValueError(f"budget is a share of one core's time, such as 0.01, not {budget!r}")
        self._pin = pin
        self._schema = schema
        self._documents = documents
        self._budget = budget
        self._on_difference = on_difference
        self._random = Random(seed)
        self._taken: deque[Event] = deque(maxlen=8)
        self.wants_event = False
        self._counts = dict.fromkeys(("live", "drawn", "compared", "matched", "differences"), 0)
        self._kept: deque[Difference] = deque(maxlen=_KEPT)
        self._mark: object = None
        self._sampled: list[_Sampled] = []
        self._sampler: EventSampler | None = None
        self._work = self._ratify()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = threading.Thread(
            target=_run, args=(weakref.ref(self), self._stop), name="tamis-ratify", daemon=True
        )
        self._thread.start()
        _all_ratifiers.add(self)

    def take(self, event: Event) -> None:
        """Take the event of a search, if one is wanted."""
        if self.wants_event:
            self.wants_event = False
            # The caller may change it later. One that cannot be copied is left out.
            with suppress(Exception):
                self._taken.append(copy.deepcopy(event))

    def take_many(self, events: Any) -> None:
        """Take the first of many events, if they are a list or Arrow data."""
        if self.wants_event:
            with suppress(Exception):
                first = events[:1] if isinstance(events, list) else events.slice(0, 1).to_pylist()
                for event in first:
                    self.take(event)

    @property
    def differences(self) -> list[Difference]:
        """The last differences that were found, the oldest first."""
        return list(self._kept)

    def stats(self) -> dict[str, int]:
        """How many events were ``live`` and ``drawn``, and how many answers were ``compared``.

        Of these, ``matched`` counts those in which the rule held.
        """
        return dict(self._counts)

    def close(self) -> None:
        """End the thread, and wait until it has ended."""
        self.wants_event = False
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def end_in_child(self) -> None:
        """In a forked child there is no thread, so that nothing is ratified."""
        self.wants_event = False
        self._thread = None

    # --- In the thread ---

    def step(self) -> float:
        """Work for a moment, and return for how many seconds to pause."""
        start = time.thread_time()
        used = 0.0
        while used < _STEP:
            if next(self._work, None) is None:
                return _LONGEST_PAUSE  # the matcher is gone, and the thread is about to end
            used = time.thread_time() - start
        return min(used * (1 / self._budget - 1), max(_LONGEST_PAUSE, 20 * used))

    def _ratify(self) -> Iterator[bool]:
        """Ratify for ever; yields after each small piece of work."""
        while True:
            for number in range(1 + _DRAWN):
                pin = self._pin()
                if pin is None:
                    return
                mark, search = pin(self._mark)
                del pin
                if search.is_new:
                    yield from self._draw_rules(search)
                self._mark = mark
                self.wants_event = True
                yield True
                if not self._sampled:
                    yield True
                    continue
                live = self._taken.popleft() if self._taken and not number else None
                drawn = self._draw_event() if live is None else None
                event = live if drawn is None else drawn
                if event is not None:
                    self._counts["drawn" if live is None else "live"] += 1
                    with suppress(TamisError):  # an event that is refused, or a deadline
                        yield from self._check(search, event)
                yield True

    def _draw_event(self) -> Event | None:
        if self._sampler is None:
            return None
        return to_event(self._sampler.draw())

    def _draw_rules(self, search: PinnedSearch) -> Iterator[bool]:
        sampled: dict[RuleId, _Sampled] = {}
        for _ in range(_RULES):
            rule = search.draw(self._random)
            if rule is not None and rule.id not in sampled:
                sampled[rule.id] = self._prepare(rule)
            yield True
        self._sampled = list(sampled.values())
        plain = [one.tree for one in self._sampled if not one.has_joins]
        yield True
        self._sampler = EventSampler(plain, self._schema, self._random) if plain else None

    def _prepare(self, rule: Rule) -> _Sampled:
        expr = self._schema.adapt_rule(rule.bound_expr)
        weights = RuleWeights.of(rule.weights, rule.expr)
        if weights:
            weights = self._schema.adapt_weights(weights).map(make_comparable)
        has_joins = any(p.attribute.startswith(JOINED) for p in predicates(expr))
        return _Sampled(rule, expr, nnf(expr, rule.logic), weights, has_joins)

    def _check(self, search: PinnedSearch, event: Event) -> Iterator[bool]:
        """Compare all answers about an event, rule by rule."""
        flat = self._schema.read(event)
        encoded: list[bytes] | None = []
        with self._documents.held() if search.has_joins else nullcontext():
            # Or else a document may come between two searches, or get too old.
            answers: dict[str, Any] = {"match": search.match(event)}
            if search.match_many is not None:
                answers["match_many"] = search.match_many(event)
            best = search.top(event, _TOP)
            if search.has_joins:
                encoded = self._documents.copy_documents(_MOST_DOCUMENTS)
        yield True
        documents: list[FlatEvent] = []
        for document in encoded or ():
            documents.append(decode_flat(document))
            yield True
        joined: dict[str, list[Value] | None] = {}
        """The join attributes that rules have needed so far."""
        found = {method: frozenset(ids) for method, ids in answers.items()}
        matching = [id for id in answers["match"] if all(id != s.rule.id for s in self._sampled)]
        more = self._random.sample(matching, min(len(matching), _RULES))
        scores: dict[RuleId, float] = {}
        for one in [*self._sampled, *self._prepare_matching(search, more)]:
            whole = flat
            if one.has_joins:
                if encoded is None:
                    continue
                yield from _evaluate_joins(one, flat, documents, joined)
                known = {name: values for name, values in joined.items() if values is not None}
                whole = extend_event(flat, known)
            holds = evaluate_flat(one.expr, whole, one.rule.logic) is True
            holds = holds and one.rule.validity.is_valid(search.at)
            self._counts["compared"] += 1
            self._counts["matched"] += holds
            for method, ids in found.items():
                if (one.rule.id in ids) is not holds:
                    self._report(one.rule, event, method, not holds, holds)
            if holds:
                score = score_flat(one.tree, whole, one.weights, _NO_EVENT_WEIGHTS)
                scores[one.rule.id] = 0.0 if score is None else score
            yield True
        self._check_best(search, event, best, scores)

    def _prepare_matching(self, search: PinnedSearch, ids: Sequence[RuleId]) -> Iterator[_Sampled]:
        for id in ids:
            rule = search.find(id)
            if rule is not None:
                yield self._prepare(rule)

    def _check_best(
        self,
        search: PinnedSearch,
        event: Event,
        best: Sequence[tuple[RuleId, float]],
        scores: Mapping[RuleId, float],
    ) -> None:
        """Compare the best rules with the scores of those that were evaluated."""
        ranked = dict(best)
        floor = best[-1][1] if len(best) == _TOP else -1.0
        for id, score in scores.items():
            is_right = ranked[id] == score if id in ranked else score <= floor
            rule = None if is_right else search.find(id)
            if rule is not None:
                self._report(rule, event, "top", id in ranked, True)

    def _report(self, rule: Rule, event: Event, method: str, found: bool, holds: bool) -> None:
        difference = Difference(rule.id, to_sql(rule.expr), dict(event), method, found, holds)
        self._counts["differences"] += 1
        self._kept.append(difference)
        _logger.error("an answer differs from the rule language: %s", difference)
        if self._on_difference is not None:
            try:
                self._on_difference(difference)
            except Exception:
                _logger.exception("on_difference raised an error")


def _evaluate_joins(
    one: _Sampled,
    event: FlatEvent,
    documents: Sequence[FlatEvent],
    joined: dict[str, list[Value] | None],
) -> Iterator[bool]:
    """Evaluate the join predicates of a rule, document by document."""
    for predicate in predicates(one.expr):
        name = predicate.attribute
        if not name.startswith(JOINED) or name in joined:
            continue
        join = join_named(name)
        counted: list[FlatEvent] = []
        for document in documents:
            if is_true(join.where, document, event):
                counted.append(document)
            yield True
        joined[name] = join_values(join, event, counted)


def _run(reference: weakref.ref[ContinuousRatifier], stop: threading.Event) -> None:
    if hasattr(os, "setpriority"):
        # Of this thread alone, on Linux; elsewhere that may not be possible.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    pause = 0.0
    while not stop.wait(pause):
        ratifier = reference()
        if ratifier is None:
            return
        try:
            pause = ratifier.step()
        except Exception:
            _logger.exception("ratification failed; it is not continued")
            ratifier.wants_event = False
            return
        del ratifier


_all_ratifiers: weakref.WeakSet[ContinuousRatifier] = weakref.WeakSet()


def _end_in_child() -> None:
    for ratifier in list(_all_ratifiers):
        ratifier.end_in_child()


call_in_child(_end_in_child)
