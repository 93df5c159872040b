"""What requests may take: memory in bounded pieces, threads by kind and key, and only while asked.

The counts are of rows, bytes and steps, never of seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

import tamis
from tamis.deadline import GivenUpError, Work, check_time, limit_time, working
from tamis.server import run
from tamis.server.bulk import BulkReader
from tamis.server.keys import KeyFile
from tamis.server.metrics import Metrics
from tamis.server.operation import Bulk
from tamis.server.problems import ProblemError
from tamis.server.settings import ServerLimits
from tamis.server.workers import Workers
from tamis.wire.media import ARROW
from tests.server.servers import ARROW_MEDIA, JSON_LINES, Served, serving
from tests.waiting import wait_until

LIMITS = ServerLimits(body=10_000, bulk_body=2_000_000, batch=100_000, answer=100_000)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("limited"), limits=LIMITS) as running:
        yield running


# --- Bulk bodies ---


def to_stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue()


def post(served: Served, path: str, body: bytes, **headers: str) -> httpx2.Response:
    return served.http.post(path, content=body, headers={**JSON_LINES, **headers})


def test_lines_are_objects_a_few_at_a_time() -> None:
    """As objects, these lines take 25 times the memory of their text, which is 30 MB."""
    file = BytesIO(b'{"a": [%s]}\n' % b",".join([b"0"] * 1_500) * 10_000)
    tracemalloc.start()
    try:
        reader = BulkReader(Bulk("application/jsonl", file), ServerLimits())
        count = sum(map(len, reader.objects()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 10_000
    assert peak < 25 << 20


def test_long_lines_are_refused(limited: Served, name: str) -> None:
    path = limited.make(name)
    long = b'{"x": "%s"}\n' % (b"a" * 11_000)
    for packed, headers in ((long, {}), (zlib.compress(long), {"content-encoding": "deflate"})):
        for target in ("match-many", "rules", "publish-many"):
            answer = post(
                limited, f"{path}/{target}", b"\n" + packed if not headers else packed, **headers
            )
            assert (answer.status_code, answer.json()["limit"]) == (413, 10_000)


def test_answers_of_many_pieces_are_those_of_one(tmp_path: Path) -> None:
    rules = {f"r{k}": f"x % 7 = {k}" for k in range(7)}
    with serving(tmp_path) as served:
        path = served.make("c", rules)
        matcher = served.server.catalog.find("c").matcher
        events = [{"x": x} for x in range(20_000)]
        expected = matcher.match_many(events)
        lines = b"".join(b'{"x": %d}\n' % x for x in range(20_000))
        asked = post(served, f"{path}/match-many", lines, accept=ARROW_MEDIA)
        assert pa.ipc.open_stream(asked.content).read_all().equals(expected)
        stream = to_stream(pa.Table.from_pylist(events), "zstd")
        again = post(served, f"{path}/match-many", stream, **{"content-type": ARROW_MEDIA})
        assert pa.ipc.open_stream(again.content).read_all().equals(expected)
        # Numbers go on from one piece to the next, in errors, too.
        bad = lines + b'{"x": "%s"}\n' % (b"\\ud800") + b"{}\n"
        refused = post(served, f"{path}/count-many", bad)
        assert (refused.status_code, "20001" in refused.json()["detail"]) == (400, True)
        strange = lines + b'{"x": {"y": [[[1]]]}}\n{"x": 1e999}\n'
        assert post(served, f"{path}/count-many", strange).status_code in (200, 400, 422)


def test_skipped_events_are_counted(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.http.put("/c", json={"schema": {"x": "integer"}}).status_code == 201
        served.server.catalog.find("c").matcher.add("r", "x = 1")
        lines = b'{"x": 1}\n' * 9_000 + b'{"x": "a"}\n' * 9_000
        answer = post(served, "/c/match-many?on_error=skip", lines)
        assert answer.headers["tamis-skipped"] == "9000"
        assert answer.headers["tamis-first-skipped"] == "9000"
        refused = post(served, "/c/match-many", lines)
        assert (refused.status_code, refused.json()["event"]) == (422, 9_000)


def test_answers_that_become_too_large_are_refused(limited: Served, name: str) -> None:
    path = limited.make(name, {f"rule-with-a-long-id-{n}": "x = 1" for n in range(100)})
    answer = post(limited, f"{path}/match-many", b'{"x": 1}\n' * 100)
    assert (answer.status_code, answer.json()["title"]) == (413, "Answer too large")
    assert post(limited, f"{path}/match-many", b'{"x": 1}\n' * 10).status_code == 200


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("shape", ["column", "dictionary"])
def test_arrow_streams_that_become_too_large_are_refused(
    compression: str, shape: str, limited: Served, name: str
) -> None:
    path = limited.make(name)
    zeros = pa.array(["0" * 5_000_000])
    stream = to_stream(
        pa.table({"x": zeros.dictionary_encode() if shape == "dictionary" else zeros}), compression
    )
    assert len(stream) < 50_000
    answer = post(limited, f"{path}/count-many", stream, **{"content-type": ARROW_MEDIA})
    assert (answer.status_code, answer.json()["limit"]) == (413, LIMITS.bulk_body)


def test_damaged_arrow_streams_are_refused() -> None:
    stream = to_stream(
        pa.table({"x": ["a", "b"], "y": pa.array(["c", "d"]).dictionary_encode()}), "zstd"
    )
    for place in range(0, len(stream), 3):
        for byte in (0x00, 0x7F, 0xFF):
            damaged = stream[:place] + bytes([byte]) + stream[place + 1 :]
            reader = BulkReader(Bulk(ARROW, BytesIO(damaged)), LIMITS)
            try:
                list(reader.chunks())
            except ProblemError as error:
                assert error.problem.status in (400, 413)


def test_events_are_published_in_pieces(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        path = served.make("c", {"r": "x = 1"})
        lines = b'{"event": {"x": 1}}\n' * 9_000
        log = served.server.catalog.find("c").pubsub.log
        for last in (b'{"event": 1}', b'{"event": {"x": ', b'{"event": {"x": "\\ud800"}}'):
            assert post(served, f"{path}/publish-many", lines + last).status_code in (400, 422)
            assert log.latest == 0
        answer = post(served, f"{path}/publish-many", lines).json()
        assert answer["sequences"] == list(range(1, 9_001))


# --- Threads ---


def make_workers(seconds: float = 20, most_of_key: int = 3) -> Workers:
    return Workers(2, 10, most_of_key, seconds, Metrics(lambda: iter(())))


class Held:
    """Work that goes on until it is given up."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> None:
        self.started.set()
        try:
            while True:
                check_time()
        finally:
            self.ended.set()


