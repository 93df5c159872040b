"""How kernels are compiled, and when a compiled one is out of date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

__all__ = ["kernel", "part"]


def _stamp() -> tuple[tuple[str, int, int], ...]:
    """What the files of all kernels look like: name, time of change and size of each."""
    package = Path(__file__).parent.parent
    files = sorted((*package.glob("encode/**/*.py"), *package.glob("engines/**/*.py")))
    states = [(file, file.stat()) for file in files]
    return tuple((file.name, state.st_mtime_ns, state.st_size) for file, state in states)


_STAMP = _stamp()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function over arrays that allocates nothing, and keep the result on disk.

    It is compiled without Numba's runtime, so that no references are counted: with it, each array
    that is passed to an inner function or taken out of a NamedTuple costs two atomic additions,
    which made a loop over conjunctions eight times slower (docs/decisions/0003). A kernel that
    tried to allocate would not compile.

    Numba takes a compiled kernel to be fresh as long as its own file is unchanged, although the
    code of kernels in other files may be part of it. So here it is fresh as long as all files that
    hold kernels are. This is part of the version, which Numba compares first: reading an index of
    compiled kernels fails where it names a NamedTuple that no longer exists.
    """
    dispatcher: Any = numba.njit(cache=True, nogil=True, _nrt=False)(function)
    dispatcher._cache._cache_file._version = (numba.__version__, _STAMP)
    return dispatcher


def part(function: Callable[..., Any]) -> Any:
    """A part of a kernel, copied into each place that calls it.

    A call hands over the whole of each NamedTuple, array by array; where a kernel's parts take
    many arrays, that costs more than what they do.
    """
    return numba.njit(inline="always", _nrt=False)(function)
