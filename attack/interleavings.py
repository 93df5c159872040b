"""Interleavings that a seed replays: threads that use a matcher, its documents, or a collection.

`attack.scheduler` decides at every lock, timer and file call which thread goes on, and in some
rounds at every line of the code that shares state. Every history has to be linearizable, and:
nobody waits for ever, no message is lost or comes twice, and positions only grow.

``python -m attack.interleavings SEED ROUND`` runs one round again.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import tamis
from attack.campaign import Budget, Report
from attack.histories import Operation, find_contradiction
from attack.scheduler import START, Deadlock, Scheduler
from tamis.errors import GoneError
from tamis.pubsub import Collection, LogRetention

__all__ = ["find_failures", "run"]

_MODULES: Final = ("tamis.matcher", "tamis.pubsub", "tamis.joins", "tamis.engines.betree")
"""Whose locks, clocks and file calls are the scheduler's."""

_LINES: Final = (
    *(
        "tamis.matcher.write.writer",
        "tamis.matcher.write.background",
        "tamis.matcher.storage.store",
    ),
    *("tamis.pubsub.publisher", "tamis.pubsub.waiters", "tamis.pubsub.collection"),
    *("tamis.pubsub.log.event_log", "tamis.pubsub.subscriptions.subscriptions"),
    *("tamis.joins.document_store", "tamis.matcher.storage.document_file"),
)
"""In which every line is a switch point in some rounds. No real lock is held there."""

_THREADS: Final = 3
_PHASES: Final = 12
"""How often all threads come together in a round. Then the state is known, and a new history
begins: long ones take long to check."""
_CALLS: Final = 7
"""Calls of each thread in a phase."""
_IDS: Final = ("a", "b", "c", "d")
_DOCUMENTS: Final = 3
"""How many documents retention keeps."""


class Session:
    """A round: a scheduler, what threads do, and what is wrong."""

    def __init__(self, random: Random, scheduler: Scheduler, folder: Path) -> None:
        self.random = random
        self.scheduler = scheduler
        self.folder = folder
        self.failures: list[str] = []
        self.operations = 0
        self._moments = count()

    def moment(self) -> int:
        return next(self._moments)

    def run_threads(self, *works: Callable[[Random], None]) -> None:
        """Run functions in threads, and wait until all have returned."""
        tasks = []
        for number, work in enumerate(works):
            random = Random(self.random.random())
            tasks.append(self.scheduler.create(partial(work, random), f"client {number}"))
        self.scheduler.join(tasks)
        self.failures += self.scheduler.failures
        self.scheduler.failures = []

    def check(self, history: list[Any], first: Any) -> None:
        """Check that a history is linearizable."""
        wrong = find_contradiction(history, first)
        if wrong is not None:
            listed = "\n    ".join(map(str, sorted(history, key=lambda o: o.called)))
            self.failures.append(f"{wrong}, from {first}\n    {listed}")

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.failures.append(what)


# --- Rules: a matcher in memory or in a directory, and followers of the directory ---


def use_rules(session: Session, *, is_stored: bool, follows: bool = False) -> None:
    """Add, replace, remove, match, rearrange; close and open between the phases."""
    random, path = session.random, session.folder / "index"
    matcher = tamis.open(path, sync=random.random() < 0.5) if is_stored else tamis.Matcher()
    matcher.add_many([(n, f"y = {n}") for n in range(random.choice((0, 3, 40)))])
    follower = tamis.open(path, read_only=True) if follows else None
    state: frozenset[str] = frozenset()
    for _ in range(_PHASES):
        history: list[Operation] = []
        followed: list[Operation] = []
        works = [_make_client(session, matcher, history) for _ in range(_THREADS - follows)]
        if follower is not None:
            works.append(_make_follower(session, follower, followed))
        session.run_threads(*works)
        # A follower may see a change in the log a moment before the writer's own readers do.
        writes = [operation for operation in history if operation.kind != "match"]
        session.check([*writes, *followed], state)
        after = frozenset(map(str, matcher.match({"x": 1})))
        session.check([*history, Operation("match", after, True, 1 << 40, 1 << 41)], state)
        session.operations += len(history) + len(followed) + 1
        state = after
        if session.failures:
            break
        if is_stored and random.random() < 0.25:
            matcher.close()
            matcher = tamis.open(path)
            found = frozenset(map(str, matcher.match({"x": 1})))
            session.expect(found == state, f"after a close and an open {found}, not {state}")
    if follower is not None:
        follower.close()
    matcher.close()


