"""How kernels are compiled, and when their cached code is out of date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

__all__ = ["kernel", "part"]


def _stamp() -> tuple[tuple[str, int, int], ...]:
    """The name, time of change and size of each file that may have kernels."""
    package = Path(__file__).parent.parent
    files = sorted((*package.glob("encode/**/*.py"), *package.glob("engines/**/*.py")))
    states = [(file, file.stat()) for file in files]
    return tuple((file.name, state.st_mtime_ns, state.st_size) for file, state in states)


_STAMP = _stamp()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function over arrays that allocates nothing, and keep the result on disk.

    Kernels are compiled without Numba's runtime, so that no references are counted: with it, each
    array that is passed to an inner function or taken out of a NamedTuple costs two atomic
    additions, which made a loop over conjunctions eight times slower (docs/decisions/0003). A
    kernel that allocates does not compile.

    Numba considers a cached kernel fresh as long as its own file is unchanged, although it may
    contain code of kernels in other files. Here it is fresh as long as all files that may have
    kernels are unchanged. Their stamp is part of the version, which Numba compares first: loading
    cached kernels fails where they name a NamedTuple that no longer exists.

    Where no folder can be written to, kernels are compiled anew in every process.
    """
    dispatcher: Any = numba.njit(nogil=True, _nrt=False)(function)
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # Numba finds no folder for the cache.
        return dispatcher
    dispatcher._cache._cache_file._version = (numba.__version__, _STAMP)
    return dispatcher


def part(function: Callable[..., Any]) -> Any:
    """A part of a kernel, inlined wherever it is called.

    A call passes every array of each NamedTuple on its own; for a small part that takes many
    arrays, this costs more than the work it does.
    """
    return numba.njit(inline="always", _nrt=False)(function)
