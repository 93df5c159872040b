"""Compiled kernels on disk, found by what they were compiled from.

Each compiled kernel is a file whose name contains a hash of all that its machine code depends on:
the code (`tamis.encode.compiler.stamp`), the types of the arguments, Python, Numba, LLVM and the
CPU. So a file is never out of date; it is found or it is not. Copies of Tamis with equal kernels
share the user's folder. A wheel comes with a folder of its own, compiled for a portable CPU.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import config, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from tamis.encode.compiler.shipped import SHIPPED, shipped_target
from tamis.encode.compiler.stamp import describe_types, stamp

__all__ = [
    "KernelCache",
    "KernelMissingError",
    "lock_kernel",
    "only_load",
    "write_folder",
]

_SUFFIX = ".kernel"
_MOST_BYTES = 512 << 20
"""How many bytes of kernels are kept; those not used for longest go first."""

_DAY = 86_400.0

_mode = threading.local()


class KernelMissingError(Exception):
    """A kernel has no machine code for some types of arguments, and was not to be compiled."""

    def __init__(self, signature: Any) -> None:
        super().__init__(signature)
        self.signature = signature


@contextlib.contextmanager
def only_load() -> Iterator[None]:
    """Within this context, a kernel that is not on disk raises `KernelMissingError`."""
    _mode.only_load = True
    try:
        yield
    finally:
        _mode.only_load = False


@contextlib.contextmanager
def lock_kernel(function: Any) -> Iterator[None]:
    """Have other processes wait that are about to compile the same kernel.

    The first one writes it to disk, where the others find it.
    """
    # One byte of the file stands for each kernel.
    place = zlib.crc32(f"{function.__module__}.{function.__qualname__}".encode()) >> 2
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # Without a lock several processes do the same work.
            lock = stack.enter_context((write_folder() / ".lock").open("ab"))
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, place)
        yield


class KernelCache(_Cache):  # type: ignore[misc]  # Numba's classes are untyped
    """The compiled forms of one kernel on disk, one for each set of argument types."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @property
    def cache_path(self) -> str:
        """The folder that kernels are written to."""
        return str(write_folder())

    def enable(self) -> None:
        """Do nothing: the cache is always in use."""

    def disable(self) -> None:
        """Do nothing: the cache is always in use."""

    def flush(self) -> None:
        """Do nothing: a file is never out of date."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for some types of arguments, or None if it has to be compiled."""
        for folder, target in _places(target_context.codegen().magic_tuple()):
            payload = _read(folder / self.file_name(sig, target))
            if payload is not None:
                # Whatever is wrong with the file, compiling helps.
                with contextlib.suppress(Exception):
                    return CompileResult._rebuild(target_context, *pickle.loads(payload))
        if getattr(_mode, "only_load", False):
            raise KernelMissingError(sig)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel. Where nothing can be written, it lasts as long as the process."""
        if data.library.has_dynamic_globals:
            return
        file = write_folder() / self.file_name(sig, data.codegen.magic_tuple())
        with contextlib.suppress(OSError):
            _write(file, dumps(data._reduce()))
            _sweep(file.parent)

    def file_name(self, sig: Any, target: tuple[str, ...]) -> str:
        """The name of the file with the kernel for some types of arguments and a CPU."""
        arguments, _ = sigutils.normalize_signature(sig)
        key = repr(
            (
                stamp(self._dispatcher),
                describe_types(arguments),
                sys.implementation.cache_tag,
                numba.__version__,
                llvmlite.__version__,
                tuple(target),
                (config.OPT, config.BOUNDSCHECK, config.LOOP_VECTORIZE, config.SLP_VECTORIZE),
                (config.DEBUGINFO_DEFAULT, config.FULL_TRACEBACKS),
            )
        )
        digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        function = self._dispatcher.py_func
        name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        return f"{name[-100:]}-{digest}{_SUFFIX}"


def _places(host: tuple[str, ...]) -> list[tuple[Path, tuple[str, ...]]]:
    """Where compiled kernels may be, and the CPU that they were compiled for."""
    own = dict.fromkeys([*_user_folders(), write_folder()])
    portable = shipped_target()
    shipped = [] if portable is None else [(SHIPPED, portable)]
    return [*((folder, host) for folder in own), *shipped]


@functools.cache
def write_folder() -> Path:
    """The folder that compiled kernels are written to: the user's, or a temporary one."""
    for folder in (*_user_folders(), _shared_temporary_folder()):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            state = folder.stat()
        except OSError:
            continue
        # Kernels are code. A folder in which others can put files is not to be trusted.
        is_ours = state.st_uid == os.getuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_ours and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="tamis-kernels-"))


def _user_folders() -> list[Path]:
    """The folder of this user's kernels; none if the user has no home."""
    if os.environ.get("TAMIS_KERNEL_CACHE"):
        return [Path(os.environ["TAMIS_KERNEL_CACHE"])]
    if os.environ.get("XDG_CACHE_HOME"):
        return [Path(os.environ["XDG_CACHE_HOME"]) / "tamis" / "kernels"]
    try:
        below = "Library/Caches" if sys.platform == "darwin" else ".cache"
        return [Path.home() / below / "tamis" / "kernels"]
    except RuntimeError:
        return []


def _shared_temporary_folder() -> Path:
    """A folder that all processes of this user find."""
    return Path(tempfile.gettempdir()) / f"tamis-kernels-{os.getuid()}"


def _read(file: Path) -> bytes | None:
    """What was written to a file, or None if the file is missing or damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, payload = content[:16], content[16:]
    if hashlib.blake2b(payload, digest_size=16).digest() != digest:
        return None
    with contextlib.suppress(OSError):  # A folder that can only be read is not swept either.
        if time.time() - file.stat().st_mtime > _DAY:
            os.utime(file)  # So that the sweep knows that it is in use.
    return payload


def _write(file: Path, payload: bytes) -> None:
    """Write a file aside and rename it: several processes may write the same one at once."""
    descriptor, aside = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=_SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(hashlib.blake2b(payload, digest_size=16).digest())
            out.write(payload)
        Path(aside).replace(file)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove what was not used for longest, until the rest is within bounds; once a process."""
    files = []
    for file in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):  # Another process sweeps too.
            state = file.stat()
            files.append((state.st_mtime, state.st_size, file))
    size = sum(size for _, size, _ in files)
    for _, bytes_of_file, file in sorted(files):
        if size <= _MOST_BYTES:
            break
        with contextlib.suppress(OSError):
            file.unlink()
        size -= bytes_of_file
