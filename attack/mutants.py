"""Known faults, put into Tamis or into an oracle on purpose: the campaign has to see each of them.

A mutant replaces one function while a part of the attack runs. A campaign that finds nothing in
Tamis proves something only if it finds these.
"""

from __future__ import annotations

import errno
import os
import random as random_module
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import tamis
from attack import failing_disk, fuzz, leaks, memory, oracle, power_cut, threads
from attack.campaign import Budget, Report
from attack.differential import draw
from attack.differential import run as differential
from tamis.encode.compiler.plain import run_plainly
from tamis.encode.events import EventEncoder
from tamis.encode.json.encoder import JsonEncoder
from tamis.engines.betree import expressions, tree
from tamis.engines.betree.arrays import TESTED
from tamis.engines.kernels import event_expressions
from tamis.engines.papers.betree import Betree
from tamis.expr import evaluate, normalize, patterns
from tamis.expr.model import Atom, Op, Predicate
from tamis.expr.text import grammar, shapes
from tamis.joins.ages import Ages
from tamis.joins.document_store import DocumentStore
from tamis.matcher.storage import atomic, directory, log, store
from tamis.matcher.validity import Validity

__all__ = ["MUTANTS", "Mutant", "find_failure", "run"]


class Mutant(NamedTuple):
    """A fault, and the part of the attack that has to see it."""

    inject: Callable[[], AbstractContextManager[Any]]
    attack: Callable[[Budget], Report]
    size: float = 0.05
    rounds: int = 12


def _differential(*checks: str) -> Callable[[Budget], Report]:
    return lambda budget: differential.run(budget, checks)


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[Any]:
    """Replace a function by one that is made from it."""
    return patch.object(owner, name, make(getattr(owner, name)))


# --- Wrong answers ---


def _boundary() -> AbstractContextManager[Any]:
    """``<`` is read as ``<=`` by the engines."""

    def change(right: Any) -> Any:
        def make_comparable(predicate: Predicate) -> Predicate:
            made: Predicate = right(predicate)
            if made.op is Op.LT:
                return Predicate(made.attribute, Op.LE, made.values, made.negated)
            return made

        return make_comparable

    return _replace(normalize, "make_comparable", change)


def _logics_swapped() -> AbstractContextManager[Any]:
    """A negated predicate on an absent attribute gets the other logic's answer."""

    def change(right: Any) -> Any:
        def atom_of(predicate: Predicate, logic: str, negated: bool = False) -> Atom:
            made: Atom = right(predicate, "weak" if logic == "strong" else "strong", negated)
            return made

        return atom_of

    return _replace(normalize, "atom_of", change)


def _absent_is_false() -> AbstractContextManager[Any]:
    """`evaluate` takes an absent attribute as false in the strong logic, too."""

    def change(right: Any) -> Any:
        return lambda predicate, event, logic: right(predicate, event, "weak")

    return _replace(evaluate, "_predicate_truth", change)


def _no_fold() -> AbstractContextManager[Any]:
    """ILIKE distinguishes cases, in the engines and in `evaluate` alike."""
    return patch.object(patterns, "fold", lambda text: text)


def _stand_in_decides() -> AbstractContextManager[Any]:
    """A template may depend on the stand-ins it was read with, as `within_box` once did."""
    return patch.object(shapes, "parse_template", grammar.parse)


def _escape_lost() -> AbstractContextManager[Any]:
    """A text is written without the escape of its LIKE."""

    def change(right: Any) -> Any:
        return lambda expr: right(expr).partition(" ESCAPE ")[0]

    return _replace(tamis, "to_sql", change)


def _scores_rounded() -> AbstractContextManager[Any]:
    """A score is rounded to a whole number."""

    def change(right: Any) -> Any:
        def top(self: Any, *arguments: Any, **named: Any) -> Any:
            return [(id, float(round(score))) for id, score in right(self, *arguments, **named)]

        return top

    return _replace(tamis.Matcher, "top", change)


def _priority_ignored() -> AbstractContextManager[Any]:
    """`first` returns the oldest rules."""

    def first(self: tamis.Matcher, event: Any, n: int = 1, **named: Any) -> Any:
        return self.match(event, **named)[:n]

    return patch.object(tamis.Matcher, "first", first)


def _end_included() -> AbstractContextManager[Any]:
    """A rule is still valid at the moment at which it ends."""

    def change(right: Any) -> Any:
        def of(priority: Any, start: Any, end: Any) -> Any:
            made = right(priority, start, end)
            return made._replace(end=made.end + 1) if end is not None else made

        return of

    return _replace(Validity, "of", change)


