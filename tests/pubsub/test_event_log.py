"""The event log beside retention, and what it costs to ask again where nothing is new."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tamis.errors import GoneError
from tamis.pubsub import Collection, LogRetention
from tamis.pubsub.log import event_log, segment_index
from tamis.pubsub.log.documents import encode_document
from tamis.pubsub.log.event_log import EventLog
from tamis.pubsub.log.records import EventRecord, Match


def record(sequence: int, *subscriptions: str) -> EventRecord:
    document = msgspec.Raw(encode_document({"n": sequence, "text": "x" * 50}))
    matches = tuple(Match(name, ("r",)) for name in subscriptions)
    return EventRecord(sequence, 1_000_000 * sequence, document, matches)


def fill(log: EventLog, count: int, reached: Callable[[int], tuple[str, ...]]) -> None:
    for sequence in range(log.latest + 1, log.latest + count + 1):
        log.append([record(sequence, *reached(sequence))])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    made = EventLog(tmp_path, sync=False, segment_bytes=500)
    yield made
    made.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of the log that were read."""
    found: list[Path] = []
    read_frames = getattr(segment_index, "read_frames")  # noqa: B009  it is not exported
    open_regular = getattr(event_log, "open_regular")  # noqa: B009

    def note(path: Path) -> None:
        if threading.current_thread().name != "tamis-columns":
            found.append(path)

    def note_frames(path: Path, *more: Any) -> Any:
        note(path)
        return read_frames(path, *more)

    def note_open(path: Path, flags: int) -> int:
        note(path)
        return int(open_regular(path, flags))

    monkeypatch.setattr(segment_index, "read_frames", note_frames)
    monkeypatch.setattr(event_log, "open_regular", note_open)
    return found


# --- Subscriptions without news ---


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_subscription_without_news_reads_no_file(
    tmp_path: Path, reads: list[Path], is_acknowledged: bool
) -> None:
    with Collection.open(tmp_path / "c", sync=False, segment_bytes=500) as c:
        c.matcher.add("busy", "n >= 0")
        c.matcher.add("rare", "n = 0")
        for name, rule in (("busy", "busy"), ("rare", "rare"), ("never", "none")):
            c.subscriptions.put(name, rules=[rule])
        for n in range(500):
            c.publish({"n": n, "text": "x" * 50})
        if is_acknowledged:
            c.acknowledge("rare", 1)
    with Collection.open(tmp_path / "c", sync=False, segment_bytes=500) as c:
        assert len(c.log.files) > 2 * event_log._INDEXES
        reads.clear()
        expected = [] if is_acknowledged else [1]
        assert [one.sequence for one in c.read("rare")] == expected
        if is_acknowledged:
            # Each file is read once, for all subscriptions.
            assert len(reads) == len(set(reads)) <= len(c.log.files)
        assert c.read("never") == []
        c.read("rare", after=1)
        reads.clear()
        for _ in range(3):
            assert c.read("never") == []
            assert c.read("rare", after=1) == []
            assert c.read_any({"never": None, "rare": 1}) == []
            # Whoever reads history does not make others forget.
            c.log.find_deliveries("rare", 0, 1)
        assert reads == []
        c.publish({"n": 0})
        assert [one.sequence for one in c.read("rare", after=1)] == [501]


def test_stream_without_news_reads_no_file_at_a_heartbeat(
    tmp_path: Path, reads: list[Path]
) -> None:
    from tamis.server.catalog import OpenCollection
    from tamis.server.deliveries import Cursors, follow

    with Collection.open(tmp_path / "c", sync=False, segment_bytes=500) as c:
        c.matcher.add("all", "n >= 0")
        for name, rule in (("busy", "all"), ("idle", "none")):
            c.subscriptions.put(name, rules=[rule])
        for n in range(500):
            c.publish({"n": n, "text": "x" * 50})

        async def beat(times: int) -> None:
            pieces = follow(Cursors(OpenCollection("c", c), ["idle"]), False, 0.001)
            for _ in range(times):
                assert await anext(pieces) is None

        asyncio.run(beat(1))
        reads.clear()
        asyncio.run(beat(5))
        assert reads == []


def test_first_look_into_files_is_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(tmp_path / "c", sync=False, segment_bytes=500) as c:
        c.subscriptions.put("idle", rules=["none"])
        for n in range(500):
            c.publish({"n": n, "text": "x" * 50})
    threads: set[threading.Thread] = set()
    read_frames = getattr(segment_index, "read_frames")  # noqa: B009  it is not exported

    def note(*arguments: Any) -> Any:
        threads.add(threading.current_thread())
        return read_frames(*arguments)

    with Collection.open(tmp_path / "c", deduplicated_events=0) as c:
        monkeypatch.setattr(segment_index, "read_frames", note)
        assert asyncio.run(c.read_async("idle")) == []
    assert threads
    assert threading.main_thread() not in threads


