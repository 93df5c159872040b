"""Compiled kernels are cached on disk, and become stale together.

Numba checks only the file of the kernel that is called. A kernel contains code of other files, so
it would miss a change there and read arrays whose meaning has changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tamis
from tamis.encode.kernel import _STAMP
from tamis.engines.papers.sift import _sift

SCRIPT = """
import tamis
m = tamis.Matcher(engine="scan")
m.add_many([(n, f"a = {n % 7}") for n in range(100)])
print(len(m.match({"a": 3})))
from tamis.engines.scan import _scan
print(sum(_scan.stats.cache_hits.values()))
"""


def test_the_stamp_names_every_file_with_kernels() -> None:
    names = {name for name, _, _ in _STAMP}
    assert {"scan.py", "sift.py", "truth.py", "output.py", "scores.py", "columns.py"} <= names
    assert _STAMP in _sift._cache._cache_file._version


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


def test_a_type_of_a_compiled_kernel_may_be_renamed(tmp_path: Path) -> None:
    source = copy_package(tmp_path)
    assert run(source, tmp_path) == ("14", "0")
    scan = source / "tamis" / "engines" / "scan.py"
    scan.write_text(scan.read_text().replace("ScanArrays", "RenamedArrays"))
    assert run(source, tmp_path) == ("14", "0")
    assert run(source, tmp_path) == ("14", "1")


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
            "NUMBA_CACHE_DIR": str(folder / "kernels"),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    matches, hits = done.stdout.split()
    return matches, hits