def _make_client(
    session: Session, matcher: tamis.Matcher, history: list[Operation]
) -> Callable[[Random], None]:
    def work(random: Random) -> None:
        for _ in range(_CALLS):
            kind: Any = random.choice(("add", "replace", "remove", "match", "match", "optimize"))
            ids = frozenset(random.sample(_IDS, random.choice((1, 1, 2))))
            if kind == "optimize":
                if random.random() < 0.3:
                    matcher.optimize()
                continue
            called, succeeded = session.moment(), True
            try:
                if kind == "match":
                    ids = _ask(matcher, random)
                elif kind == "remove":
                    matcher.remove_many(sorted(ids))
                else:
                    rules = [(id, "x = 1") for id in sorted(ids)]
                    matcher.add_many(rules, replace=kind == "replace")
            except (tamis.DuplicateRuleError, tamis.UnknownRuleError):
                succeeded = False
            history.append(Operation(kind, ids, succeeded, called, session.moment()))

    return work


def _ask(matcher: tamis.Matcher, random: Random) -> frozenset[str]:
    """All rules that match, by one of the calls."""
    event = {"x": 1}
    how = random.randrange(4)
    if how == 0:
        return frozenset(matcher.match_many([event])["rule"].to_pylist())
    if how == 1:
        return frozenset(str(id) for id, _ in matcher.top(event, n=100))
    return frozenset(map(str, matcher.match(event)))


def _make_follower(
    session: Session, follower: tamis.Matcher, history: list[Operation]
) -> Callable[[Random], None]:
    def work(_random: Random) -> None:
        for _ in range(_CALLS):
            called = session.moment()
            before = follower.revision
            follower.refresh()
            session.expect(follower.revision >= before, "a follower went back")
            ids = frozenset(map(str, follower.match({"x": 1})))
            history.append(Operation("match", ids, True, called, session.moment()))

    return work


# --- Documents ---


@dataclass(frozen=True)
class DocumentCall:
    """A call about documents; the state is their ids, oldest first."""

    kind: str
    id: str
    answer: Any
    called: int
    returned: int
    succeeded: bool | None = True

    def follow(self, state: tuple[str, ...]) -> tuple[str, ...] | None:
        """The ids after this call; None if its answer does not fit."""
        if self.kind == "list":
            return state if self.answer == state else None
        if self.kind == "match":
            return state if self.answer == (self.id in state) else None
        rest = tuple(id for id in state if id != self.id)
        if self.kind == "remove":
            return rest if self.answer == (self.id in state) else None
        if self.kind == "publish" and self.answer != (self.id in state):
            return None
        return (*rest, self.id)[-_DOCUMENTS:]


def use_documents(session: Session, *, is_stored: bool) -> None:
    """Publish, add, replace and remove documents with a limit on their number."""
    path, random = session.folder / "index", session.random
    retention = tamis.Retention(count=_DOCUMENTS)

    def start() -> tamis.Matcher:
        if is_stored:
            return tamis.open(path, documents=retention, sync=False)
        return tamis.Matcher(documents=retention)

    matcher = start()
    matcher.add("seen", "EXISTS (SELECT 1 FROM seen d WHERE d.x = x)")
    state: tuple[str, ...] = ()
    for _ in range(_PHASES):
        history: list[DocumentCall] = []
        works = [_make_publisher(session, matcher, history) for _ in range(_THREADS)]
        session.run_threads(*works)
        after = tuple(map(str, matcher.documents))
        history.append(DocumentCall("list", "", after, 1 << 40, 1 << 41))
        session.check(history, state)
        session.operations += len(history)
        state = after
        if session.failures:
            break
        if is_stored and random.random() < 0.25:
            matcher.close()
            matcher = start()
            found = tuple(map(str, matcher.documents))
            session.expect(found == state, f"after a close and an open {found}, not {state}")
    matcher.close()


def _make_publisher(
    session: Session, matcher: tamis.Matcher, history: list[DocumentCall]
) -> Callable[[Random], None]:
    def work(random: Random) -> None:
        for _ in range(_CALLS):
            kind = random.choice(("publish", "publish", "add", "remove", "match", "list"))
            id = random.choice(_IDS)
            called = session.moment()
            answer: Any = None
            if kind == "publish":
                answer = bool(matcher.publish({"x": id}, id=id))
            elif kind == "add":
                matcher.documents.add({"x": id}, id=id)
            elif kind == "match":
                answer = bool(matcher.match({"x": id}))
            elif kind == "list":
                answer = tuple(map(str, matcher.documents))
            else:
                try:
                    matcher.documents.remove(id)
                    answer = True
                except tamis.TamisError:
                    answer = False
            history.append(DocumentCall(kind, id, answer, called, session.moment()))

    return work


