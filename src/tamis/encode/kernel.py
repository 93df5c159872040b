"""How kernels are compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from llvmlite.binding import ffi
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from tamis.encode.compiler.background import find_code
from tamis.encode.compiler.cache import KernelCache
from tamis.encode.compiler.pipeline import KernelCompiler
from tamis.forks import hold_during_forks

__all__ = ["brief_kernel", "event_kernel", "kernel", "part"]

# A thread that compiles or loads a kernel holds both, the second one within the first.
hold_during_forks(global_compiler_lock._lock, rank=2)
hold_during_forks(ffi.lib._lock._lock, rank=3)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function over arrays that allocates nothing, and keep the result on disk.

    Kernels are compiled without Numba's runtime, so that no references are counted: with it, each
    array that is passed to an inner function or taken out of a NamedTuple costs two atomic
    additions, which made a loop over conjunctions eight times slower (docs/decisions/0003). A
    kernel that allocates does not compile.

    Numba's own cache considers a kernel fresh as long as its file is unchanged, although it may
    contain code of kernels in other files; `tamis.encode.compiler.cache` knows better. Until a
    kernel is compiled it runs as plain Python; see `tamis.encode.compiler.background`.
    """
    return _make(function, per_event=False)


def event_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that looks at few items of its arrays, however large they are.

    So it never pays to wait until it is compiled.
    """
    return _make(function, per_event=True)


def brief_kernel(function: Callable[..., Any]) -> Any:
    """An event kernel that takes some microseconds, and keeps the interpreter's lock.

    Beside threads that run Python, it takes tens of microseconds to get the lock back.
    """
    return _make(function, per_event=True, releases_lock=False)


def part(function: Callable[..., Any]) -> Any:
    """A part of a kernel, inlined wherever it is called.

    A call passes every array of each NamedTuple on its own; for a small part that takes many
    arrays, this costs more than the work it does.
    """
    return numba.njit(inline="always", _nrt=False)(function)


def _make(function: Callable[..., Any], per_event: bool, releases_lock: bool = True) -> Any:
    options = {"nogil": releases_lock, "_nrt": False, "no_cfunc_wrapper": True}
    dispatcher: Any = numba.njit(pipeline_class=KernelCompiler, **options)(function)
    dispatcher._cache = KernelCache(dispatcher)
    # Numba asks this of an instance when it has no machine code for the types of a call.
    dispatcher._compile_for_args = functools.partial(find_code, dispatcher, per_event)
    # And this when another kernel calls it.
    dispatcher.get_call_template = functools.partial(_get_template, dispatcher)
    return dispatcher


def _get_template(dispatcher: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
    """How a kernel is called from another one: with integers, never with a literal of its own.

    Numba would compile the kernel once for each literal. A literal flag keeps its type: there are
    only two, and a loop that knows its flag is faster.
    """
    plain = tuple(types.unliteral(a) if isinstance(a, types.IntegerLiteral) else a for a in args)
    return CPUDispatcher.get_call_template(dispatcher, plain, kws)
