"""An exception at any line of a write loses nothing that was acknowledged, before or after it."""

from __future__ import annotations

import gc
import linecache
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tamis
from tamis import Matcher
from tamis.joins import ages, document_store, ordered_index, prefilter, selected_documents
from tamis.matcher.storage import atomic, directory, document_file, log, store
from tamis.matcher.write import writer
from tests.matcher.matchers import copy_as_killed

WRITE_PATH = frozenset(
    str(module.__file__) for module in (atomic, directory, document_file, log, store, writer)
)


class Interruption(BaseException):
    """What a signal handler raises."""


class Interrupter:
    """Raises at a given line of the write path, counted from the first that runs."""

    def __init__(self, line: int, files: frozenset[str]) -> None:
        self.lines_left = line
        self._files = files
        self.has_raised = False
        self._entered: set[tuple[FrameType, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line" and not self.has_raised and not self._leaves_with(frame):
            self.lines_left -= 1
            if self.lines_left == 0:
                self.has_raised = True
                raise Interruption(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self

    def _leaves_with(self, frame: FrameType) -> bool:
        """Whether a `with` statement is at its end, where the interpreter runs no signal handler.

        A trace function is called there nevertheless, and an exception would skip the exit.
        """
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if not line.lstrip().startswith("with "):
            return False
        place = (frame, frame.f_lineno)
        is_second = place in self._entered
        self._entered.symmetric_difference_update({place})
        return is_second


@contextmanager
def interrupted_at(line: int, files: frozenset[str] = WRITE_PATH) -> Iterator[Interrupter]:
    interrupter = Interrupter(line, files)
    before = sys.gettrace()
    # Otherwise a matcher of an earlier round might be finalized here, which is no line of a write.
    gc.disable()
    sys.settrace(interrupter)
    try:
        with suppress(Interruption):
            yield interrupter
    finally:
        sys.settrace(before)
        gc.enable()


def checkpoint(matcher: Matcher) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_CHECKPOINT_BYTES", log.EMPTY_LENGTH)
        while matcher._writer.compact(quiet=False):
            pass


def skip_bad(matcher: Matcher) -> None:
    bad = matcher.add_many([("r0", "x = 1"), ("s", "x ="), ("t", "x = 2")], on_error="skip").bad
    assert [rule.id for rule in bad] == ["s", "r0"]


RULE_WRITES: dict[str, Callable[[Matcher], object]] = {
    "add": lambda m: m.add("new", "x = 1"),
    "replace": lambda m: m.add("r0", "x = 3", replace=True),
    "remove": lambda m: m.remove("r1"),
    "add_many": lambda m: m.add_many([(f"m{n}", "x = 1") for n in range(20)]),
    "skip": skip_bad,
    "replace_all": lambda m: m.replace_all([("only", "x = 1")]),
    "checkpoint": checkpoint,
    "close": lambda m: m.close(),
}


def abandon(matcher: Matcher) -> None:
    """Close a matcher without a checkpoint."""
    assert matcher._store is not None
    matcher._writer._worker.stop()
    matcher._store.close(None)


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process leaves what the operating system has; the disk only takes time here."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def read_rules(matcher: Matcher) -> dict[Any, str]:
    return {id: matcher.rule(id).text for id in matcher}


@pytest.fixture(scope="module")
def stored_rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "index"
    with tamis.open(folder, engine="scan") as matcher:
        matcher.add_many([(f"r{n}", f"x = {n}") for n in range(3)])
    return folder


@pytest.mark.parametrize("kind", RULE_WRITES)
def test_rules_after_an_exception_at_any_line(
    stored_rules: Path, tmp_path: Path, kind: str
) -> None:
    write = RULE_WRITES[kind]
    shutil.copytree(stored_rules, tmp_path / "expected")
    with tamis.open(tmp_path / "expected") as matcher:
        matcher.add("kept", "x = 0")
        before = read_rules(matcher)
        write(matcher)
        after = read_rules(matcher)
    line = 0
    while True:
        line += 1
        folder, killed = tmp_path / f"index{line}", tmp_path / "killed"
        shutil.copytree(stored_rules, folder)
        matcher = tamis.open(folder)
        matcher.add("kept", "x = 0")
        with interrupted_at(line) as interrupter:
            write(matcher)
        now = read_rules(matcher)
        assert now in (before, after), line
        if kind != "close":
            matcher.add("later", "x = 5")
            now["later"] = "x = 5"
            assert read_rules(matcher) == now, line
            copy_as_killed(matcher, folder, killed)
            with tamis.open(killed, verify=True) as opened:
                assert read_rules(opened) == now, line
            shutil.rmtree(killed)
        else:
            matcher.close()
            with tamis.open(folder, verify=True) as opened:
                assert read_rules(opened) == now, line
        abandon(matcher)
        shutil.rmtree(folder)
        if not interrupter.has_raised:
            break
    assert line > 10


def publish_many(matcher: Matcher) -> None:
    for x in range(6):
        matcher.documents.add({"x": x, "text": "y" * 100}, id=f"d{x % 4}")


DOCUMENT_WRITES: dict[str, Callable[[Matcher], object]] = {
    "add": lambda m: m.documents.add({"x": 1}, id="first"),
    "remove": lambda m: m.documents.remove("first"),
    "clear": lambda m: m.documents.clear(),
    "many": publish_many,
}


def read_all_documents(matcher: Matcher) -> dict[Any, Any]:
    return {id: dict(matcher.documents[id]) for id in matcher.documents}


@pytest.mark.parametrize("kind", DOCUMENT_WRITES)
def test_documents_after_an_exception_at_any_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(document_file, "_REWRITE_BYTES", 300)
    write = DOCUMENT_WRITES[kind]
    line = 0
    while True:
        line += 1
        folder, killed = tmp_path / f"index{line}", tmp_path / "killed"
        matcher = tamis.open(folder, documents=tamis.Retention(count=3))
        matcher.documents.add({"x": 0}, id="first")
        with interrupted_at(line) as interrupter:
            write(matcher)
        matcher.documents.add({"x": 7}, id="later")
        with suppress(tamis.UnknownDocumentError):
            matcher.documents.remove("first")
        copy_as_killed(matcher, folder, killed)
        with tamis.open(killed) as opened:
            stored = read_all_documents(opened)
            assert stored["later"] == {"x": 7}, line
            assert "first" not in stored, line
        shutil.rmtree(killed)
        abandon(matcher)
        shutil.rmtree(folder)
        if not interrupter.has_raised:
            break
    assert line > 5


IN_MEMORY = frozenset(
    str(module.__file__)
    for module in (ages, document_store, ordered_index, prefilter, selected_documents)
)
JOINS = {
    "same": "EXISTS (SELECT 1 FROM seen d WHERE d.x = x)",
    "small": "EXISTS (SELECT 1 FROM seen d WHERE d.kind = 'a' AND d.x < x)",
    "constant": "EXISTS (SELECT 1 FROM seen d WHERE d.x > 5)",
}


def observe(matcher: Matcher) -> tuple[Any, ...]:
    """The documents, and what rules find in them."""
    found = [matcher.match({"x": x, "kind": "a"}) for x in range(9)]
    return read_all_documents(matcher), found, len(matcher.documents)


@pytest.mark.parametrize("kind", DOCUMENT_WRITES)
@pytest.mark.parametrize(
    "retention",
    [tamis.Retention(count=3), tamis.Retention(age=1e9), tamis.Retention(age=3, by="x")],
    ids=["count", "age", "by"],
)
def test_documents_in_memory_after_an_exception_at_any_line(
    kind: str, retention: tamis.Retention
) -> None:
    """A change has its whole effect or none, in all indexes, and later ones have theirs."""

    def fill() -> Matcher:
        matcher = Matcher("scan", documents=retention)
        matcher.add_many(JOINS.items())
        for x in (1, 8):
            matcher.documents.add({"x": x, "kind": "a"}, id="first" if x == 8 else None)
        observe(matcher)  # builds the indexes
        return matcher

    write = DOCUMENT_WRITES[kind]
    line = 0
    while True:
        line += 1
        matcher = fill()
        with interrupted_at(line, IN_MEMORY) as interrupter:
            write(matcher)
        documents, *_ = found = observe(matcher)
        fresh = Matcher("scan", documents=retention)
        fresh.add_many(JOINS.items())
        for id, document in documents.items():
            fresh.documents.add(document, id=id if isinstance(id, str) else f"number {id}")
        assert found[1:] == observe(fresh)[1:], line
        matcher.documents.add({"x": 7, "kind": "a"}, id="later")
        matcher.documents.remove("later")
        if not interrupter.has_raised:
            break
    assert line > 5


def test_a_clock_has_gone_back_also_after_an_exception_at_any_line(tmp_path: Path) -> None:
    now = [0.0]
    retention = tamis.Retention(age=60, clock=lambda: now[0])
    line = 0
    while True:
        line += 1
        now[0] = 1e10
        folder = tmp_path / str(line)
        with tamis.open(folder, documents=retention) as matcher:
            for x in (1, 2):
                matcher.documents.add({"x": x})
            now[0] = 1_000.0
            with interrupted_at(line, IN_MEMORY) as interrupter:
                matcher.documents.expire()
            assert matcher.documents.expire() == 0
            now[0] = 1_060.0
            assert (matcher.documents.expire(), list(matcher.documents)) == (0, [0, 1])
        now[0] = 1_061.0
        with tamis.open(folder, documents=retention) as matcher:
            assert len(matcher.documents) == 0
        if not interrupter.has_raised:
            break
    assert line > 5


def test_writes_of_other_threads_outlive_an_interrupted_one(tmp_path: Path) -> None:
    """A thread that commits for others and is interrupted leaves their writes to them."""
    with tamis.open(tmp_path / "index", engine="scan") as matcher:
        queue = matcher._writer._queue
        matcher.add("r", "x = 1")
        other = writer._Request(lambda state: writer._remove(state, ["r"]))
        queue.append(other)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(matcher._store, "append", _interrupt)
            with pytest.raises(Interruption):
                matcher.add("s", "x = 1")
        assert other.is_waiting
        assert list(matcher) == ["r"]
        matcher.add("t", "x = 1")
        assert other.result() == 1
        assert list(matcher) == ["t"]
        assert not queue


def _interrupt(*_: Any) -> None:
    raise Interruption