# --- Collections ---


@dataclass
class Traffic:
    """What publishers and subscribers of a collection saw."""

    published: list[tuple[int, int, int]] = field(default_factory=list)
    """Sequence numbers, with the moments of call and return."""
    by_message: dict[str, set[int]] = field(default_factory=dict)
    received: list[int] = field(default_factory=list)
    skipped: int = 0
    """Messages up to this one were removed before they were read."""


def use_collection(session: Session, *, removes: bool) -> None:
    """Publish, subscribe, acknowledge, follow; the log may be removed meanwhile."""
    random, path = session.random, session.folder / "c"
    clock = session.scheduler
    age = 2.0 if removes else None
    retention = LogRetention(age=age, clock=lambda: START + clock.clock)
    options: dict[str, Any] = {"segment_bytes": random.choice((300, 2000)), "sync": False}
    collection = Collection.open(path, retention=retention, **options)
    collection.matcher.add("all", "x >= 0")
    collection.subscriptions.put("s", rules=["all"])
    follower = Collection.open(path, read_only=True)
    traffic = Traffic()
    for phase in range(_PHASES):
        stop: list[bool] = []
        session.run_threads(
            _make_sender(session, collection, traffic, phase),
            _make_sender(session, collection, traffic, phase),
            _make_receiver(session, collection, traffic),
            _make_reader(session, collection, follower, traffic),
            _make_changer(session, collection),
        )
        stop.append(True)
        _drain(session, collection, traffic)
        if session.failures:
            break
        if random.random() < 0.2:
            collection.close()
            collection = Collection.open(path, retention=retention, **options)
    _check_traffic(session, traffic)
    follower.close()
    collection.close()


def _make_sender(
    session: Session, collection: Collection, traffic: Traffic, phase: int
) -> Callable[[Random], None]:
    def work(random: Random) -> None:
        for _ in range(_CALLS):
            many = random.random() < 0.2
            has_id = not many and random.random() < 0.5
            message = f"{phase}/{random.randrange(6)}" if has_id else None
            called = session.moment()
            if many:
                results = collection.publish_many([{"x": 1}, {"x": 2}])
            else:
                results = [collection.publish({"x": 1}, message_id=message)]
            returned = session.moment()
            session.operations += 1
            for result in results:
                assert result is not None
                if message is not None:
                    traffic.by_message.setdefault(message, set()).add(result.sequence)
                if not result.duplicate:
                    traffic.published.append((result.sequence, called, returned))

    return work


def _receive(session: Session, collection: Collection, traffic: Traffic, wait: float) -> bool:
    """Read, and acknowledge; says whether there was something."""
    session.operations += 1
    try:
        found = collection.read("s", wait=wait, limit=5)
    except GoneError as error:
        last = error.earliest - 1
        traffic.skipped = max(traffic.skipped, last)
        collection.acknowledge("s", last)
        return True
    traffic.received += [delivery.sequence for delivery in found]
    if found:
        position = collection.acknowledge("s", found[-1].sequence)
        session.expect(position >= found[-1].sequence, f"acknowledged {found[-1]}, at {position}")
    return bool(found)


def _make_receiver(
    session: Session, collection: Collection, traffic: Traffic
) -> Callable[[Random], None]:
    def work(random: Random) -> None:
        for _ in range(_CALLS):
            _receive(session, collection, traffic, random.choice((0.0, 0.5)))

    return work


def _drain(session: Session, collection: Collection, traffic: Traffic) -> None:
    while _receive(session, collection, traffic, 0.0):
        pass


def _make_reader(
    session: Session, collection: Collection, follower: Collection, traffic: Traffic
) -> Callable[[Random], None]:
    """Reads the log: as the writer, and as a process that only reads."""

    def work(random: Random) -> None:
        latest = 0
        for _ in range(_CALLS):
            session.operations += 1
            if random.random() < 0.5:
                known = max((sequence for sequence, *_ in traffic.published), default=0)
                follower.refresh()
                now = follower.log.latest
                session.expect(now >= max(latest, known), f"a follower is at {now}, not {known}")
                latest = now
                log = follower.log
            else:
                log = collection.log
            earliest = log.earliest
            try:
                records = list(log.read(earliest - 1, 30))
            except GoneError:
                continue
            numbers = [record.sequence for record in records]
            expected = list(range(numbers[0], numbers[0] + len(numbers))) if numbers else []
            session.expect(numbers == expected, f"the log has a gap: {numbers}")

    return work


