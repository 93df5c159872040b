"""Measures the server: single matches, batches and durable publishes over HTTP, under change.

The server runs on one core and the clients on another. The rules are BEGen's, of which an event
satisfies 0.01 %. While each part runs, another client adds 100 rules a second.

- *bare*: what the framework does without us, for the same load: an ASGI function that answers a
  constant, and a Starlette endpoint that decodes and encodes JSON;
- *match*: one event a request, 32 connections; the aim is 8,000 a second;
- *batch*: Arrow streams of 1,000 events, 4 connections; the aim is 60,000 events a second;
- *publish*: durable publishes by 32 publishers; the aim is 5,000 a second. *not synced* is the
  same without waiting for the disk, which shows the share of the disk.

Each part runs *at rest*, too: without rules being added. *CPU* is what the server would do in a
second in which its core runs nothing else: the answers by the processor time that the server used.
On a machine that others use, only this compares, and *share*, its part of the Starlette endpoint's.
Under change it has to be read with care: rules come at 100 a second of the clock, whatever share of
the core the server gets. So *full core* derives what remains for a server that has the core to
itself: the time for 100 additions is the difference of the two runs, the rest goes to requests.

Usage: python -m benchmarks.bench_server [--quick] [--rules N] [--seconds S] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from benchmarks.load import Measured, make_request, measure
from benchmarks.report import RESULTS, Row, save, show
from tamis.pubsub import Collection
from tamis.workloads.begen import Workload

COLLECTION = "begen"
ARROW = "application/vnd.apache.arrow.stream"
BATCH = 1_000
SUBSCRIPTIONS = 100

BARE = """
import sys, msgspec, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def answer(request):
    body = msgspec.json.decode(await request.body())
    return Response(msgspec.json.encode({"rules": list(body)}), media_type="application/json")