def _segment_dropped() -> AbstractContextManager[Any]:
    """An opened directory lacks its oldest segment."""

    def change(right: Any) -> Any:
        def read_manifest(folder: Path) -> Any:
            manifest = right(folder)
            return manifest._replace(views=manifest.views[1:])

        return read_manifest

    return _replace(directory, "read_manifest", change)


def _newest_document_forgotten() -> AbstractContextManager[Any]:
    """One document in five is not remembered."""
    numbers = count()

    def change(right: Any) -> Any:
        def add(self: Any, *arguments: Any) -> Any:
            return None if next(numbers) % 5 == 4 else right(self, *arguments)

        return add

    return _replace(DocumentStore, "add", change)


def _below_the_oldest() -> AbstractContextManager[Any]:
    """A document that replaces the only one has a number below that of the oldest."""

    def change(right: Any) -> Any:
        def insert(self: Any, number: int, *rest: Any) -> None:
            right(self, number, *rest)
            if len(self._encoded) == 1 and number:
                self.oldest = number + 1

        return insert

    return _replace(DocumentStore, "_insert", change)


def _newest_displaced() -> AbstractContextManager[Any]:
    """A limit by count removes the newest of the earlier documents."""

    def leave(self: Any, removed: dict[int, None], most: int | None) -> None:
        excess = 0 if most is None else len(self._encoded) - len(removed) - most
        left = [number for number in self._encoded if number not in removed]
        removed.update(dict.fromkeys(left[len(left) - max(0, excess) :]))

    return patch.object(DocumentStore, "_leave", leave)


def _wrong_clock_kept() -> AbstractContextManager[Any]:
    """Documents that came by a clock of the far future stay until then."""
    return _replace(Ages, "has_gone_back", lambda _: lambda self, now: False)


def _any_time_believed() -> AbstractContextManager[Any]:
    """An event of the far future makes all others too old."""
    return _replace(Ages, "_limit", lambda _: lambda self, came: inf)


def _time_noted_late() -> AbstractContextManager[Any]:
    """An event is matched before its time counts."""
    return _replace(DocumentStore, "note_event", lambda _: lambda self, event: None)


def _counted_once_too_often() -> AbstractContextManager[Any]:
    """`count_many` counts one match more in one event."""

    def change(right: Any) -> Any:
        def count_many(self: Any, *arguments: Any, **named: Any) -> Any:
            found = right(self, *arguments, **named)
            table = found if hasattr(found, "column_names") else found.read_all()
            numbers = table["matches"].to_pylist()
            return table.set_column(1, "matches", [[numbers[0] + 1, *numbers[1:]]])

        return count_many

    return _replace(tamis.Matcher, "count_many", change)


def _guards_before_captures() -> AbstractContextManager[Any]:
    """Text predicates of JSON are guarded by what kernels have read, and nothing else."""

    def change(right: Any) -> Any:
        def entries(self: Any, *arguments: Any) -> Any:
            return self._events.add_texts(*right(self, *arguments)), []

        return entries

    return _replace(JsonEncoder, "_entries", change)


def _captures_by_themselves() -> AbstractContextManager[Any]:
    """Text predicates of what Python reads of JSON are guarded by nothing else."""

    def change(right: Any) -> Any:
        def encode_entries(self: Any, *arguments: Any) -> Any:
            return self.add_texts(*right(self, *arguments)), []

        return encode_entries

    return _replace(EventEncoder, "encode_entries", change)


def _long_doubles_cut() -> AbstractContextManager[Any]:
    """Of a long double in JSON, the last digit is not read."""

    def change(right: Any) -> Any:
        def encode_doubles(self: Any, data: Any, entries: Any, places: Any) -> None:
            shorter = entries._replace(end=entries.end - (entries.end - entries.begin > 18))
            right(self, data, shorter, places)

        return encode_doubles

    return _replace(JsonEncoder, "_encode_doubles", change)


def _mutate_kernel(
    kernels: Sequence[tuple[Any, str]], callers: Sequence[Any], name: str, wrong: Any, engine: str
) -> AbstractContextManager[Any]:
    """Run some kernels of an engine as plain Python, with a wrong part in those that call it.

    Only this engine is drawn.
    """

    @contextmanager
    def inject() -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch.object(tamis, "engines", lambda: [engine]))
            stack.enter_context(patch.object(draw, "FAVOURITES", ()))
            for caller in callers:
                names = run_plainly(caller).__wrapped__.__globals__  # type: ignore[attr-defined]  # of functools.wraps
                stack.enter_context(patch.dict(names, {name: wrong}))
            for owner, kernel in kernels:
                plain: Any = run_plainly(getattr(owner, kernel))
                plain = staticmethod(plain) if isinstance(owner, type) else plain
                stack.enter_context(patch.object(owner, kernel, plain))
            yield

    return inject()


