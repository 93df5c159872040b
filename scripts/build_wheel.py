"""Builds a wheel for this platform, with the kernels of the default engine compiled.

The kernels are compiled for a CPU that is common (x86-64-v3: since 2013) and not for the one at
hand. A machine that has another CPU, Python or Numba compiles its own.

Usage: python scripts/build_wheel.py [FOLDER], which is dist by default
       python scripts/build_wheel.py --cpu, which prints how Numba names that CPU, if it fits
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from llvmlite import binding

ROOT = Path(__file__).resolve().parent.parent

PORTABLE = {
    "x86_64": {
        "NUMBA_CPU_NAME": "x86-64-v3",
        "NUMBA_CPU_FEATURES": ",".join(
            f"+{name}"
            for name in (
                "avx avx2 bmi bmi2 cx16 f16c fma fxsr lzcnt movbe popcnt sahf "
                "sse sse2 sse3 sse4.1 sse4.2 ssse3 xsave"
            ).split()
        ),
    }
}
"""How Numba names the portable CPU of each kind of machine."""

COMPILE = """
import sys
from tamis.warmup import warmup
warmup(sys.argv[2:])
"""

COPY = """
import shutil, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from tamis.encode.compiler.cache import write_folder
from tamis.encode.compiler.shipped import write_target
from tamis.warmup import warmup

warmup(sys.argv[2:])
folder, written = Path(sys.argv[1]), write_folder()
if written is None:
    raise SystemExit("no folder for compiled kernels can be written to")
target = cpu_target.target_context.codegen().magic_tuple()
modules = [module for name, module in sys.modules.items() if name.startswith("tamis.")]
kernels = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, Dispatcher)}
for kernel in kernels.values():
    for types in kernel.stats.cache_hits:
        name = kernel._cache.file_name(types, target)
        shutil.copyfile(written / name, folder / name)
write_target(folder, target)
"""
"""Copies the kernels that are loaded from disk, which are those that Python calls: their machine
code includes that of the kernels that they call."""


def main() -> None:
    machine = sysconfig.get_platform().rpartition("-")[2]
    if sys.argv[1:] == ["--cpu"]:
        print(*(f"{name}={value}" for name, value in fitting_cpu(machine).items()))
        return
    if machine not in PORTABLE:
        raise SystemExit(f"no portable CPU is known for {machine}; known are {', '.join(PORTABLE)}")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    with tempfile.TemporaryDirectory() as scratch:
        tree = copy_tree(Path(scratch) / "tree")
        kernels = tree / "src" / "tamis" / "encode" / "compiler" / "shipped"
        compile_kernels(tree, kernels, PORTABLE[machine])
        build(tree, folder)


def fitting_cpu(machine: str) -> dict[str, str]:
    """The portable CPU of a kind of machine; nothing if this one cannot run its kernels."""
    cpu = PORTABLE.get(machine, {})
    has = binding.get_host_cpu_features()
    needs = filter(None, cpu.get("NUMBA_CPU_FEATURES", "").split(","))
    return cpu if all(has.get(name.removeprefix("+")) for name in needs) else {}


def copy_tree(tree: Path) -> Path:
    """Copy what a wheel is built from, so that no kernels are left in the sources."""
    without = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=without)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    return tree


def compile_kernels(
    tree: Path, folder: Path, cpu: dict[str, str], engines: Sequence[str] = ("auto",)
) -> None:
    """Compile the kernels of engines for a CPU, and copy them to a folder.

    Those that are on disk are not compiled again.
    """
    folder.mkdir()
    environment = {
        **os.environ,
        **cpu,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for script in (COMPILE, COPY):
        command = [sys.executable, "-P", "-c", script, str(folder), *engines]
        subprocess.run(command, check=True, env=environment)
    files = list(folder.glob("*.kernel"))
    size = sum(file.stat().st_size for file in files)
    print(f"{len(files)} compiled kernels, {size / 1e6:.1f} MB")


def build(tree: Path, folder: Path) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", str(tree), "--quiet", "--no-deps"),
            *("--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(folder)),
            f"--config-settings=--build-option=--plat-name={platform}",
        ],
        check=True,
    )
    for wheel in folder.glob("tamis-*.whl"):
        bill = [sys.executable, str(ROOT / "scripts" / "bill_of_materials.py"), str(wheel)]
        subprocess.run(bill, check=True)


if __name__ == "__main__":
    main()
