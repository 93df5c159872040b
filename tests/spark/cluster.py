"""A cluster on one machine: an index in a bucket, four workers, and one of them dies in between.

``make cluster`` runs it with ten million rules; ``tests/spark/test_cluster.py`` with a few. A
master and workers of Spark run as processes, each worker with one core, a cache of its own and no
folder that it shares with others. Executors build the index into a bucket of moto's S3 server and
download its shards from there. While events are matched, one worker is killed, with its executor
and all that this has downloaded. The answer has to be complete: for every event, how many rules
match and the sum of their ids are known.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VALUES = 100_000
"""How many values the attribute a has at most; rule i asks for one of them."""

LEVELS = 50
"""How many values the attribute b is compared with."""

_SPARK = "org.apache.spark.deploy"
_PLACE = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


class Sizes(NamedTuple):
    """How large everything is."""

    rules: int
    events: int
    shards: int | None = None
    workers: int = 4
    memory: str = "2g"
    heap: str = "700m"
    """The heap of an executor; the rest of the memory is for Python."""

    @property
    def partitions(self) -> int:
        """How many tasks match, at least."""
        return 8 * self.workers

    @property
    def values(self) -> int:
        """How many values the attribute a has."""
        return min(VALUES, max(1, self.rules // 20))


class Worker(NamedTuple):
    """A worker of Spark, and where it keeps its shards."""

    process: subprocess.Popen[bytes]
    cache: Path


def describe_rules(spark: Any, sizes: Sizes) -> Any:
    """Rule i: ``a = i mod values AND b > (i div values) mod levels AND c <> 'none'``."""
    return spark.range(0, sizes.rules, 1, 4 * sizes.workers).selectExpr(
        "id",
        f"concat('a = ', id % {sizes.values}, ' AND b > ', (id div {sizes.values}) % {LEVELS}, "
        "' AND c <> ''none''') AS rule",
    )


def describe_events(spark: Any, sizes: Sizes) -> Any:
    """Event e: a and b by its number."""
    return spark.range(0, sizes.events, 1, 4 * sizes.workers).selectExpr(
        "id", f"(id * 7919) % {sizes.values} AS a", f"id % {LEVELS + 1} AS b", "'some' AS c"
    )


def expect(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """How many rules match each event, and the sums of their ids."""
    event = np.arange(sizes.events)
    a, b = (event * 7919) % sizes.values, event % (LEVELS + 1)
    counts, sums = np.zeros_like(event), np.zeros_like(event)
    for k in range(-(-sizes.rules // sizes.values)):
        id = a + sizes.values * k
        is_match = (b > k % LEVELS) & (id < sizes.rules)
        counts += is_match
        sums += np.where(is_match, id, 0)
    return counts, sums


def run_cluster(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Build, match, kill a worker meanwhile, and compare; returns what was measured."""
    measured: dict[str, Any] = {"rules": sizes.rules, "events": sizes.events}
    with ExitStack() as stack:
        port = stack.enter_context(_s3_server(folder))
        index = f"s3://rules/index?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        master, workers = _start_cluster(stack, sizes, folder)
        spark = _start_session(master, sizes, folder)
        stack.callback(spark.stop)
        from pyspark.sql import functions as F

        from tamis import spark as ts

        started = time.perf_counter()
        version = ts.build(describe_rules(spark, sizes), index, shards=sizes.shards)
        measured["build seconds"] = round(time.perf_counter() - started, 1)
        measured["shards"] = len(version.shards)
        measured["index bytes"] = sum(shard.bytes for shard in version.shards)
        started = time.perf_counter()
        events = describe_events(spark, sizes)
        matches = ts.match(events, index, keys="id", plan="sharded")
        measured["driver seconds"] = round(time.perf_counter() - started, 1)
        killer = _Killer(spark, workers[0], sizes.partitions)
        killer.start()
        found = matches.groupBy("id").agg(F.count("rule"), F.sum("rule")).collect()
        measured["match seconds"] = round(time.perf_counter() - started, 1)
        killer.join()
        measured["killed after tasks"] = killer.done
        measured["workers left"] = sum(worker.process.poll() is None for worker in workers)
        measured["cached bytes"] = [_measure(worker.cache) for worker in workers]
        counts, sums = np.zeros(sizes.events, np.int64), np.zeros(sizes.events, np.int64)
        for id, count, total in found:
            counts[id], sums[id] = count, total
        expected_counts, expected_sums = expect(sizes)
        measured["matches"] = int(counts.sum())
        measured["wrong events"] = int(
            ((counts != expected_counts) | (sums != expected_sums)).sum()
        )
    return measured


