"""Compiled kernels of an engine are compiled again after a change in a file that they depend on.

Numba checks only the file of the kernel that is called. A kernel contains code of other files, so
it would miss a change there and read arrays whose meaning has changed. The other cases are in
test_cache.py, with kernels that compile in a moment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tamis

SCRIPT = """
import tamis
m = tamis.Matcher(engine="scan")
m.add_many([(n, f"a = {n % 7}") for n in range(100)])
print(len(m.match({"a": 3})))
from tamis.engines.scan import _scan
print(sum(_scan.stats.cache_hits.values()))
"""


def test_a_change_in_another_file_is_noticed(tmp_path: Path) -> None:
    source = copy_package(tmp_path)
    assert run(source, tmp_path) == ("14", "0")
    assert run(source, tmp_path) == ("14", "1")

    output = source / "tamis" / "engines" / "kernels" / "output.py"
    code = output.read_text()
    changed = code.replace("if mask[rule] and", "if rule < 50 and mask[rule] and")
    assert changed != code, "the kernel has no place to limit it to rules below 50"
    output.write_text(changed)
    assert run(source, tmp_path) == ("7", "0")


def copy_package(folder: Path) -> Path:
    """Copy the package without compiled kernels; returns the folder to import it from."""
    source = folder / "src"
    without = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(Path(tamis.__file__).parent, source / "tamis", ignore=without)
    return source


def run(source: Path, folder: Path) -> tuple[str, str]:
    """How many rules match, and how often the compiled kernel was loaded from disk."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={
            **os.environ,
            "PYTHONPATH": str(source),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TAMIS_KERNEL_CACHE": str(folder / "kernels"),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    matches, hits = done.stdout.split()
    return matches, hits
