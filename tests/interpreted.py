"""Runs kernels as plain Python.

Numba checks no bounds, and integers overflow silently where NumPy raises or warns. A kernel that
passes in plain Python reads and writes only within bounds.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from numba.extending import _Intrinsic

from tamis.engines.registry import ENGINES, load_engine


def dispatchers() -> Iterator[tuple[Any, str, Any]]:
    """Every kernel, wherever a module or an engine knows it by a name.

    All engines are loaded first: one that was loaded later would keep plain Python for good.
    """
    engines = [load_engine(name) for name in ENGINES]
    for name, module in list(sys.modules.items()):
        if name.startswith("tamis."):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, CPUDispatcher):
                    yield module, attribute, value
    for engine in engines:
        for attribute in ("kernel", "top_kernel"):
            kernel = getattr(engine, attribute, None)
            if isinstance(kernel, CPUDispatcher):
                yield engine, attribute, kernel


def interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all kernels as plain Python."""
    found = list(dispatchers())
    assert len(found) > 20
    for module, name, kernel in found:
        plain = kernel.py_func
        monkeypatch.setattr(
            module, name, staticmethod(plain) if isinstance(module, type) else plain
        )
    # An intrinsic consists of machine instructions and has no Python code.
    for name, module in list(sys.modules.items()):
        if name.startswith("tamis."):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, _Intrinsic):
                    monkeypatch.setattr(module, attribute, _twin_of(attribute, value))


def _twin_of(name: str, intrinsic: Any) -> Any:
    """What an intrinsic does, as plain Python."""
    twin: Any = prefetch if name == "prefetch" else functools.partial(intrinsic.plain)
    if hasattr(intrinsic._defn, "columns"):
        # A block of addresses asks its readers which arrays they expect.
        twin._defn = intrinsic._defn
    return twin


def prefetch(array: np.ndarray, place: int) -> None:
    """The place may lie past the end: a prefetch of it does nothing."""
    assert place >= 0