async def raw(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", b"12")]})
    await send({"type": "http.response.body", "body": b'{"rules":[]}'})

app = raw if sys.argv[2] == "raw" else Starlette(routes=[Route("/", answer, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False,
            log_level="error", lifespan="off")
"""


class Part(NamedTuple):
    """A part of the measurements."""

    measured: Measured
    per_cpu_second: float


class Running(NamedTuple):
    """A server that runs."""

    port: int
    pid: int

    def measure(self, load: Coroutine[Any, Any, Measured]) -> Part:
        """Run a load, and look at the processor time that the server takes for it."""
        before = self._cpu_seconds()
        measured = asyncio.run(load)
        return Part(measured, measured.answers / max(0.01, self._cpu_seconds() - before))

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=1_000_000, help="the number of rules")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each part runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    size, seconds = (2_000, 0.2) if args.quick else (args.rules, args.seconds)
    workload = Workload(size=size, match_probability=0.01 if args.quick else 0.0001, seed=1)
    use_core(1)
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as folder:
        build(Path(folder) / COLLECTION, workload)
        rows = measure_all(Path(folder), workload, seconds)
    show(f"{size:,} rules, 0.01 % match, 100 rules a second added", rows)
    save("bench_server", {"rules": size, "seconds": seconds, "parts": rows}, args.results)


def measure_all(folder: Path, workload: Workload, seconds: float) -> list[Row]:
    events = workload.events(1_000)
    match = [make_request("POST", path("match"), encode(event)) for event in events]
    bare = [make_request("POST", "/", encode(event)) for event in events]
    publish = [make_request("POST", path("publish"), encode(event)) for event in events]
    tries = [make_request("POST", path("try"), encode(event)) for event in events]
    tables = [workload.events_chunk(number, BATCH) for number in range(4)]
    accept = f"Accept: {ARROW}\r\n"
    batch = [make_request("POST", path("match-many"), to_stream(t), ARROW, accept) for t in tables]
    parts: dict[str, Part] = {}
    for kind in ("raw", "starlette"):
        with running([sys.executable, "-c", BARE, "{port}", kind]) as server:
            parts[f"bare {kind}"] = server.measure(measure(server.port, bare, 32, seconds))
    with running(serve(folder)) as server:
        for name, requests, connections in (
            ("match", match, 32),
            ("batch", batch, 4),
            ("publish", publish, 32),
            # What the page asks after each keystroke.
            ("try", tries, 1),
        ):
            asyncio.run(measure(server.port, requests, connections, min(1.0, seconds)))
            parts[f"{name}, at rest"] = server.measure(
                measure(server.port, requests, connections, seconds)
            )
            parts[name] = server.measure(
                measure_under_change(server.port, requests, connections, seconds)
            )
    with running([*serve(folder), "--no-sync"]) as server:
        asyncio.run(measure(server.port, publish, 32, min(1.0, seconds)))
        parts["publish, not synced"] = server.measure(
            measure_under_change(server.port, publish, 32, seconds)
        )
    most = parts["bare starlette"].per_cpu_second
    return [
        {
            "part": name,
            "events / s": found.per_second * (BATCH if name.startswith("batch") else 1),
            "events / s CPU": cpu * (BATCH if name.startswith("batch") else 1),
            "p50 ms": found.p50_ms,
            "p99 ms": found.p99_ms,
            "failures": found.failures,
            "share": cpu / most,
            "full core": estimate_full_core(name, parts)
            * (BATCH if name.startswith("batch") else 1),
        }
        for name, (found, cpu) in parts.items()
    ]


def estimate_full_core(name: str, parts: dict[str, Part]) -> float:
    """The answers in a second of a core that the server has to itself, with 100 rules added."""
    changed, rest = parts[name], parts.get(f"{name}, at rest")
    if rest is None:
        return changed.per_cpu_second
    answers = changed.measured.answers
    elapsed = answers / changed.measured.per_second
    extra = answers / changed.per_cpu_second - answers / rest.per_cpu_second
    for_rules = min(1.0, max(0.0, extra) / elapsed)
    return (1 - for_rules) * rest.per_cpu_second


async def measure_under_change(
    port: int, requests: list[bytes], connections: int, seconds: float
) -> Measured:
    """Measure while another client adds 100 rules a second."""
    adding = asyncio.create_task(add_rules(port))
    try:
        return await measure(port, requests, connections, seconds)
    finally:
        adding.cancel()
        with suppress(asyncio.CancelledError):
            await adding


async def add_rules(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    rules = Workload(size=10_000, match_probability=0.0001, seed=2).rules()
    start = time.monotonic()
    run = time.time_ns()
    try:
        for number, (_, text) in enumerate(rules):
            body = msgspec.json.encode({"rule": text})
            writer.write(make_request("PUT", path(f"rules/new-{run}-{number}"), body))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r")[0]))
            assert head.startswith(b"http/1.1 201"), head
            await asyncio.sleep(max(0.0, start + (number + 1) / 100 - time.monotonic()))
    finally:
        writer.close()


def build(folder: Path, workload: Workload) -> None:
    """Store the rules, and subscriptions to some of them."""
    with Collection.open(folder) as collection:
        collection.matcher.add_many(workload.rules_table())
        collection.matcher.optimize()
        ids = list(collection.matcher)[: SUBSCRIPTIONS * 100]
        for number in range(SUBSCRIPTIONS):
            collection.subscriptions.put(f"s{number}", rules=ids[number::SUBSCRIPTIONS])


def serve(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "tamis", "serve", str(folder), "--port", "{port}"]
    return [*command, "--no-access-log"]


@contextmanager
def running(command: list[str]) -> Iterator[Running]:
    """Run a server on a free port and on the first core; yields it once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    filled = [part.replace("{port}", str(port)) for part in command]
    process = subprocess.Popen(filled, preexec_fn=lambda: use_core(0))
    try:
        wait_until_ready(port, process)
        yield Running(port, process.pid)
    finally:
        process.terminate()
        process.wait(60)


def wait_until_ready(port: int, process: subprocess.Popen[Any]) -> None:
    import urllib.error
    import urllib.request

    for _ in range(1_200):
        assert process.poll() is None, "the server ended"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5)
        except urllib.error.HTTPError as error:
            if error.code != 503:  # The bare server has no such path.
                return
        except OSError:
            pass
        else:
            return
        time.sleep(0.1)
    raise TimeoutError("the server did not start")


def use_core(number: int) -> None:
    """Run on one core only, where the system allows it and there are several."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    every = list(range(os.cpu_count() or 1))
    if cores and len(every) > 1:
        with suppress(OSError):
            os.sched_setaffinity(0, {every[number % len(every)]})


def path(rest: str) -> str:
    return f"/v1/collections/{COLLECTION}/{rest}"


def encode(event: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"event": event})


def to_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


if __name__ == "__main__":
    main()
