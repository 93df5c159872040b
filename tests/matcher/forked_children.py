"""Children forked while other threads match, add, merge and publish; run by `test_forks.py`.

Each child matches events one by one and many at once, changes a matcher in memory, and is refused
by one that is stored. A child that does not end in time is a failure: it hangs on a lock that a
thread of its parent held.

Usage: python forked_children.py FOLDER CHILDREN
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tamis
from tamis import StorageError

SECONDS = 60
"""How long a child may take. It takes much less than one, unless it hangs."""

EVENT = {"x": 1, "s": "abc", "y": [3, 4]}
EVENTS = [{"x": n % 5, "s": f"a{n}c"} for n in range(600)]
STABLE = [(f"stable {n}", f"x = {n % 4} AND s RLIKE '^a.*[a-f]$'") for n in range(60)]
EXPECTED = [id for id, text in STABLE if text.startswith("x = 1")]


def matches(found: list[Any]) -> list[Any]:
    return [id for id in found if str(id).startswith("stable")]


def start_load(memory: tamis.Matcher, stored: tamis.Matcher) -> threading.Event:
    """Start threads that use both matchers until the event is set."""
    stop = threading.Event()

    def repeat(action: Callable[[int], object]) -> None:
        number = 0
        while not stop.is_set():
            action(number)
            number += 1
            time.sleep(0.01)

    def add(matcher: tamis.Matcher) -> Callable[[int], object]:
        return lambda n: matcher.add(f"new {n % 300}", f"x = {n} AND s LIKE 'a%'", replace=True)

    actions: list[Callable[[int], object]] = [
        lambda n: memory.match({**EVENT, "s": f"abc{n}"}),
        lambda n: memory.match_many(EVENTS),
        add(memory),
        lambda n: memory.optimize() if n % 20 == 0 else None,
        lambda n: stored.match({**EVENT, "s": f"abc{n}"}),
        add(stored),
        lambda n: stored.publish({"x": n, "s": "abc"}),
    ]
    for action in actions:
        threading.Thread(target=repeat, args=(action,), daemon=True).start()
    return stop


def use(memory: tamis.Matcher, stored: tamis.Matcher, folder: Path) -> None:
    """What a child does."""
    for matcher in (memory, stored):
        assert matches(matcher.match(EVENT)) == EXPECTED
        assert len(matcher.match_many(EVENTS)) > 0
        assert len(matcher.top(EVENT, 3)) == 3
    memory.add("of the child", "x = 1")
    assert "of the child" in memory.match(EVENT)
    try:
        stored.add("of the child", "x = 1")
    except StorageError as error:
        assert "fork" in str(error)
    else:
        raise AssertionError("a child wrote to the directory of its parent")
    with tamis.open(folder, read_only=True) as reader:
        assert matches(reader.match(EVENT)) == EXPECTED


def run_child(memory: tamis.Matcher, stored: tamis.Matcher, folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            use(memory, stored, folder)
            code = 0
        except BaseException:
            faulthandler.dump_traceback()
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    return pid


def wait(pid: int) -> str | None:
    """What went wrong with a child, if anything."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return None if status == 0 else f"ended with status {status}"
        time.sleep(0.01)
    os.kill(pid, signal.SIGUSR1)  # prints where it hangs
    time.sleep(1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"


def main(folder: Path, children: int) -> int:
    faulthandler.register(signal.SIGUSR1)
    memory = tamis.Matcher()
    stored = tamis.open(folder, sync=False)
    for matcher in (memory, stored):
        matcher.add_many(STABLE)
    stop = start_load(memory, stored)
    failures: list[str] = []
    running: list[int] = []
    for _ in range(children):
        time.sleep(0.02)
        running.append(run_child(memory, stored, folder))
        if len(running) == 4:
            failures += filter(None, [wait(running.pop(0))])
    failures += filter(None, map(wait, running))
    stop.set()
    stored.close()
    sys.stdout.write(f"{children} children, {len(failures)} failed {failures}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
