"""Kernels that are not compiled yet: answers come at once and are right, and compiling follows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import types

from tamis.encode.compiler.background import _pack
from tamis.encode.compiler.plain import run_plainly
from tamis.encode.kernel import kernel, part
from tamis.engines.kernels.bits import count_bits, lowest_bit

KERNELS = """
import numpy as np
from tamis.encode.kernel import event_kernel, kernel

@kernel
def add_up(items):
    total = 0
    for item in items:
        total += item
    return total

@event_kernel
def first(items):
    return items[0]

@kernel
def impossible(items):
    return np.sort(items)  # allocates, so it cannot be compiled
"""


class Sandbox:
    """A folder with kernels and an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        (folder / "kernels.py").write_text(KERNELS)

    def environment(self, mode: str = "background") -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder), *filter(None, sys.path)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TAMIS_KERNELS": mode,
            "TAMIS_KERNEL_CACHE": str(self.cache),
        }

    def run(self, script: str, mode: str = "background") -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-c", f"import numpy as np\nfrom kernels import *\n{script}"],
            env=self.environment(mode),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def is_compiled(self) -> str:
        return self.run("print(add_up(np.arange(4)), len(add_up.overloads))", "plain")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path)
    yield sandbox
    # A process that still compiles stops when nobody can find its kernels.
    shutil.rmtree(sandbox.cache, ignore_errors=True)


UNTIL_COMPILED = """
import time
def wait_for(kernel, *arguments):
    deadline = time.monotonic() + 120
    while not kernel.overloads and time.monotonic() < deadline:
        kernel(*arguments)
        time.sleep(0.05)
"""


def test_a_process_uses_kernels_as_soon_as_they_are_compiled(sandbox: Sandbox) -> None:
    script = UNTIL_COMPILED + (
        "from numba.core import event\n"
        "with event.install_recorder('numba:compile') as compiled:\n"
        "    answers = [add_up(np.arange(4)), len(add_up.overloads)]\n"
        "    wait_for(add_up, np.arange(4))\n"
        "print(*answers, add_up(np.arange(4)), len(add_up.overloads), len(compiled.buffer))"
    )
    assert sandbox.run(script) == "6 0 6 1 0"


def test_what_a_short_process_requested_is_there_for_the_next_one(sandbox: Sandbox) -> None:
    assert sandbox.run("print(add_up(np.arange(4)))") == "6"
    lock = sandbox.cache / ".lock"
    script = f"""
import pathlib, time
deadline = time.monotonic() + 120
while not list(pathlib.Path({str(sandbox.cache)!r}).glob("[!.]*.kernel")):
    assert time.monotonic() < deadline
    time.sleep(0.05)
"""
    sandbox.run(script)
    assert lock.exists()
    assert sandbox.is_compiled() == "6 1"


@pytest.mark.parametrize("is_removed", [False, True])
def test_nothing_is_compiled_for_a_folder_that_is_gone(sandbox: Sandbox, is_removed: bool) -> None:
    if not is_removed:
        sandbox.cache.mkdir()
    add_up = SimpleNamespace(__module__="kernels", __qualname__="add_up")
    numbers = (types.int64, types.float64, types.int32)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tamis.encode.compiler.worker"],
        input=b"".join(_pack(add_up, (number[::1],)) for number in numbers),
        stdout=subprocess.PIPE,
        env=sandbox.environment(),
        check=True,
    )
    assert done.stdout == (b"000" if is_removed else b"111")
    assert sandbox.cache.exists() is not is_removed


def test_a_call_waits_where_compiling_is_faster_than_plain_python(sandbox: Sandbox) -> None:
    script = """
large = np.ones(3_000_000, np.int64)
print(first(large), len(first.overloads), add_up(large), len(add_up.overloads))
"""
    assert sandbox.run(script) == "1 0 3000000 1"


