"""Kill a streaming job again and again, and let the last one finish."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

KILLS = int(os.environ.get("TAMIS_KILLS", "2"))
"""How often to kill a job; ``make crash`` kills it 20 times."""


def kill_jobs(
    command: list[str],
    log: Path,
    *,
    before: Callable[[int], object],
    count_done: Callable[[], int],
) -> None:
    """Start a job `KILLS` times and kill it, then let it finish.

    Parameters
    ----------
    command
        The job. It prints ``ready``, waits for a line, does its work, and prints ``done``.
    log
        The file for what jobs write to standard error.
    before
        What to do before a job begins its work, given its number.
    count_done
        Counts the batches that are complete.
    """
    random, killed = Random(8), 0
    # The next job starts its JVM while the previous one runs.
    waiting = _start(command, log)
    for number in range(KILLS):
        job, waiting = waiting, _start(command, log)
        _wait_for(job, b"ready")
        before(number)
        _begin(job)
        done_before = count_done()
        # The kill may hit any moment of the next three batches, which are short.
        target = done_before + random.choice([0, 1, 1, 2])
        while count_done() < target and job.poll() is None:
            time.sleep(0.01)
        # A fast job would be done within that time, and could not be killed.
        end = time.monotonic() + random.uniform(0, 1.5 if target > done_before else 6)
        while time.monotonic() < end and count_done() <= max(target, done_before + 1):
            time.sleep(random.uniform(0, 0.05))
        killed += job.poll() is None
        _kill(job)
    _wait_for(waiting, b"ready")
    _begin(waiting)
    output, _ = waiting.communicate()
    assert waiting.returncode == 0, log.read_text()
    assert b"done" in output
    assert killed >= KILLS // 2, "most jobs ended before they were killed"


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start the job and its JVM in a new process group."""
    pipe = subprocess.PIPE
    with log.open("ab") as errors:
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True
        )


def _wait_for(job: subprocess.Popen[bytes], word: bytes) -> None:
    assert job.stdout is not None
    assert job.stdout.readline().strip() == word


def _begin(job: subprocess.Popen[bytes]) -> None:
    assert job.stdin is not None
    job.stdin.write(b"go\n")
    job.stdin.flush()


def _kill(job: subprocess.Popen[bytes]) -> None:
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
