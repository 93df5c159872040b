"""The clock of the machine jumps, and events keep times that can be, and their retention."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tamis.pubsub import Collection, LogRetention
from tamis.pubsub.log import clock

DAY = 86_400.0
START = datetime(2026, 11, 19, tzinfo=UTC).timestamp()
FUTURE = datetime(2099, 1, 1, tzinfo=UTC).timestamp()
PAST = 3_600.0  # in 1970
LAST_YEAR = START - 365 * DAY


class Machine:
    """A clock that may be wrong, and one that nobody sets."""

    def __init__(self) -> None:
        self.right = START
        self.wrong: float | None = None

    def wall(self) -> int:
        return int((self.right if self.wrong is None else self.wrong) * 1e6)

    def steady(self) -> float:
        return self.right

    def wait(self, seconds: float) -> None:
        self.right += seconds
        if self.wrong is not None:
            self.wrong += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine()
    monkeypatch.setattr(clock, "read_wall", made.wall)
    monkeypatch.setattr(clock, "read_steady", made.steady)
    return made  # type: ignore[return-value]


def open_collection(path: Path) -> Collection:
    return Collection.open(path, sync=False, retention=LogRetention(age=7 * DAY), segment_bytes=500)


def publish(c: Collection, count: int = 10) -> None:
    for _ in range(count):
        c.publish({"text": "x" * 50})


def keep_up(c: Collection) -> None:
    assert c._publisher is not None
    c._publisher._keep_up()


def years(c: Collection) -> list[int]:
    return [record.published.year for record in c.log.read(c.log.earliest - 1)]


@pytest.mark.parametrize("wrong", [FUTURE, PAST, LAST_YEAR])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("before", [0, 10])
def test_wrong_clock_of_a_while_spoils_neither_times_nor_retention(
    tmp_path: Path, machine: Machine, wrong: float, restarts: bool, before: int
) -> None:
    c = open_collection(tmp_path / "c")

    def restart() -> None:
        nonlocal c
        if restarts:
            c.close()
            c = open_collection(tmp_path / "c")

    publish(c, before)
    machine.wait(60)
    machine.wrong = wrong
    restart()
    publish(c, 10)
    keep_up(c)
    machine.wrong = None
    machine.wait(60)
    restart()
    publish(c, 10)
    assert years(c)[-10:] == [2026] * 10
    if wrong == PAST and before:
        assert set(years(c)) == {2026}
    # Nothing is removed before its time,
    for _ in range(6):
        machine.wait(DAY)
        restart()
        keep_up(c)
        machine.wait(DAY / 24)
        keep_up(c)
        publish(c, 1)
        if before or wrong == FUTURE:
            assert c.log.earliest == 1
    # and all of it after that.
    machine.wait(DAY)
    restart()
    keep_up(c)
    machine.wait(DAY / 24)
    keep_up(c)
    assert c.log.earliest > before + 20 - 10
    assert set(years(c)) == {2026}
    c.close()


def test_clock_that_jumps_far_ahead_removes_nothing(tmp_path: Path, machine: Machine) -> None:
    with open_collection(tmp_path / "c") as c:
        publish(c)
        machine.wait(DAY)
        machine.wrong = FUTURE
        keep_up(c)
        machine.wait(300)
        keep_up(c)
        machine.wrong = None
        keep_up(c)
        assert c.log.earliest == 1
    machine.wrong = FUTURE
    with open_collection(tmp_path / "c") as c:
        machine.wait(300)
        keep_up(c)
        assert c.log.earliest == 1
        # A machine that was off for months is right, and is believed after some minutes.
        machine.wait(301)
        keep_up(c)
        assert c.log.earliest == 11


def test_jump_is_noticed_and_told(
    tmp_path: Path, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    with open_collection(tmp_path / "c") as c, caplog.at_level(logging.WARNING, "tamis"):
        publish(c, 1)
        assert (c.stats()["clock_jumps"], c.stats()["clock_ahead"]) == (0, 0.0)
        machine.wrong = START + 2 * DAY
        publish(c, 1)
        machine.wrong = None
        assert c.stats()["clock_jumps"] == 1
        assert c.stats()["clock_ahead"] == 2 * DAY
        publish(c, 1)
        assert c.stats()["clock_ahead"] == 0.0
        assert c.stats()["clock_jumps"] == 3
    assert "the clock jumped: from 2026-11-19T00:00:00+00:00 to 2026-11-21" in caplog.text
    assert "published in the future" in caplog.text


def test_small_step_back_keeps_times_in_order(tmp_path: Path, machine: Machine) -> None:
    with open_collection(tmp_path / "c") as c:
        publish(c, 1)
        machine.wrong = START - 30
        publish(c, 3)
        times = [record.time for record in c.log.read()]
        assert times == [int(START * 1e6)] * 4
        assert c.stats()["clock_jumps"] == 0
