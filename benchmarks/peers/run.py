"""Measures Tamis beside other engines on one workload: ``make peers``.

Each peer has a small driver, written here. Drivers in Java and Rust are built, and packages of
Python installed, by their ordinary tools, into a folder of the cache; a peer whose tools or
packages are missing is left out, and the page says so. A peer whose total of matches is wrong stops
the run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import monotonic, sleep
from typing import Any, NamedTuple

from benchmarks.peers.page import write_page
from benchmarks.peers.workload import generate, write

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tamis" / "peers"
PACKAGES = {
    "rule-engine": "rule-engine==5.1.0",
    "json-logic": "panzi-json-logic==1.0.1",
    "zen-engine": "zen-engine==2.1.3",
    "cel": "common-expression-language==0.10.0",
    "duckdb": "duckdb==2.0.0",
}
EVENTS = 5_000
RATES = {1: "0.0125 %", 4: "0.8 %"}
"""How many of 20 values a clause takes, and the share of rules that match: (n / 20) ** 3."""


ONE_BY_ONE = {"zen-engine", "cel", "rule-engine", "json-logic"}
MOST_ONE_BY_ONE = 1_000
"""Peers that evaluate each rule take time in proportion; more rules would show nothing new."""


class Missing(Exception):
    """A peer cannot be measured on this machine."""


class Run(NamedTuple):
    """What a driver reported, and the peak of its memory."""

    peer: str
    rules: int
    values: int
    build: float | None
    """Seconds of CPU; None if the time was not enough."""
    micros: float | None
    """Microseconds of CPU an event."""
    events: int
    memory: int
    """MiB at the peak, with the files that the driver has read."""


def call(*command: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{Path(command[0]).name} failed: {lines[-1][:200] if lines else ''}")


def need(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        raise Missing(f"{tool} is not installed")
    return found


def prepare_tamis(peer: str) -> list[str]:
    return [sys.executable, str(HERE / "drivers.py"), peer]


def prepare_python(peer: str) -> list[str]:
    python = CACHE / "python" / "bin" / "python"
    if not python.exists():
        call(sys.executable, "-m", "venv", CACHE / "python")
    call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGES[peer])
    return [str(python), str(HERE / "drivers.py"), peer]


def prepare_java(peer: str) -> list[str]:
    jars, classes = CACHE / "java", CACHE / "java-classes"
    java, javac = need("java"), need("javac")
    if not list(jars.glob(f"{peer}-*.jar")):
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"
        call(need("mvn"), "-q", "-B", f"-DoutputDirectory={jars}", goal, cwd=HERE / "java")
    call(javac, "-cp", f"{jars}/*", "-d", classes, HERE / "java/src/main/java/Driver.java")
    return [java, "-Xmx4g", "-cp", f"{jars}/*:{classes}", "Driver", peer]


def prepare_rust(peer: str) -> list[str]:
    del peer
    target, source = CACHE / "rust-target", CACHE / "rust"
    shutil.copytree(HERE / "rust", source, dirs_exist_ok=True)
    call(need("cargo"), "build", "-q", "--release", "--target-dir", target, cwd=source)
    return [str(target / "release" / "driver")]


PEERS: dict[str, Callable[[str], list[str]]] = {
    "tamis": prepare_tamis,
    "a-tree": prepare_rust,
    "event-ruler": prepare_java,
    "lucene-monitor": prepare_java,
    "duckdb": prepare_python,
    "zen-engine": prepare_python,
    "cel": prepare_python,
    "rule-engine": prepare_python,
    "json-logic": prepare_python,
}


def measure(
    peer: str, command: list[str], folder: Path, seconds: float, patience: float
) -> tuple[dict[str, Any] | None, int]:
    """What a driver printed, or None if it was not done in time; and MiB at its peak."""
    environment = {**os.environ, "TAMIS_KERNELS": "wait"}
    with TemporaryFile() as output:
        process = subprocess.Popen(
            [*command, str(folder), str(seconds)], stdout=output, stderr=output, env=environment
        )
        end = monotonic() + patience
        peak = 0
        while True:
            peak = max(peak, read_peak(process.pid))
            id, status, usage = os.wait4(process.pid, os.WNOHANG)
            if id:
                break
            if monotonic() > end:
                process.kill()
                process.wait()
                return None, 0
            sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        lines = output.read().decode().strip().splitlines()
    if process.returncode:
        raise SystemExit(f"{peer} failed: {lines[-1] if lines else process.returncode}")
    return json.loads(lines[-1]), peak or usage.ru_maxrss >> 20


def read_peak(process: int) -> int:
    """MiB at the peak of a process so far; 0 if the system does not tell.

    On Linux, `wait4` would give the peak of this process, where that is higher.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    _, found, rest = status.partition("VmHWM:")
    return int(rest.split()[0]) >> 10 if found else 0


def compare(sizes: list[int], seconds: float, patience: float, peers: list[str]) -> None:
    missing: dict[str, str] = {}
    commands: dict[str, list[str]] = {}
    for peer in peers:
        try:
            commands[peer] = PEERS[peer](peer)
        except Missing as error:
            missing[peer] = str(error)
            print(f"{peer}: {error}", file=sys.stderr)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine,
        "seconds": seconds,
        "patience": patience,
        "missing": missing,
    }
    runs: list[Run] = []
    for size, values in product(sizes, RATES):
        workload = generate(size, EVENTS, values)
        totals = workload.totals()
        with TemporaryDirectory() as folder:
            write(workload, Path(folder))
            for peer, command in commands.items():
                if peer in ONE_BY_ONE and size > MOST_ONE_BY_ONE:
                    continue
                run = _run(peer, command, Path(folder), seconds, patience, totals)
                runs.append(run._replace(rules=size, values=values))
                print(*runs[-1], sep="\t", flush=True)
    # At the end: a run that is interrupted leaves the last page as it is.
    write_page({**about, "runs": [run._asdict() for run in runs]})


def _run(
    peer: str, command: list[str], folder: Path, seconds: float, patience: float, totals: list[int]
) -> Run:
    found, memory = measure(peer, command, folder, seconds, patience)
    if found is None:
        return Run(peer, 0, 0, None, None, 0, 0)
    done = int(found["events"])
    if found["matches"] != totals[done]:
        raise SystemExit(
            f"{peer} finds {found['matches']:,} matches of {done:,} events; "
            f"{totals[done]:,} are right"
        )
    return Run(peer, 0, 0, found["build"], found["seconds"] / done * 1e6, done, memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--seconds", type=float, default=1.0, help="of CPU for matching")
    parser.add_argument(
        "--patience",
        type=float,
        help="seconds for a whole run; ten times --seconds, and 90, by default",
    )
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    # Java warms up as long as it is measured, and other work may run on the machine.
    patience = options.patience or 90 + 10 * options.seconds
    compare(options.rules, options.seconds, patience, options.peers)


if __name__ == "__main__":
    main()
