"""Compiling kernels ahead of time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.build_wheel import ROOT, compile_kernels
from tamis.encode.compiler.cache import write_folder
from tamis.warmup import WarmupProgress, warmup
from tests.cli.command import run, run_failing


def test_warmup_names_the_engines_that_it_compiled() -> None:
    for options, engines in (
        ([], ["tiles"]),
        (["--engine", "sift", "--engine", "scan"], ["sift", "scan"]),
    ):
        *lines, last = run("warmup", *options).splitlines()
        steps = [line for line in lines if " of " in line]
        assert f"{len(steps)} of {len(steps)}" in steps[-1]
        assert [line.split()[0] for line in lines[len(steps) :]] == engines
        assert last.endswith(f"compiled, the others were on disk, in {write_folder()}")
    assert "unknown engine 'steam'" in run_failing("warmup", "--engine", "steam")


def test_warmup_says_how_far_it_is() -> None:
    said: list[WarmupProgress] = []
    assert list(warmup(["scan", "sift"], said.append)) == ["scan", "sift"]
    begun = [now for now in said if now.kernel is None]
    assert [now.number for now in begun] == list(range(1, begun[0].steps + 1))
    assert begun[0].step == "finding new rules"
    assert begun[-1].step == "sift: counting"
    assert said[-1].compiled == len(said) - len(begun)


USES = """
import pyarrow as pa
import tamis
from numba.core import event

rules = [(n, f"a = {n} AND b <> 'x' AND c > {n}") for n in range(100)]
nested = " AND ".join(f"(a = {i} OR b LIKE '{i}%' OR c < {i})" for i in range(12))
with event.install_recorder("numba:compile") as compiled:
    for engine in tamis.engines():
        m = tamis.Matcher(engine)
        m.add_many([*rules, ("nested", nested)])
        one = {"a": [1, 2], "b": "y", "c": 1.5}
        flat = {"a": 1, "b": "y", "c": 2}
        m.match(one), m.match(one, only=[1, "nested"]), m.top(one)
        for many in ([one, {}], pa.Table.from_pylist([one, {}]), pa.Table.from_pylist([flat])):
            m.match_many(many), m.count_many(many), m.top_many(many)
        m.add_many([(f"new {n}", f"a = {n} OR b LIKE '%{n}'") for n in range(50)])
        m.remove(5)
        m.optimize()
        m.match(one), m.match_many([one])
        m.save(f"index-{engine}")
        with tamis.open(f"index-{engine}") as m:
            m.match(one), m.match_many([one]), m.top(one)
print(len(compiled.buffer))
"""


@pytest.mark.slow
def test_warmup_leaves_nothing_to_compile(tmp_path: Path) -> None:
    """Only the kernels that a warmup calls are there, so that those of other tests do not help.

    `tests/repo/test_wheel.py` tries those of the default engine.
    """
    kernels, engines = tmp_path / "kernels", ["scan"]
    compile_kernels(ROOT, kernels, {}, engines)
    names = [file.name for file in kernels.glob("*.kernel")]
    assert any(name.startswith("tamis.engines.scan") for name in names)
    assert not any(name.startswith("tamis.engines.tiles.match") for name in names)
    done = subprocess.run(
        [sys.executable, "-c", USES.replace("tamis.engines()", str(engines))],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TAMIS_KERNEL_CACHE": str(kernels)},
        cwd=tmp_path,
    )
    assert done.stdout == "0\n"