def test_a_kernel_that_cannot_be_compiled_says_so(sandbox: Sandbox) -> None:
    script = UNTIL_COMPILED + (
        "try:\n"
        "    wait_for(impossible, np.arange(4))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__)"
    )
    assert "Error" in sandbox.run(script)


def test_a_kernel_that_the_other_process_cannot_write(sandbox: Sandbox) -> None:
    """It compiles the kernel, and the disk is full; the call must not wait for ever."""
    script = """
from tamis.encode.compiler import background
background._send = lambda function, signature, request: request.finish(True)
large = np.ones(3_000_000, np.int64)
print(add_up(large), len(add_up.overloads), add_up(np.ones(4)), len(add_up.overloads))
"""
    assert sandbox.run(script) == "3000000 1 4.0 1"


def test_a_forked_process_has_requests_of_its_own(sandbox: Sandbox) -> None:
    script = UNTIL_COMPILED + (
        "import os\n"
        "first(np.arange(4))\n"
        "child = os.fork()\n"
        "wait_for(add_up, np.arange(4))\n"
        "wait_for(first, np.arange(4))\n"
        "if child == 0:\n"
        "    os._exit(0 if add_up.overloads and first.overloads else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(first.overloads))"
    )
    assert sandbox.run(script) == "0 1"


def test_nothing_is_compiled_or_started_in_plain_mode(sandbox: Sandbox) -> None:
    assert sandbox.is_compiled() == "6 0"
    assert not list(sandbox.cache.iterdir())


ANSWERS = """
from numba.core import event
import tamis

rules = [
    *((f"plain {n}", f"a = {n % 7} AND b > {n}") for n in range(40)),
    ("any of", "a IN (1, 2) OR b LIKE 'x%' OR NOT (c BETWEEN 3 AND 5)"),
    ("nested", " AND ".join(f"(a = {i} OR b > {i} OR c = {i})" for i in range(12))),
    tamis.Rule("weighted", "a = 1 OR c = 4", "weak", {("a", 1): 2.0, ("c", 4): 3.0}),
    tamis.Rule("weak", "NOT (missing = 1)", "weak"),
    tamis.Rule("strong", "NOT (missing = 1)", "strong"),
    ("late", "a = 1 AND c = 4"),
]
rules = [rule if isinstance(rule, tamis.Rule) else tamis.Rule(*rule) for rule in rules]
events = [{"a": [1, 3], "b": 7, "c": 4}, {"a": 2, "b": "xyz"}, {}, {"c": 9, "missing": 2}]
with event.install_recorder("numba:compile") as compiled:
    m = tamis.Matcher()
    m.add_many(rules[:-1])
    m.add(rules[-1].id, rules[-1].text)  # goes to the tail
    for _ in range(2):
        for e in events:
            expected = [r.id for r in rules if tamis.evaluate(r.text, e, r.logic)]
            assert m.match(e) == expected, (m.match(e), expected)
            scores = {r.id: tamis.score(r.text, e, r.logic, r.weights) for r in rules}
            assert dict(m.top(e, 100)) == {id: scores[id] for id in expected}
        counts = [len(m.match(e)) for e in events]
        assert m.count_many(events)["matches"].to_pylist() == counts
        assert m.match_many(events).num_rows == sum(counts)
        m.optimize()
print(len(compiled.buffer))
"""


@pytest.mark.parametrize("mode", ["plain", "background"])
def test_a_matcher_answers_without_kernels(sandbox: Sandbox, mode: str) -> None:
    assert sandbox.run(ANSWERS, mode) == "0"


@part
def _count_twice(word, count):
    return count + 2 * count_bits(word)


@kernel
def _describe(word, *counts):
    total = 0
    for count in counts:
        total = _count_twice(word, total + count)
    return lowest_bit(word), total, word * word


def test_plain_python_gives_what_machine_code_gives() -> None:
    word = np.uint64(1 << 63 | 1 << 3)
    assert _describe(word, 1, 2) == (3, 11, 64)
    assert run_plainly(_describe)(word, (1, 2)) == (3, 11, 64)
