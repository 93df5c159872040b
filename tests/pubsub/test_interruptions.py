"""An exception at every line of a change of subscriptions: all of it happened, or nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tamis.pubsub import Collection
from tamis.pubsub.subscriptions import journal
from tamis.pubsub.subscriptions.journal import read_known

FILES = ("pubsub/subscriptions/subscriptions.py", "subscriptions/journal.py", "storage/log.py")


class Interruption(BaseException):
    """What a signal handler might raise."""


def interrupt(call: Callable[[], Any], line: int) -> bool:
    """Call a function, and raise at a line of it, from 0; returns whether it came so far."""
    left = line

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(FILES):
            return trace if kind == "call" else None
        if kind == "line":
            left -= 1
            if left == -1:
                sys.settrace(None)
                raise Interruption
        return trace

    sys.settrace(trace)
    try:
        call()
    except Interruption:
        return True
    finally:
        sys.settrace(None)
    return False


CHANGES: dict[str, Callable[[Collection], Any]] = {
    "put": lambda c: c.subscriptions.put("new", rules=["all"], priority=3),
    "replace": lambda c: c.subscriptions.put("s", rules=["all"], priority=3),
    "delete": lambda c: c.subscriptions.delete("s"),
    "acknowledge": lambda c: c.acknowledge("s", 3),
}


@pytest.mark.parametrize("size", [1 << 20, 150], ids=["append", "rewrite"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_memory_and_disk_agree_after_an_exception_at_any_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, size: int
) -> None:
    start = tmp_path / "start"
    with Collection.open(start, sync=False, engine="scan") as c:
        c.matcher.add("all", "TRUE")
        c.subscriptions.put("s", rules=["all"])
        c.subscriptions.put("t", rules=["all"])
        c.publish_many([{"n": n} for n in range(5)])
        c.acknowledge("s", 1)
        c.acknowledge("t", 2)
    monkeypatch.setattr(journal, "_REWRITE_BYTES", size)
    line = 0
    while True:
        path = tmp_path / f"{line}"
        shutil.copytree(start, path)
        with Collection.open(path, sync=False, engine="scan", webhooks=False) as c:
            was_interrupted = interrupt(lambda: CHANGES[change](c), line)
            assert c.subscriptions.known == read_known(path / "published")
            # What comes later is safe, too.
            c.acknowledge("t", 4)
            c.subscriptions.put("u")
            known = c.subscriptions.known
            assert known == read_known(path / "published")
            assert known["t"][1].acknowledged == 4
        shutil.rmtree(path)
        if not was_interrupted:
            break
        line += 1
    assert line > 15