class _Killer(threading.Thread):
    """Kills a worker when a quarter of the matching is done."""

    def __init__(self, spark: Any, worker: Worker, tasks: int) -> None:
        super().__init__(daemon=True)
        self._tracker = spark.sparkContext.statusTracker()
        self._worker, self._tasks, self.done = worker, tasks, 0

    def run(self) -> None:
        while True:
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                # The events are dealt out first, in fewer tasks, and then matched.
                if info is None or info.numTasks < self._tasks:
                    continue
                if info.numCompletedTasks >= info.numTasks // 4:
                    self.done = info.numCompletedTasks
                    os.killpg(self._worker.process.pid, signal.SIGKILL)
                    _kill_executors(self._worker)
                    return
            time.sleep(0.02)


def _kill_executors(worker: Worker) -> None:
    """Kill the executors and Python processes of a worker, which are in groups of their own."""
    mark = f"TAMIS_CACHE={worker.cache}".encode()
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def _measure(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def _s3_server(folder: Path) -> Iterator[int]:
    """Run moto's server in a process of its own, with an empty bucket."""
    log = folder / "s3.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        port = int(wait_for_line(log, r"Running on http://127.0.0.1:(\d+)", process))
        from pyarrow.fs import S3FileSystem

        S3FileSystem(
            access_key="test", secret_key="test", endpoint_override=f"127.0.0.1:{port}",
            scheme="http", region="us-east-1", allow_bucket_creation=True,
        ).create_dir("rules")  # fmt: skip
        yield port
    finally:
        process.terminate()
        process.wait()


def _start_cluster(stack: ExitStack, sizes: Sizes, folder: Path) -> tuple[str, list[Worker]]:
    log = folder / "master.log"
    master = stack.enter_context(daemon(f"{_SPARK}.master.Master", *_PLACE, log=log))
    address = wait_for_line(log, r"Starting Spark master at (spark://\S+)", master)
    workers = []
    for number in range(sizes.workers):
        log, cache = folder / f"worker-{number}.log", folder / f"cache-{number}"
        cache.mkdir()
        limits = ["--cores", "1", "--memory", sizes.memory, "--work-dir", str(folder / "work")]
        arguments = [f"{_SPARK}.worker.Worker", *_PLACE, *limits, address]
        process = stack.enter_context(daemon(*arguments, log=log, TAMIS_CACHE=str(cache)))
        workers.append(Worker(process, cache))
    for number, worker in enumerate(workers):
        wait_for_line(folder / f"worker-{number}.log", "(Successfully registered)", worker.process)
    return address, workers


def _start_session(master: str, sizes: Sizes, folder: Path) -> Any:
    os.environ.update(environment(TAMIS_CACHE=str(folder / "cache-driver")))
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": sizes.heap,
        "spark.executor.extraJavaOptions": jvm_options(),
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": "tamis.spark.runtime.daemon",
        "spark.sql.shuffle.partitions": sizes.partitions,
        # Partitions of few rows stay as they are, so that there is a middle to die in.
        "spark.sql.adaptive.enabled": False,
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.network.timeout": "120s",
        "spark.executor.heartbeatInterval": "5s",
    }
    builder = SparkSession.builder.master(master).appName("tamis cluster")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def jvm_options() -> str:
    """What `tests/conftest.py` sets for short-lived JVMs; nothing outside of tests.

    Executors refuse settings of Spark among them.
    """
    options = os.environ.get("SPARK_SUBMIT_OPTS", "").split()
    return " ".join(option for option in options if not option.startswith("-Dspark."))


def environment(**others: str) -> dict[str, str]:
    """The environment of a new process, without this process's Spark settings."""
    import pyspark

    import tamis
    from tamis.spark.runtime.java import find_java

    source = str(Path(tamis.__file__).parent.parent)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    return {
        **kept,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SUBMIT_OPTS": jvm_options(),
        "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
        **others,
    }


@contextmanager
def daemon(*arguments: str, log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of Spark, and end it with all of its children."""
    import pyspark

    command = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [command, *arguments],
            env=environment(SPARK_DAEMON_MEMORY="256m", **variables),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for_line(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Wait until a log has `pattern`, and return its group."""
    for _ in range(1200):
        found = re.search(pattern, log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cluster and print what was measured; 1 if the answer is not complete."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make cluster")
    parser.add_argument("--rules", type=int, default=10_000_000)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--shards", type=int)
    parser.add_argument("--workers", type=int, default=Sizes._field_defaults["workers"])
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="tamis-cluster-"))
    sizes = Sizes(options.rules, options.events, options.shards, options.workers)
    try:
        measured = run_cluster(sizes, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, value in measured.items():
        sys.stdout.write(f"{name:<20} {json.dumps(value)}\n")
    return int(bool(measured["wrong events"]) or measured["workers left"] == sizes.workers)


if __name__ == "__main__":
    sys.exit(main())
