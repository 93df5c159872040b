"""Kernels as plain Python, for the time before they are compiled.

A kernel is a Python function over NumPy arrays, so it runs without a compiler as well, some
hundred times slower and with the same result. Its copy here calls the copies of other kernels.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.extending import _Intrinsic

from tamis.encode.compiler.stamp import read_globals

__all__ = ["run_plainly"]


@functools.cache
def run_plainly(dispatcher: Any) -> Callable[..., Any]:
    """A kernel as a Python function."""
    function = _copy(dispatcher)
    has_rest = bool(function.__code__.co_flags & inspect.CO_VARARGS)

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        # Machine integers wrap silently, and some kernels rely on it.
        with np.errstate(over="ignore"):
            # Numba passes what stands in the place of *arguments as a tuple.
            rest = arguments[-1] if has_rest else arguments[-1:]
            return _as_python(function(*arguments[:-1], *rest))

    return run


@functools.cache
def _copy(dispatcher: Any) -> types.FunctionType:
    """A copy of a kernel's function that calls the copies of other kernels."""
    original = dispatcher.py_func
    names = dict(original.__globals__)
    copy = types.FunctionType(
        original.__code__, names, original.__name__, original.__defaults__, original.__closure__
    )
    for name, value in read_globals(original).items():
        if value is dispatcher:
            names[name] = copy
        elif isinstance(value, Dispatcher):
            names[name] = _copy(value)
        elif isinstance(value, _Intrinsic):
            names[name] = value.plain  # An intrinsic consists of machine instructions.
    return copy


def _as_python(result: Any) -> Any:
    """Numbers as a compiled kernel returns them: of Python, not of NumPy."""
    if isinstance(result, np.generic):
        return result.item()
    return tuple(map(_as_python, result)) if type(result) is tuple else result
