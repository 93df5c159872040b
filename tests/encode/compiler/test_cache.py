"""Compiled kernels on disk: when they are found again, and when they are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.encode.compiler import cache
from tamis.encode.compiler.stamp import stamp
from tests.interpreted import dispatchers

INNER = """
import numpy as np
from typing import NamedTuple
from tamis.encode.kernel import kernel

STEP = 2

class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray

@kernel
def inner(pair, place):
    "Twice an item."
    return pair.first[place] * STEP

@kernel
def unrelated(place):
    return place
"""

OUTER = """
from tamis.encode.kernel import kernel
from inner import inner

@kernel
def outer(pair, place):
    return inner(pair, place) + 1
"""

MAIN = """
import numpy as np
from numba.core import event
from inner import Pair
from outer import outer

pair = Pair(first=np.array([10]), second=np.array([20]))
with event.install_recorder("numba:compile") as compiled:
    answer = outer(pair, 0)
print(answer, sum(e.is_start for _, e in compiled.buffer))
"""


class Program:
    """A program of two files with kernels, which runs in a process of its own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.cache = cache
        folder.mkdir()
        for name, text in (("inner", INNER), ("outer", OUTER), ("main", MAIN)):
            (folder / f"{name}.py").write_text(text)

    def change(self, name: str, old: str, new: str) -> None:
        file = self.folder / f"{name}.py"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def start(self, **settings: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(self.folder), *filter(None, sys.path)])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"TAMIS_KERNEL_CACHE": str(self.cache), **settings}
        command = [sys.executable, "-P", str(self.folder / "main.py")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def run(self, **settings: str) -> tuple[int, int]:
        """The answer of the outer kernel, and how many kernels were compiled."""
        process = self.start(**settings)
        answer, compiled = process.communicate()[0].split()
        assert process.returncode == 0
        return int(answer), int(compiled)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the kernels of a program."""
    folder = tmp_path_factory.mktemp("compiled")
    assert Program(folder / "one", folder / "cache").run() == (21, 2)
    return folder / "cache"


@pytest.fixture
def program(compiled: Path, tmp_path: Path) -> Program:
    """A program whose kernels are compiled, with a cache of its own."""
    shutil.copytree(compiled, tmp_path / "cache")
    return Program(tmp_path / "one", tmp_path / "cache")


def test_a_copy_in_another_folder_shares_the_kernels(program: Program, tmp_path: Path) -> None:
    assert program.run() == (21, 0)
    assert Program(tmp_path / "two", program.cache).run() == (21, 0)


@pytest.mark.parametrize(
    ("name", "old", "new", "answer"),
    [
        ("inner", "STEP = 2", "STEP = 3", 31),
        ("inner", "] * STEP", "] + STEP", 13),
        ("inner", "    first: np.ndarray\n    second:", "    second: np.ndarray\n    first:", 21),
        ("outer", "+ 1", "+ 2", 22),
    ],
    ids=["constant", "inner kernel", "order of fields", "the kernel itself"],
)
def test_a_kernel_that_depends_on_a_change_is_compiled_again(
    program: Program, name: str, old: str, new: str, answer: int
) -> None:
    program.change(name, old, new)
    assert program.run() == (answer, 1 if name == "outer" else 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return place\n", "return place + 1\n"),
        ("STEP = 2\n", "# A comment.\n\nSTEP = 2\n"),
        ("Twice an item", "An item times two"),
    ],
    ids=["another kernel", "comment", "docstring"],
)
def test_other_changes_leave_a_kernel_compiled(program: Program, old: str, new: str) -> None:
    program.change("inner", old, new)
    assert program.run() == (21, 0)


def test_a_type_of_a_compiled_kernel_may_be_renamed(program: Program) -> None:
    for name in ("inner", "main"):
        program.change(name, "Pair", "Couple")
    assert program.run() == (21, 2)
    assert program.run() == (21, 0)


def test_a_damaged_file_is_compiled_again(program: Program) -> None:
    for number, file in enumerate(sorted(program.cache.rglob("*.kernel"))):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if number else content[:-1] + b"?")
    assert program.run() == (21, 2)
    assert program.run() == (21, 0)


def test_processes_that_compile_the_same_kernel_do_not_disturb_each_other(tmp_path: Path) -> None:
    program = Program(tmp_path / "one", tmp_path / "cache")
    started = [program.start() for _ in range(3)]
    assert [process.communicate()[0].split()[0] for process in started] == ["21"] * 3
    assert program.run() == (21, 0)
    # Nothing half written: only the file that processes lock.
    assert {file.name for file in program.cache.rglob(".*")} <= {".lock"}


def test_kernels_work_where_the_cache_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    program = Program(tmp_path / "one", tmp_path / "file" / "cache")
    # A temporary folder of its own: all processes of a user share the usual one.
    (tmp_path / "temporary").mkdir()
    assert program.run(TMPDIR=str(tmp_path / "temporary")) == (21, 2)


def test_kernels_that_were_not_used_for_long_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age in range(5):
        file = tmp_path / f"{age}.kernel"
        file.write_bytes(bytes(100))
        os.utime(file, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(cache, "_MOST_BYTES", 250)
    cache._sweep(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0.kernel", "1.kernel"]


def test_every_kernel_has_a_stamp() -> None:
    kernels = {id(dispatcher): dispatcher for _, _, dispatcher in dispatchers()}
    assert len({stamp(dispatcher) for dispatcher in kernels.values()}) > 100
