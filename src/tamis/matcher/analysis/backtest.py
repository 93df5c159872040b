"""Runs draft rules over past events: how many match, when, and what changes against saved rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.encode.arrow_arrays import to_numpy
from tamis.encode.arrow_rows import to_mappings
from tamis.errors import EventError, RuleError
from tamis.expr.functions.derive import bases_of
from tamis.expr.html import draw_bars, write_box, write_table
from tamis.expr.model import Expr
from tamis.expr.names import DERIVED
from tamis.expr.times import count_microseconds
from tamis.matcher.inputs import EventChunk, split_events
from tamis.matcher.rule import Rule, RuleId, make_rule
from tamis.matcher.validity import ALWAYS

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = [
    "Backtest",
    "PastChunk",
    "PastEvents",
    "RuleBacktest",
    "Sample",
    "TimeBin",
    "backtest",
    "merge_backtests",
    "read_drafts",
]

_NO_TIME: Final = np.iinfo(np.int64).min
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000
_STEPS: Final = tuple(
    seconds * _SECOND
    for seconds in (1, 10, 60, 600, 3600, 21600, 86400, 604800, 2419200, 31449600, 314496000)
)
"""How long a bin may be, in microseconds. Each is a multiple of the one before."""
_BAR: Final = 24
_LONGEST_SAMPLE: Final = 160


class PastChunk(NamedTuple):
    """Some past events."""

    events: EventChunk
    numbers: NDArray[np.int64]
    """The number of each event."""
    times: NDArray[np.int64] | None = None
    """When each happened, in microseconds since 1970; None if that is not known."""
    read: Callable[[int], Mapping[str, Any]] | None = None
    """Reads the whole event at a place, where `events` has only some attributes of it."""


@runtime_checkable
class PastEvents(Protocol):
    """A source of past events that can leave out what a backtest does not need."""

    def read_chunks(self, attributes: frozenset[str], exact: frozenset[str]) -> Iterator[PastChunk]:
        """Read all events, with at least `attributes` of them.

        Of those in `exact`, integers and doubles that are equal have to be kept apart.
        """


class Sample(NamedTuple):
    """An event of a backtest."""

    number: int
    """Its sequence number in a log, else its number among the events."""
    time: datetime | None
    event: Mapping[str, Any]


class TimeBin(NamedTuple):
    """What a rule matched in a period."""

    start: datetime
    events: int
    """How many events there were in all."""
    matches: int
    gained: int
    lost: int


class RuleBacktest(NamedTuple):
    """What a draft rule would have matched."""

    id: RuleId
    text: str
    matches: int
    """How many events it matches."""
    before: int | None
    """How many the saved rule of the same id matches; None if there is none."""
    gained: int
    """How many it matches that the saved one does not."""
    lost: int
    """How many it does not match that the saved one does."""
    bins: list[TimeBin]
    """The matches over time; empty if the time of events is not known."""
    samples: list[Sample]
    """Some events that it matches; the first ones."""
    gained_samples: list[Sample]
    lost_samples: list[Sample]


class Backtest(NamedTuple):
    """The result of :meth:`tamis.Matcher.backtest`. It prints as a report."""

    events: int
    """How many events there were."""
    first: datetime | None
    """The time of the earliest event; None if it is not known."""
    last: datetime | None
    step: timedelta | None
    """How long a bin is."""
    rules: list[RuleBacktest]

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(
            {
                "events": self.events,
                "first": self.first,
                "last": self.last,
                "step_seconds": None if self.step is None else self.step.total_seconds(),
                "rules": [
                    {
                        **rule._asdict(),
                        "bins": [one._asdict() for one in rule.bins],
                        **{
                            name: [sample._asdict() for sample in getattr(rule, name)]
                            for name in ("samples", "gained_samples", "lost_samples")
                        },
                    }
                    for rule in self.rules
                ],
            },
            enc_hook=str,
        )
        return plain

    def _repr_html_(self) -> str:
        title, *_ = str(self).splitlines()
        rows = []
        for rule in self.rules:
            labels = [
                f"{_spell(one.start)}: {one.matches:,} of {one.events:,}" for one in rule.bins
            ]
            bars = draw_bars([one.matches for one in rule.bins], labels) if rule.bins else ""
            before = "" if rule.before is None else rule.before
            counts = (rule.matches, before, rule.gained, rule.lost)
            rows.append((str(rule.id), rule.text, *counts, bars.encode()))
        titles = ("draft", "rule", "matches", "before", "gained", "lost", "over time")
        return write_box(title, write_table(rows, titles))

    def __str__(self) -> str:
        span = ""
        if self.first is not None and self.last is not None:
            span = f" from {_spell(self.first)} to {_spell(self.last)}"
        lines = [f"{self.events:,} events{span}"]
        for rule in self.rules:
            lines += ["", *_describe(rule, self.events)]
        return "\n".join(lines)


def backtest(
    matcher: Matcher,
    rules: Any,
    events: Any,
    *,
    id: RuleId | None,
    time: str | None,
    bins: int,
    samples: int,
    fresh: Callable[[], Matcher],
    watch: Callable[[int], None],
) -> Backtest:
    """See :meth:`tamis.Matcher.backtest`; `fresh` creates matchers like this one."""
    drafts = read_drafts(rules, id, fresh())
    saved = {draft.id: matcher.rule(draft.id) for draft in drafts if draft.id in matcher}
    searched = _Searched(drafts, saved, fresh)
    results = [_Result(draft, draft.id in saved, samples) for draft in drafts]
    everything = _Histogram(bins)
    for chunk in _read_chunks(events, searched):
        times = chunk.times if time is None else _read_times(chunk.events, time)
        step = everything.add(times, len(chunk.numbers))
        matched = searched.match(chunk.events)
        for result, (now, before) in zip(results, matched, strict=True):
            result.add(chunk, times, now, before, step)
        watch(everything.count)
    return _summarize(everything, results)


def merge_backtests(parts: Sequence[Backtest], bins: int, samples: int) -> Backtest:
    """The backtest of all events, from those of some of them with the same drafts."""
    dated = [part for part in parts if part.first is not None and part.last is not None]
    first = min((part.first for part in dated if part.first is not None), default=None)
    last = max((part.last for part in dated if part.last is not None), default=None)
    step = None
    if first is not None and last is not None:
        spans = [int(part.step.total_seconds()) * _SECOND for part in dated if part.step]
        begin, end = count_microseconds(first), count_microseconds(last)
        step = next(
            (step for step in _STEPS if step >= max(spans) and end // step - begin // step < bins),
            _STEPS[-1],
        )
    rules = [
        _merge_rules([part.rules[place] for part in parts], step, samples)
        for place in range(len(parts[0].rules))
    ]
    length = None if step is None else timedelta(microseconds=step)
    return Backtest(sum(part.events for part in parts), first, last, length, rules)


def _merge_rules(parts: Sequence[RuleBacktest], step: int | None, samples: int) -> RuleBacktest:
    counts: dict[int, list[int]] = {}
    for part in parts if step is not None else ():
        for start, *numbers in part.bins:
            wide = count_microseconds(start) // step * step  # type: ignore[operator]
            known = counts.setdefault(wide, [0, 0, 0, 0])
            counts[wide] = [a + b for a, b in zip(known, numbers, strict=True)]
    bins = [
        TimeBin(_EPOCH + timedelta(microseconds=start), *counts[start]) for start in sorted(counts)
    ]

    def first_of(kind: str) -> list[Sample]:
        return [sample for part in parts for sample in getattr(part, kind)][:samples]

    befores = [part.before for part in parts if part.before is not None]
    return RuleBacktest(
        parts[0].id,
        parts[0].text,
        sum(part.matches for part in parts),
        sum(befores) if befores else None,
        sum(part.gained for part in parts),
        sum(part.lost for part in parts),
        bins,
        first_of("samples"),
        first_of("gained_samples"),
        first_of("lost_samples"),
    )


def read_drafts(rules: Any, id: RuleId | None, fresh: Matcher) -> list[Rule]:
    """The draft rules that a caller gives, checked.

    Raises
    ------
    RuleError
        One is refused.
    """
    if isinstance(rules, str | Expr | bool):
        made = make_rule("draft" if id is None else id, rules, fresh.stats()["logic"])
        fresh.add_many([made])
    elif isinstance(rules, Rule):
        fresh.add_many([rules if id is None else msgspec.structs.replace(rules, id=id)])
    elif id is not None:
        raise RuleError("id= names a single rule; several have their own ids")
    else:
        fresh.add_many(rules)
    return [msgspec.structs.replace(fresh.rule(one), validity=ALWAYS) for one in fresh]


class _Searched:
    """Drafts and their saved versions, in matchers.

    They share a matcher if they can. Those with join predicates need one each, since what a rule
    received depends on the others; and each event is published, so that later ones see it.
    """

    def __init__(
        self, drafts: list[Rule], saved: Mapping[RuleId, Rule], fresh: Callable[[], Matcher]
    ) -> None:
        self._size = len(drafts)
        replace = msgspec.structs.replace
        now = [replace(rule, id=2 * place) for place, rule in enumerate(drafts)]
        before = [
            replace(saved[rule.id], id=2 * place + 1, validity=ALWAYS)
            for place, rule in enumerate(drafts)
            if rule.id in saved
        ]
        first = fresh()
        first.add_many([*now, *before])
        self.has_joins = first._searcher.has_joins
        self._matchers = [first]
        if self.has_joins:
            self._matchers = [fresh(), fresh()]
            self._matchers[0].add_many(now)
            self._matchers[1].add_many(before)
        else:
            first.optimize()
        self.attributes = first.attributes()
        names = {
            name
            for view in first._frozen_views(first._snapshot)
            for name in view.segment.engine.rules.dictionary.attributes
        }
        self.exact = frozenset(
            base for name in names if name.startswith(DERIVED) for base in bases_of(name)
        )

    def match(self, events: EventChunk) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For each draft, the places of the events that it and its saved version match."""
        if self.has_joins:
            rows, rules = self._publish(events)
        else:
            table = self._matchers[0].match_many(events)
            assert isinstance(table, pa.Table)
            rows = to_numpy(table["event"]).astype(np.int64, copy=False)
            rules = to_numpy(table["rule"]).astype(np.int64, copy=False)
        if self._size == 1 and not self.has_joins and not len(rules):
            return [(rows, rows)]
        order = np.argsort(rules, kind="stable")
        rows, rules = rows[order], rules[order]
        bounds = np.searchsorted(rules, np.arange(2 * self._size + 1))
        found = [rows[bounds[n] : bounds[n + 1]] for n in range(2 * self._size)]
        return list(zip(found[::2], found[1::2], strict=True))

    def _publish(self, events: EventChunk) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        rows: list[int] = []
        rules: list[Any] = []
        mappings = events if isinstance(events, list) else to_mappings(events)
        for number, event in enumerate(mappings):
            for matcher in self._matchers:
                found = matcher.publish(event)
                rules += found
                rows += [number] * len(found)
        return np.array(rows, np.int64), np.array(rules, np.int64)