def _run_behind_lists() -> AbstractContextManager[Any]:
    """A run that is tested again stays behind the lists, where packed l-nodes take it for one."""

    def test_again(word: Any, entry: int) -> None:
        word[entry + TESTED] += 3

    kernels: list[tuple[Any, str]] = [
        (tree, name) for name in ("insert_all", "delete_all", "observe_all", "observe_few")
    ]
    kernels.append((Betree, "kernel"))  # compiled, it may leave its arrays
    callers = (expressions.unsubsume, expressions.unsubsume_all)
    return _mutate_kernel(kernels, callers, "_test_again", test_again, "betree")


def _empty_range_possible() -> AbstractContextManager[Any]:
    """A range of codes that ends before it begins counts as one that an event may meet."""

    def overlap(low: int, high: int, first: int, last: int) -> bool:
        return low <= last and first <= high

    return _mutate_kernel(
        [(event_expressions, "_write_verdicts")],
        (event_expressions._is_possible,),
        "_overlap",
        overlap,
        "scan",
    )


# --- Wrong oracles ---


def _oracle_with_open_ends() -> AbstractContextManager[Any]:
    """The oracle excludes the lower end of a BETWEEN."""

    def change(right: Any) -> Any:
        return lambda sign, value, literal: right(">" if sign == ">=" else sign, value, literal)

    return _replace(oracle, "_compare", change)


def _oracle_with_one_value() -> AbstractContextManager[Any]:
    """The oracle sees only the first value of an attribute."""

    def change(right: Any) -> Any:
        return lambda event: {name: values[:1] for name, values in right(event).items()}

    return _replace(oracle, "flatten", change)


# --- Lost changes, failures, races, leaks ---


def _record_lost() -> AbstractContextManager[Any]:
    """The log leaves out one record in four."""
    numbers = count()

    def change(right: Any) -> Any:
        def append(self: Any, content: bytes) -> None:
            if next(numbers) % 4 != 3:
                right(self, content)

        return append

    return _replace(log.Log, "append", change)


def _log_not_synced() -> AbstractContextManager[Any]:
    """The log does not wait for the disk."""

    def change(right: Any) -> Any:
        return lambda self, path, length, sync: right(self, path, length, False)

    return _replace(log.Log, "__init__", change)


def _renamed_before_synced() -> AbstractContextManager[Any]:
    """A file gets its name before its content is on the disk."""

    @contextmanager
    def inject() -> Iterator[None]:
        def write_atomically(path: Path, pieces: Any, complete: Any = None) -> None:
            real = os.fsync
            # Of the two waits, for the content and for the name, only the second is left.
            with patch.object(os, "fsync", lambda fd: real(fd) if os.path.isdir(fd) else None):  # noqa: PTH112
                right(path, pieces, complete)

        right = atomic.write_atomically
        with (
            patch.object(log, "write_atomically", write_atomically),
            patch("tamis.matcher.storage.array_file.write_atomically", write_atomically),
        ):
            yield

    return inject()


def _raw_errors() -> AbstractContextManager[Any]:
    """Errors of the operating system leave the API as they are."""

    @contextmanager
    def storage_errors(_: Path) -> Iterator[None]:
        yield

    return patch.object(log, "storage_errors", storage_errors)


def _half_written() -> AbstractContextManager[Any]:
    """A short write counts as a whole one."""

    def write_all(fd: int, data: Any) -> None:
        os.write(fd, data)

    return patch.object(log, "write_all", write_all)


def _failed_record_kept() -> AbstractContextManager[Any]:
    """The record of a change that failed after it was written stays in the log."""
    return patch.object(store.Store, "undo", lambda self: self.confirm())


def _stale_reads() -> AbstractContextManager[Any]:
    """Now and then a match does not see the newest rule."""
    chance = random_module.Random(1)

    def change(right: Any) -> Any:
        def match(self: Any, *arguments: Any, **named: Any) -> Any:
            found = right(self, *arguments, **named)
            return found[:-1] if chance.random() < 0.2 else found

        return match

    return _replace(tamis.Matcher, "match", change)


def _torn_batch() -> AbstractContextManager[Any]:
    """`add_many` adds its rules one by one, so that a reader may see a part of them."""

    def add_many(self: tamis.Matcher, rules: Sequence[Any], *, replace: bool = False) -> None:
        if any(id in self for id, _ in rules) and not replace:
            raise tamis.DuplicateRuleError("there is such a rule")
        for id, rule in rules:
            self.add(id, rule, replace=True)

    return patch.object(tamis.Matcher, "add_many", add_many)


def _events_kept() -> AbstractContextManager[Any]:
    """Every event that was matched is kept."""
    kept: list[Any] = []

    def change(right: Any) -> Any:
        def match(self: Any, event: Any, **named: Any) -> Any:
            kept.extend([dict(event)] + [[n] for n in range(40)])
            return right(self, event, **named)

        return match

    return _replace(tamis.Matcher, "match", change)