def test_work_ends_once_nobody_waits_for_it() -> None:
    async def ask(workers: Workers, held: Held) -> None:
        with pytest.raises(ProblemError) as refused:
            await workers.run("analysis", "key", held)
        assert refused.value.problem.status == 504
        assert await asyncio.to_thread(held.ended.wait, 20)
        # The thread is free again.
        assert await workers.run("analysis", "key", lambda: 1) == 1

    workers = make_workers(seconds=0.2)
    asyncio.run(ask(workers, Held()))
    workers.close()


def test_work_ends_when_its_request_is_cancelled() -> None:
    async def ask(workers: Workers, held: Held) -> None:
        task = asyncio.create_task(workers.run("question", None, held))
        assert await asyncio.to_thread(held.started.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(held.ended.wait, 20)

    workers = make_workers()
    asyncio.run(ask(workers, Held()))
    workers.close()


def test_work_ends_when_the_server_stops() -> None:
    async def ask(workers: Workers) -> None:
        helds = [Held() for _ in range(2)]
        tasks = [asyncio.create_task(workers.run("analysis", None, held)) for held in helds]
        for held in helds:
            assert await asyncio.to_thread(held.started.wait, 20)
        await asyncio.to_thread(workers.close)
        for task in tasks:
            with pytest.raises(ProblemError) as refused:
                await task
            assert refused.value.problem.status == 503

    asyncio.run(ask(make_workers()))


def test_analyses_keep_nobody_from_asking_and_writing() -> None:
    async def ask(workers: Workers) -> None:
        helds = [Held() for _ in range(8)]
        tasks = [asyncio.create_task(workers.run("analysis", None, held)) for held in helds]
        assert await asyncio.to_thread(helds[0].started.wait, 20)
        assert await workers.run("question", None, lambda: 1) == 1
        assert await workers.run("write", None, lambda: 2) == 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    workers = make_workers()
    asyncio.run(ask(workers))
    workers.close()


def test_a_key_leaves_threads_and_places_to_others() -> None:
    async def ask(workers: Workers) -> None:
        helds = [Held() for _ in range(3)]
        tasks = [asyncio.create_task(workers.run("analysis", "greedy", held)) for held in helds]
        assert await asyncio.to_thread(helds[0].started.wait, 20)
        with pytest.raises(ProblemError) as refused:
            await workers.run("question", "greedy", lambda: 1)
        assert refused.value.problem.status == 429
        assert await workers.run("analysis", "other", lambda: 1) == 1
        assert not any(held.started.is_set() for held in helds[1:])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await asyncio.to_thread(helds[0].ended.wait, 20)
        assert await workers.run("analysis", "greedy", lambda: 2) == 2

    workers = make_workers()
    asyncio.run(ask(workers))
    workers.close()


def test_an_error_of_the_time_of_work_is_not_the_limit_of_a_request() -> None:
    def fail() -> None:
        raise TimeoutError("of a file system")

    async def ask(workers: Workers) -> None:
        with pytest.raises(TimeoutError, match="of a file system"):
            await workers.run("question", None, fail)

    workers = make_workers()
    asyncio.run(ask(workers))
    workers.close()


def test_a_search_within_work_ends_with_it() -> None:
    work = Work()

    def search() -> None:
        with limit_time(1e9):
            check_time()
            work.give_up()
            check_time()

    with pytest.raises(GivenUpError), working(work):
        search()
    check_time()


def test_given_up_work_does_not_begin() -> None:
    work = Work()
    work.give_up()
    with pytest.raises(GivenUpError), working(work):
        raise AssertionError


# --- A key that may only read ---

_SERVER = """
import sys
from pathlib import Path
from tamis.server.app import Server
from tamis.server.run import run
from tamis.server.settings import ServerLimits, ServerSettings

start = Server.start

async def start_without_kernels(self):
    self.skips_warm_up = True
    await start(self)

Server.start = start_without_kernels
settings = ServerSettings(
    folder=Path(sys.argv[1]), port=0, keys=True, drain_seconds=0.2, sync=False,
    limits=ServerLimits(request=float(sys.argv[2])),
)
run(settings)
"""


@contextmanager
def running_process(folder: Path, seconds: float) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address."""
    command = [sys.executable, "-c", _SERVER, str(folder), str(seconds)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if '"serving"' in line:
                    break
            yield process, json.loads(line)["url"]
        finally:
            process.kill()


def make_folder(folder: Path) -> dict[str, str]:
    """A folder with a collection and a key that may read it; returns the header of the key."""
    with tamis.open(folder / "c") as matcher:
        matcher.add_many([(n, f"a{n} = {n} AND b{n} > {n}") for n in range(300)])
    _, token = KeyFile(folder).create("reader", ("read",))
    return {"authorization": f"Bearer {token}"}


def hard_rule() -> str:
    """A rule of nearly 64 KB with many ways to satisfy it."""
    return " AND ".join(f"(a{n} LIKE '%x{n}%' OR b{n} LIKE '%y{n}%')" for n in range(1_300))


def test_a_key_that_may_read_stops_nobody(tmp_path: Path) -> None:
    headers = make_folder(tmp_path)
    path = "/v1/collections/c"
    with (
        running_process(tmp_path, 2.0) as (_, url),
        httpx2.Client(base_url=url, headers=headers, timeout=60) as http,
    ):
        answers: list[int] = []

        def ask() -> None:
            answers.append(http.post(f"{path}/similar", json={"rule": hard_rule()}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        # Batches are answered meanwhile.
        wait_until(
            lambda: (
                http.post(f"{path}/count-many", content=b"{}\n", headers=JSON_LINES).status_code
                == 200
            )
        )
        for thread in threads:
            thread.join()
        assert set(answers) == {504}
        # The work that was given up has left its threads to others.
        wait_until(lambda: http.post(f"{path}/lint").status_code == 200)


def test_the_process_ends_with_work_in_progress(tmp_path: Path) -> None:
    headers = make_folder(tmp_path)
    with (
        running_process(tmp_path, 600) as (process, url),
        httpx2.Client(base_url=url, headers=headers, timeout=60) as http,
    ):

        def ask() -> None:
            with suppress(httpx2.HTTPError):
                http.post("/v1/collections/c/similar", json={"rule": hard_rule()})

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: "tamis_waiting_requests 2.0" in http.get("/metrics").text)
        process.send_signal(signal.SIGTERM)
        # The signal ends it, and not the wait for the work.
        assert process.wait(60) == -signal.SIGTERM
        asking.join()


def test_a_process_ends_although_a_thread_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def leave(code: int) -> None:
        assert code == 1
        ended.set()

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(run, "_CLOSING_SECONDS", 0.05)
    hold = threading.Event()
    with serving(tmp_path, drain_seconds=1) as served:
        served.server.owns_process = True
        path = served.make("c", {"r": "x = 1"})
        matcher = served.server.catalog.find("c").matcher
        started = threading.Event()

        def lint(**_: Any) -> list[Any]:
            started.set()
            hold.wait(60)
            return []

        monkeypatch.setattr(matcher, "lint", lint)

        def ask() -> None:
            with suppress(httpx2.HTTPError):
                served.http.post(f"{path}/lint")

        asking = threading.Thread(target=ask)
        asking.start()
        assert started.wait(20)
        served.runner.should_exit = True
        assert ended.wait(20)
        hold.set()
        asking.join()