class _Histogram:
    """Counts of times in bins that grow with the span."""

    def __init__(self, most: int) -> None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise ValueError(f"bins is a positive whole number, not {most!r}")
        self._most = most
        self.level = 0
        self.counts: dict[int, int] = {}
        self.count = 0
        self.first: int | None = None
        self.last: int | None = None

    @property
    def step(self) -> int:
        return _STEPS[self.level]

    def add(self, times: NDArray[np.int64] | None, count: int) -> int:
        """Count events; returns how long a bin is from now on."""
        self.count += count
        known = _NO_TIMES if times is None else times[times != _NO_TIME]
        if len(known):
            first, last = int(known.min()), int(known.max())
            self.first = first if self.first is None else min(first, self.first)
            self.last = last if self.last is None else max(last, self.last)
            while (
                self.level + 1 < len(_STEPS)
                and self.last // self.step - self.first // self.step >= self._most
            ):
                self.level += 1
                _widen(self.counts, self.step)
            _count(self.counts, known, self.step)
        return self.step


_NO_TIMES: Final = np.empty(0, np.int64)


def _count(counts: dict[int, int], times: NDArray[np.int64], step: int) -> None:
    starts, sizes = np.unique(times // step * step, return_counts=True)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        counts[start] = counts.get(start, 0) + size


def _widen(counts: dict[int, int], step: int) -> None:
    old = dict(counts)
    counts.clear()
    for start, size in old.items():
        wide = start // step * step
        counts[wide] = counts.get(wide, 0) + size


class _Result:
    """What is known of a draft so far."""

    def __init__(self, draft: Rule, has_saved: bool, samples: int) -> None:
        if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0:
            raise ValueError(f"samples is a whole number, not {samples!r}")
        self.draft = draft
        self.has_saved = has_saved
        self._samples = samples
        self.kinds = {kind: _Matched() for kind in ("matches", "before", "gained", "lost")}

    def add(
        self,
        chunk: PastChunk,
        times: NDArray[np.int64] | None,
        now: NDArray[np.int64],
        before: NDArray[np.int64],
        step: int,
    ) -> None:
        """Take what the draft and its saved version match of a chunk, as places."""
        found = {"matches": now}
        if self.has_saved:
            found["before"] = before
            found["gained"] = np.setdiff1d(now, before, assume_unique=True)
            found["lost"] = np.setdiff1d(before, now, assume_unique=True)
        for kind, places in found.items():
            wanted = 0 if kind == "before" else self._samples
            self.kinds[kind].add(chunk, times, places, step, wanted)


class _Matched:
    """Events of one kind: how many, when, and some of them."""

    def __init__(self) -> None:
        self.count = 0
        self.counts: dict[int, int] = {}
        self.samples: list[Sample] = []
        self._step = 0

    def add(
        self,
        chunk: PastChunk,
        times: NDArray[np.int64] | None,
        places: NDArray[np.int64],
        step: int,
        samples: int,
    ) -> None:
        self.count += len(places)
        self.widen(step)
        if times is not None and len(places):
            known = times[places]
            _count(self.counts, known[known != _NO_TIME], step)
        for place in places[: max(0, samples - len(self.samples))].tolist():
            moment = _NO_TIME if times is None else int(times[place])
            self.samples.append(
                Sample(int(chunk.numbers[place]), _to_time(moment), _read_event(chunk, place))
            )

    def widen(self, step: int) -> None:
        if step != self._step:
            _widen(self.counts, step)
            self._step = step


def _read_event(chunk: PastChunk, place: int) -> Mapping[str, Any]:
    if chunk.read is not None:
        return chunk.read(place)
    if isinstance(chunk.events, list):
        return chunk.events[place]
    return to_mappings(chunk.events.slice(place, 1))[0]


def _read_chunks(events: Any, searched: _Searched) -> Iterator[PastChunk]:
    if isinstance(events, PastEvents):
        attributes = searched.attributes
        yield from events.read_chunks(
            attributes if not searched.has_joins else frozenset(), searched.exact
        )
        return
    if isinstance(events, str | bytes):
        raise EventError(
            "events are a list, a table or a log; for a file pass tamis.files.EventFile(path)"
        )
    number = 0
    for chunk in split_events(events):
        size = len(chunk) if isinstance(chunk, list) else chunk.num_rows
        yield PastChunk(chunk, np.arange(number, number + size))
        number += size


def _read_times(events: EventChunk, name: str) -> NDArray[np.int64]:
    """The times of events, in microseconds since 1970, by an attribute of theirs."""
    if isinstance(events, list):
        return np.fromiter((_microseconds(_look_up(e, name)) for e in events), np.int64)
    if name not in events.schema.names:
        return np.full(events.num_rows, _NO_TIME)
    column = events.column(name)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        cast = pc.cast(column, pa.timestamp("us", "UTC"), safe=False)
        return np.asarray(pc.fill_null(cast.cast(pa.int64()), _NO_TIME))
    return np.fromiter((_microseconds(value) for value in column.to_pylist()), np.int64)


def _look_up(event: Mapping[str, Any], name: str) -> Any:
    """The value of an attribute of an event, also of a nested one."""
    if name in event:
        return event[name]
    found: Any = event
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _microseconds(value: Any) -> int:
    """A time in microseconds since 1970; `_NO_TIME` for what is none."""
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    try:
        if isinstance(value, datetime):
            return count_microseconds(value if value.tzinfo else value.replace(tzinfo=UTC))
        if isinstance(value, str):
            return _microseconds(datetime.fromisoformat(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value * _SECOND)
    except (ValueError, OverflowError, RuleError):
        pass
    return _NO_TIME


def _summarize(everything: _Histogram, results: Iterable[_Result]) -> Backtest:
    rules = []
    for result in results:
        for matched in result.kinds.values():
            matched.widen(everything.step)
        kinds = result.kinds
        bins = [
            TimeBin(
                _EPOCH + timedelta(microseconds=start),
                everything.counts[start],
                *(kinds[kind].counts.get(start, 0) for kind in ("matches", "gained", "lost")),
            )
            for start in sorted(everything.counts)
        ]
        rules.append(
            RuleBacktest(
                result.draft.id,
                result.draft.text,
                kinds["matches"].count,
                kinds["before"].count if result.has_saved else None,
                kinds["gained"].count,
                kinds["lost"].count,
                bins,
                *(kinds[kind].samples for kind in ("matches", "gained", "lost")),
            )
        )
    is_dated = everything.first is not None
    return Backtest(
        everything.count,
        _to_time(everything.first),
        _to_time(everything.last),
        timedelta(microseconds=everything.step) if is_dated else None,
        rules,
    )


def _to_time(microseconds: int | None) -> datetime | None:
    if microseconds is None or microseconds == _NO_TIME:
        return None
    return _EPOCH + timedelta(microseconds=microseconds)


# --- The report ---


def _describe(rule: RuleBacktest, events: int) -> list[str]:
    share = f" ({rule.matches / events:.2%})" if events else ""
    line = f"{rule.id!r} matches {rule.matches:,}{share}"
    if rule.before is not None:
        line += f", before {rule.before:,}: {rule.gained:,} gained, {rule.lost:,} lost"
    lines = [line, f"  {rule.text}", *_draw_bins(rule)]
    shown = [("such as", rule.samples)]
    if rule.before is not None:
        shown = [("gained, such as", rule.gained_samples), ("lost, such as", rule.lost_samples)]
    for title, samples in shown:
        if samples:
            lines += [f"  {title}", *(f"    {_show(sample)}" for sample in samples)]
    return lines


def _draw_bins(rule: RuleBacktest) -> list[str]:
    largest = max((one.matches for one in rule.bins), default=0)
    lines = []
    for one in rule.bins:
        bar = "█" * round(_BAR * one.matches / largest) if largest else ""
        line = f"  {_spell(one.start)}  {bar:<{_BAR}} {one.matches:>9,} of {one.events:,}"
        if rule.before is not None and (one.gained or one.lost):
            line += f"  +{one.gained:,} -{one.lost:,}"
        lines.append(line)
    return lines


def _show(sample: Sample) -> str:
    try:
        text = msgspec.json.encode(sample.event, enc_hook=str).decode()
    except (TypeError, ValueError, UnicodeError):
        text = repr(dict(sample.event))
    if len(text) > _LONGEST_SAMPLE:
        text = text[: _LONGEST_SAMPLE - 1] + "…"
    return f"{sample.number:>8}  {text}"


def _spell(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")
