"""The compiled kernels that come with a wheel, for a portable CPU; see scripts/build_wheel.py."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from llvmlite import binding

__all__ = ["SHIPPED", "shipped_target", "write_target"]

SHIPPED = Path(__file__).parent / "shipped"
"""The folder of these kernels; not there unless Tamis was installed from such a wheel."""

_TARGET = "target.json"
"""A file that names the CPU that the kernels were compiled for."""


@functools.cache
def shipped_target() -> tuple[str, ...] | None:
    """The system and CPU that the shipped kernels need, if these can run them."""
    try:
        triple, cpu, features = json.loads((SHIPPED / _TARGET).read_text())
    except (OSError, ValueError):
        return None
    has = binding.get_host_cpu_features()
    needs = [feature[1:] for feature in features.split(",") if feature.startswith("+")]
    fits = triple == binding.get_process_triple() and all(has.get(name) for name in needs)
    return (triple, cpu, features) if fits else None


def write_target(folder: Path, target: tuple[str, ...]) -> None:
    """Say which system and CPU the kernels in a folder were compiled for."""
    (folder / _TARGET).write_text(json.dumps(target))