def test_found_messages_are_those_of_a_plain_search(log: EventLog) -> None:
    """Any order of questions, appended events and removed files."""
    random = Random(7)
    names = ("often", "rare", "never", "late")
    reached: dict[int, tuple[str, ...]] = {}

    def reach(sequence: int) -> tuple[str, ...]:
        chosen = [("often", 0.5), ("rare", 0.02), ("late", 0.3 if sequence > 600 else 0)]
        reached[sequence] = tuple(name for name, share in chosen if random.random() < share)
        return reached[sequence]

    for _ in range(1_500):
        kind = random.random()
        if kind < 0.3:
            fill(log, random.randrange(1, 5), reach)
        elif kind < 0.32 and len(log.files) > 40:
            log.remove(log.files[: random.randrange(5)])
        name, after = random.choice(names), random.randrange(log.latest + 1)
        limit = random.choice([1, 3, 100])
        expected = [
            n for n in range(max(after + 1, log.earliest), log.latest + 1) if name in reached[n]
        ]
        assert log.find_deliveries(name, after, limit) == expected[:limit]


def test_more_messages_than_are_remembered_are_found(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.pubsub.log.reach._MOST_WAITING", 10)
    monkeypatch.setattr("tamis.pubsub.log.reach._MOST_SUBSCRIPTIONS", 2)
    fill(log, 100, lambda _: ("a", "b", "c"))
    for _ in range(2):
        for name in "abc":
            assert log.find_deliveries(name, 0, 1000) == list(range(1, 101))
            assert log.find_deliveries(name, 20, 5) == list(range(21, 26))


# --- Beside retention ---


@pytest.fixture
def hurry(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the writer append, and remove files, each time that a reader opens one."""
    left = [0]

    def go_on() -> None:
        if left[0] > 0:
            left[0] -= 1
            before, left[0] = left[0], 0
            fill(log, 8, lambda n: ("s",) if n % 3 else ())
            log.remove(log.files[:-2])
            left[0] = before

    for place, name in (
        (event_log, "open_regular"),
        (segment_index, "read_frames"),
        (event_log, "list_files"),
    ):
        function = getattr(place, name)

        def hurried(*arguments: Any, function: Callable[..., Any] = function) -> Any:
            found = function(*arguments) if function.__name__ == "list_files" else None
            go_on()
            return function(*arguments) if found is None else found

        monkeypatch.setattr(place, name, hurried)

    def start() -> None:
        left[0] = 6

    return start


READERS: dict[str, Callable[[EventLog], Any]] = {
    "read": lambda log: list(log.read(log.earliest - 1)),
    "find": lambda log: log.find(log.earliest),
    "read_deliveries": lambda log: log.read_deliveries(log.find_deliveries("s", 0, 100)),
    "read_index": lambda log: [log.read_index(file) for file in log.files],
    "recent_indexes": lambda log: log.recent_indexes(100),
}
KEPT: dict[str, Callable[[EventLog], Any]] = {
    "read_kept": lambda log: list(log.read_kept()),
    "find_deliveries": lambda log: log.find_deliveries("s", 0, 100),
    "read_chunks": lambda log: list(log.read_chunks(frozenset(), frozenset())),
}


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("name", [*READERS, *KEPT])
def test_reader_beside_retention_gets_no_other_error_than_gone(
    log: EventLog, hurry: Callable[[], None], name: str, is_own: bool
) -> None:
    fill(log, 50, lambda _: ("s",))
    reader = log if is_own else EventLog(log.folder, read_only=True)
    read = (READERS | KEPT)[name]
    gone = 0
    for _ in range(4):
        hurry()
        try:
            reader.refresh()
            read(reader)
        except GoneError as error:
            gone += 1
            assert error.earliest <= log.earliest
    assert gone == 0 or name in READERS


def test_reader_of_another_process_learns_that_an_event_is_gone(log: EventLog) -> None:
    fill(log, 60, lambda _: ("s",))
    reader = EventLog(log.folder, read_only=True)
    reading = reader.read()
    assert next(reading).sequence == 1
    log.remove(log.files[:-1])
    with pytest.raises(GoneError) as gone:
        list(reading)
    assert gone.value.earliest == log.earliest
    for look in (lambda: reader.find(1), lambda: list(reader.read(3))):
        with pytest.raises(GoneError):
            look()


def test_backtest_of_a_reader_goes_on_beside_retention(tmp_path: Path) -> None:
    retention = LogRetention(age=None, bytes=2_000)
    with Collection.open(
        tmp_path / "c", sync=False, segment_bytes=500, retention=retention
    ) as writer:
        for n in range(100):
            writer.publish({"n": n, "text": "x" * 50})
        with Collection.open(tmp_path / "c", read_only=True) as reader:
            assert writer._publisher is not None
            writer._publisher._keep_up()
            report = reader.matcher.backtest("n >= 0", reader.log)
            assert report.events == len(writer.log)
