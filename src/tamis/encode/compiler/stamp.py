"""What a kernel's machine code depends on, as a hash: its own code and all that it reaches.

The stamp is taken from code objects and constants, not from files: a comment, a docstring or a
changed kernel in the same file leaves it alone, and the folder of the package does not matter.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.types import Type
from numba.core.types.containers import BaseTuple
from numba.extending import _Intrinsic

__all__ = ["describe_types", "read_globals", "stamp"]


@functools.cache
def stamp(dispatcher: Any) -> str:
    """A hash of everything in Tamis that the machine code of a kernel depends on."""
    found = {dispatcher}
    pending = [dispatcher]
    while pending:
        new = set(_references(pending.pop())) - found
        found |= new
        pending.extend(new)
    digest = hashlib.blake2b(digest_size=16)
    for description in sorted(map(_describe_own_code, found)):
        digest.update(description.encode())
    return digest.hexdigest()


def describe_types(kinds: tuple[Type, ...]) -> str:
    """The types of a kernel's arguments; those of NamedTuples with the names of their fields.

    A kernel takes a field by its position, so it is out of date once two fields have changed
    places, even if their types are equal.
    """
    return "; ".join(_describe_type(kind) for kind in kinds)


def _describe_type(kind: Type) -> str:
    if isinstance(kind, BaseTuple):
        inner = describe_types(tuple(kind))
        fields = getattr(kind, "instance_class", None)
        return f"({_describe_class(fields)} {inner})" if fields else f"({inner})"
    return str(kind.name)


def _function(value: Any) -> types.FunctionType:
    """The Python function of a kernel, of an intrinsic, or of what is a function already."""
    if isinstance(value, Dispatcher):
        return value.py_func  # type: ignore[no-any-return]
    return value._defn if isinstance(value, _Intrinsic) else value  # type: ignore[no-any-return]


def _name(value: Any) -> str:
    function = _function(value)
    return f"{function.__module__}.{function.__qualname__}"


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def read_globals(function: types.FunctionType) -> dict[str, Any]:
    """The global and enclosing variables that a function may read.

    An attribute may have the name of a global; then the function has one more dependency.
    """
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    read = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return read | {name: cell.cell_contents for name, cell in cells}


def _references(value: Any) -> list[Any]:
    """The functions of Tamis that a function calls."""
    return [
        value
        for value in read_globals(_function(value)).values()
        if isinstance(value, Dispatcher | _Intrinsic)
        or (isinstance(value, types.FunctionType) and value.__module__.startswith("tamis."))
    ]


@functools.cache
def _describe_own_code(value: Any) -> str:
    """A function without what it calls."""
    function = _function(value)
    options = sorted(getattr(value, "targetoptions", {}).items())
    constants = [
        (name, _describe(constant)) for name, constant in sorted(read_globals(function).items())
    ]
    return repr(
        (
            _name(value),
            options,
            _describe(function.__defaults__),
            _describe_code(function.__code__),
            constants,
        )
    )


def _describe_code(code: types.CodeType) -> tuple[Any, ...]:
    """What a code object does, without its lines, its file and its docstring."""
    # From Python 3.14 on a flag says so, and any text may come first.
    flag = getattr(inspect, "CO_HAS_DOCSTRING", None)
    begins_with_text = bool(code.co_consts) and isinstance(code.co_consts[0], str)
    documented = begins_with_text if flag is None else bool(code.co_flags & flag)
    return (
        code.co_code.hex(),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_exceptiontable.hex(),
        [_describe(constant) for constant in code.co_consts[documented:]],
    )


def _describe(value: Any) -> Any:
    """A constant by its value, and a function or a class by its name."""
    if isinstance(value, types.CodeType):
        return _describe_code(value)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return [_describe(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(repr(_describe(item)) for item in value)
    if isinstance(value, type):
        return _describe_class(value)
    if isinstance(value, types.ModuleType):
        if value.__name__.startswith("tamis"):
            raise TypeError(f"a kernel takes names from {value.__name__}; import them by name")
        return value.__name__
    if isinstance(value, Dispatcher | _Intrinsic | types.FunctionType):
        return _name(value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes().hex()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return type(value).__name__, repr(value)
    if isinstance(value, Type):
        return _describe_type(value)
    if isinstance(value, np.dtype | types.BuiltinFunctionType | slice) or value is ...:
        return str(value)
    raise TypeError(f"a kernel uses {value!r}, whose changes would go unnoticed")


def _describe_class(value: type) -> str:
    fields = ", ".join(getattr(value, "_fields", ()))
    return f"{value.__module__}.{value.__qualname__}({fields})"
