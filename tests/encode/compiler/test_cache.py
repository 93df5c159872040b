"""Compiled kernels on disk: when they are found again, and when they are not."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.encode.compiler import cache
from tamis.encode.compiler.stamp import stamp
from tamis.encode.compiler.trusted import open_folder
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
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def run(self, **settings: str) -> tuple[int, int]:
        """The answer of the outer kernel, and how many kernels were compiled."""
        process = self.start(**settings)
        output, self.errors = process.communicate()
        assert process.returncode == 0, self.errors
        answer, compiled = output.split()
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
    cache._sweep_once(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0.kernel", "1.kernel"]


class Intruder:
    """Leaves a file where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.trace,)


@pytest.fixture
def trace(program: Program, tmp_path: Path) -> Path:
    """A file that appears once the content of a kernel's file is looked at."""
    trace = tmp_path / "trace"
    for file in program.cache.rglob("[!.]*.kernel"):
        payload = pickle.dumps(Intruder(trace))
        file.write_bytes(hashlib.blake2b(payload, digest_size=16).digest() + payload)
    return trace


def test_the_trace_of_an_intruder_is_seen(program: Program, trace: Path) -> None:
    assert program.run() == (21, 2)
    assert trace.exists()


@pytest.mark.parametrize("place", ["cache", "."])
def test_nothing_is_loaded_from_a_folder_that_others_can_write_to(
    program: Program, trace: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "temporary").mkdir()
    writable = (tmp_path / place).resolve()
    writable.chmod(0o777)
    # A folder for temporary files that is not below the writable one.
    temporary = tmp_path / "temporary" if place == "cache" else tmp_path.parent
    assert program.run(TMPDIR=str(temporary)) == (21, 2)
    assert not trace.exists()
    assert program.errors.count(str(writable)) == 1
    assert f"{writable} can be written by everybody (chmod go-w" in program.errors


def test_nothing_is_loaded_from_a_file_that_others_can_write(program: Program, trace: Path) -> None:
    for file in program.cache.rglob("[!.]*.kernel"):
        file.chmod(0o666)
    assert program.run() == (21, 2)
    assert not trace.exists()
    # They are replaced by compiled ones.
    assert program.run() == (21, 0)


def test_the_link_of_another_user_is_not_followed(
    program: Program, trace: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a link to another user")
    (tmp_path / "temporary").mkdir()
    link = tmp_path / "temporary" / f"tamis-kernels-{os.geteuid()}"
    link.symlink_to(program.cache)
    os.chown(link, 12_345, 12_345, follow_symlinks=False)
    (tmp_path / "file").touch()
    program.cache = tmp_path / "file" / "cache"
    assert program.run(TMPDIR=str(tmp_path / "temporary")) == (21, 2)
    assert not trace.exists()
    assert f"{link} belongs to another user" in program.errors


@pytest.mark.parametrize("mode", ["background", "wait"])
def test_kernels_are_compiled_in_place_where_nothing_can_be_written(
    tmp_path: Path, mode: str
) -> None:
    program = Program(tmp_path / "one", tmp_path / "one" / "main.py" / "cache")
    program.change("main", "import numpy as np", NO_TEMPORARY_FILES + "import numpy as np")
    assert program.run(TAMIS_KERNELS=mode) == (21, 2)


NO_TEMPORARY_FILES = """
import tempfile
def gettempdir():
    raise FileNotFoundError("no usable temporary directory")
tempfile.gettempdir = gettempdir
"""


def test_another_user_may_use_the_kernels_of_an_image(tmp_path: Path) -> None:
    """As in a container: root compiles, and an unprivileged user without a home runs."""
    with open_folder(tmp_path / "kernels", create=True) as opened:
        cache._write("some.kernel", b"code", opened)
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "kernels" / "some.kernel").stat().st_mode & 0o777 == 0o644


def test_every_kernel_has_a_stamp() -> None:
    kernels = {id(dispatcher): dispatcher for _, _, dispatcher in dispatchers()}
    assert len({stamp(dispatcher) for dispatcher in kernels.values()}) > 100