def _raw_parse_error() -> AbstractContextManager[Any]:
    """The parser fails with a KeyError on some texts."""

    def change(right: Any) -> Any:
        def parse(text: str) -> Any:
            if "((" in text:
                raise KeyError(errno.EINVAL)
            return right(text)

        return parse

    return _replace(tamis, "parse", change)


MUTANTS: Final[dict[str, Mutant]] = {
    "a boundary is off by one": Mutant(_boundary, _differential("batch")),
    "strong and weak are swapped": Mutant(_logics_swapped, _differential("batch")),
    "absent counts as false": Mutant(_absent_is_false, _differential("batch")),
    "ILIKE does not fold": Mutant(_no_fold, _differential("batch", "sql")),
    "a stand-in decides": Mutant(_stand_in_decides, _differential("function"), 0.4, 20),
    "an escape is lost": Mutant(_escape_lost, _differential("text")),
    "scores are rounded": Mutant(_scores_rounded, _differential("calls"), 0.2, 20),
    "priorities are ignored": Mutant(_priority_ignored, _differential("calls")),
    "the end is included": Mutant(_end_included, _differential("calls"), 0.2, 30),
    "a segment is dropped": Mutant(_segment_dropped, _differential("batch")),
    "a document is forgotten": Mutant(_newest_document_forgotten, _differential("join"), 0.2),
    "a number is below the oldest": Mutant(_below_the_oldest, _differential("documents"), 0.2, 20),
    "the newest is displaced": Mutant(_newest_displaced, _differential("documents"), 0.2, 20),
    "a wrong clock is kept": Mutant(_wrong_clock_kept, _differential("documents"), 0.4, 40),
    "any time is believed": Mutant(_any_time_believed, _differential("documents"), 0.4, 40),
    "a time is noted late": Mutant(_time_noted_late, _differential("documents"), 0.4, 40),
    "a match is counted twice": Mutant(_counted_once_too_often, _differential("schema")),
    "guards come before captures": Mutant(
        _guards_before_captures, _differential("json"), rounds=40
    ),
    "captures have own guards": Mutant(_captures_by_themselves, _differential("json"), rounds=40),
    "a long double is cut": Mutant(_long_doubles_cut, _differential("json"), rounds=40),
    "a run stays behind the lists": Mutant(_run_behind_lists, _differential("engine"), 0.1, 30),
    "an empty range is possible": Mutant(
        _empty_range_possible, _differential("expression"), 0.3, 40
    ),
    "the oracle excludes an end": Mutant(_oracle_with_open_ends, _differential("sql")),
    "the oracle sees one value": Mutant(_oracle_with_one_value, _differential("batch")),
    "a log record is lost": Mutant(_record_lost, power_cut.run, 0.2, 2),
    "the log is not synced": Mutant(_log_not_synced, power_cut.run, 0.2, 2),
    "a rename comes too early": Mutant(_renamed_before_synced, power_cut.run, 0.3, 3),
    "errors are raw": Mutant(_raw_errors, failing_disk.run, 0.3, 1),
    "a short write is taken": Mutant(_half_written, failing_disk.run, 0.3, 4),
    "a failed record is kept": Mutant(_failed_record_kept, memory.run, 0.5, 4),
    "a read is stale": Mutant(_stale_reads, threads.run, 1, 20),
    "a batch is torn": Mutant(_torn_batch, threads.run, 1, 300),
    "events are kept": Mutant(_events_kept, leaks.run, 0.02, 1),
    "the parser fails": Mutant(_raw_parse_error, fuzz.run, 0.3, 1),
}
"""The faults, by what is wrong."""


def find_failure(name: str, budget: Budget) -> str | None:
    """The first failure that the campaign reports with this fault; None if it sees nothing."""
    mutant = MUTANTS[name]
    stop_at_once = patch("attack.campaign._MOST_FAILURES", 1)
    with mutant.inject(), stop_at_once, patch("attack.case._MOST_TRIALS", 0):
        report = mutant.attack(
            Budget(budget.seed, budget.seconds, mutant.rounds, mutant.size, budget.cases)
        )
    return report.failures[0] if report.failures else None


def run(budget: Budget) -> Report:
    """Inject one fault after another; a fault that is not seen is a failure of the campaign."""
    report = Report("mutants")
    with TemporaryDirectory(prefix="attack-") as folder:
        for name in MUTANTS:
            report.tried["faults"] += 1
            seen = find_failure(name, Budget(budget.seed, cases=Path(folder))) is not None
            report.tried["faults seen"] += seen
            if not seen:
                report.failures.append(f"not seen: {name}")
    return report