def _make_changer(session: Session, collection: Collection) -> Callable[[Random], None]:
    """Other rules and subscriptions come and go."""

    def work(random: Random) -> None:
        for _ in range(_CALLS):
            session.operations += 1
            name = random.choice("tu")
            if random.random() < 0.5:
                collection.matcher.add(name, "x = 1", replace=True)
                collection.subscriptions.put(name, rules=[name])
            elif name in collection.subscriptions:
                collection.subscriptions.delete(name)
            session.scheduler.pause()
            if random.random() < 0.3:
                session.scheduler.block(lambda: False, random.choice((0.1, 1.5)), "a while")

    return work


def _check_traffic(session: Session, traffic: Traffic) -> None:
    """Every event has one number, in the order of calls; each message came once, in order."""
    numbers = sorted(sequence for sequence, *_ in traffic.published)
    session.expect(numbers == list(range(1, len(numbers) + 1)), f"numbers of events: {numbers}")
    for message, given in traffic.by_message.items():
        session.expect(len(given) == 1, f"message {message} has the numbers {given}")
    by_return = sorted(traffic.published, key=lambda each: each[2])
    highest, place = 0, 0
    for sequence, called, _ in sorted(traffic.published, key=lambda each: each[1]):
        while by_return[place][2] < called:
            highest = max(highest, by_return[place][0])
            place += 1
        session.expect(sequence > highest, f"event {sequence} came after {highest}")
    received = traffic.received
    session.expect(received == sorted(set(received)), f"messages in wrong order: {received}")
    lost = set(numbers) - set(received)
    session.expect(not any(n > traffic.skipped for n in lost), f"messages were lost: {lost}")


# --- Rounds ---

_WORKS: Final[dict[str, Callable[[Session], None]]] = {
    "rules in memory": lambda session: use_rules(session, is_stored=False),
    "rules in a directory": lambda session: use_rules(session, is_stored=True),
    "rules with a follower": lambda session: use_rules(session, is_stored=True, follows=True),
    "documents in memory": lambda session: use_documents(session, is_stored=False),
    "documents in a directory": lambda session: use_documents(session, is_stored=True),
    "collection": lambda session: use_collection(session, removes=False),
    "collection with retention": lambda session: use_collection(session, removes=True),
}


def run(budget: Budget) -> Report:
    """Run rounds of all kinds in turn."""
    report = Report("interleavings")
    for number, _ in budget.start_rounds("interleavings"):
        kind, session = run_round(budget.seed, number)
        report.tried["schedules"] += 1
        report.tried["operations"] += session.operations
        report.tried["switches of threads"] += session.scheduler.switches
        report.tried[f"operations: {kind}"] += session.operations
        if session.failures:
            again = run_round(budget.seed, number)[1]
            same = "the same" if again.scheduler.trace == session.scheduler.trace else "another"
            report.failures.append(
                f"{kind}: {session.failures[0]}\n    python -m attack.interleavings "
                f"{budget.seed} {number} (a second run took {same} schedule)"
            )
        if report.is_done:
            break
    return report


def run_round(seed: int, number: int) -> tuple[str, Session]:
    """One round, and what it is about."""
    kind = list(_WORKS)[number % len(_WORKS)]
    random = Random(f"{seed}/interleavings/{number}")
    lines = _LINES if random.random() < 0.25 else ()
    scheduler = Scheduler(random, stay=random.choice((0.2, 0.5, 0.8)), lines=lines)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="attack-"))
        session = Session(random, scheduler, Path(folder))
        stack.enter_context(_without_garbage())
        # Small files and documents, so that checkpoints and rewriting come often.
        stack.enter_context(patch("tamis.matcher.storage.store._CHECKPOINT_BYTES", 600))
        stack.enter_context(patch("tamis.matcher.storage.document_file._REWRITE_BYTES", 600))
        stack.enter_context(scheduler.installed(_MODULES))
        try:
            _WORKS[kind](session)
        except (Deadlock, Exception) as error:
            session.failures.append(f"{type(error).__name__}: {error}")
    return kind, session


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Collect no garbage meanwhile: finalizers take locks, at moments that no seed decides."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def find_failures(seed: int, number: int) -> list[str]:
    """What is wrong in one round."""
    return run_round(seed, number)[1].failures


if __name__ == "__main__":
    found = find_failures(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(found) or "nothing is wrong")
    sys.exit(bool(found))
