"""Compiled kernels on disk, found by what they were compiled from.

Each compiled kernel is a file whose name contains a hash of all that its machine code depends on:
the code (`tamis.encode.compiler.stamp`), the types of the arguments, Python, Numba, LLVM and the
CPU. So a file is never out of date; it is found or it is not. Copies of Tamis with equal kernels
share the user's folder. A wheel comes with a folder of its own, compiled for a portable CPU.

Kernels are code: they are read only from folders and files that nobody else can have written
(`tamis.encode.compiler.trusted`), and nothing in a file is looked at before.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pickle
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
from numba.core import config, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from tamis.encode.compiler.shipped import SHIPPED, shipped_target
from tamis.encode.compiler.stamp import describe_types, stamp
from tamis.encode.compiler.trusted import UntrustedError, open_folder, read_file, warn_once

__all__ = [
    "KernelCache",
    "KernelMissingError",
    "lock_kernel",
    "only_load",
    "user_folders",
    "write_folder",
]

_SUFFIX = ".kernel"
_MOST_BYTES = 512 << 20
"""How many bytes of kernels are kept; those not used for longest go first."""

_DAY = 86_400.0

_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

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
    folder = write_folder()
    with contextlib.ExitStack() as stack:
        # Without a lock several processes do the same work.
        with contextlib.suppress(OSError, UntrustedError):
            if folder is not None:
                opened = stack.enter_context(open_folder(folder))
                lock = os.open(".lock", _LOCK, 0o600, dir_fd=opened)
                stack.callback(os.close, lock)
                fcntl.lockf(lock, fcntl.LOCK_EX, 1, place)
        yield


class KernelCache(_Cache):  # type: ignore[misc]  # Numba's classes are untyped
    """The compiled forms of one kernel on disk, one for each set of argument types."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @property
    def cache_path(self) -> str:
        """The folder that kernels are written to; empty if there is none."""
        return str(write_folder() or "")

    def enable(self) -> None:
        """Do nothing: the cache is always in use."""

    def disable(self) -> None:
        """Do nothing: the cache is always in use."""

    def flush(self) -> None:
        """Do nothing: a file is never out of date."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for some types of arguments, or None if it has to be compiled."""
        for folder, target in _places(target_context.codegen().magic_tuple()):
            payload = _read(folder, self.file_name(sig, target))
            if payload is not None:
                # Whatever is wrong with the file, compiling helps.
                with contextlib.suppress(Exception):
                    return CompileResult._rebuild(target_context, *pickle.loads(payload))
        if getattr(_mode, "only_load", False):
            raise KernelMissingError(sig)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel. Where nothing can be written, it lasts as long as the process."""
        folder = write_folder()
        if folder is None or data.library.has_dynamic_globals:
            return
        with contextlib.suppress(OSError, UntrustedError), open_folder(folder) as opened:
            _write(self.file_name(sig, data.codegen.magic_tuple()), dumps(data._reduce()), opened)
            _sweep_once(folder)

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
    own = dict.fromkeys(filter(None, [*user_folders(), write_folder()]))
    portable = shipped_target()
    shipped = [] if portable is None else [(SHIPPED, portable)]
    return [*((folder, host) for folder in own), *shipped]


@functools.cache
def write_folder() -> Path | None:
    """The folder that compiled kernels are written to: the user's, or a temporary one.

    None if neither can be written, or others can write to both.
    """
    for folder in (*user_folders(), *_shared_temporary_folder()):
        try:
            with open_folder(folder, create=True) as opened:
                if os.access(".", os.W_OK | os.X_OK, dir_fd=opened, effective_ids=True):
                    return folder
        except UntrustedError as error:
            _refuse(error)
        except OSError:
            continue
    return None


def _refuse(error: UntrustedError) -> None:
    warn_once(f"compiled kernels are not taken from a place that others control: {error}")


def user_folders() -> list[Path]:
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


def _shared_temporary_folder() -> list[Path]:
    """A folder that all processes of this user find; none if there are no temporary files."""
    try:
        return [Path(tempfile.gettempdir()) / f"tamis-kernels-{os.geteuid()}"]
    except OSError:
        return []


def _read(folder: Path, name: str) -> bytes | None:
    """What was written to a file; None if it is missing, damaged or not to be trusted."""
    try:
        content = _read_trusted(folder, name)
    except UntrustedError as error:
        _refuse(error)
        return None
    except OSError:
        return None
    digest, payload = content[:16], content[16:]
    return payload if hashlib.blake2b(payload, digest_size=16).digest() == digest else None


def _read_trusted(folder: Path, name: str) -> bytes:
    if folder == SHIPPED:  # It is as trusted as the package that it came with.
        return (folder / name).read_bytes()
    with open_folder(folder) as opened:
        content = read_file(name, folder, opened)
        _keep(name, opened)
        return content


def _keep(name: str, folder: int) -> None:
    """Note that a file is in use, for the sweep."""
    with contextlib.suppress(OSError):  # A folder that can only be read is not swept either.
        if time.time() - os.stat(name, dir_fd=folder).st_mtime > _DAY:
            os.utime(name, dir_fd=folder, follow_symlinks=False)


def _write(name: str, payload: bytes, folder: int) -> None:
    """Write a file aside and rename it: several processes may write the same one at once."""
    aside = f".{uuid4().hex}{_SUFFIX}"
    descriptor = os.open(aside, _NEW, 0o644, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(hashlib.blake2b(payload, digest_size=16).digest())
            out.write(payload)
        os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        raise


@functools.cache
def _sweep_once(folder: Path) -> None:
    """Sweep a folder, once a process."""
    with open_folder(folder) as opened:
        _sweep(opened)


def _sweep(folder: int) -> None:
    """Remove what was not used for longest, until the rest is within bounds."""
    files = []
    listed = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(listed) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(_SUFFIX)]
    finally:
        os.close(listed)
    for name in names:
        with contextlib.suppress(OSError):  # Another process sweeps too.
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            files.append((state.st_mtime, state.st_size, name))
    size = sum(size for _, size, _ in files)
    for _, bytes_of_file, name in sorted(files):
        if size <= _MOST_BYTES:
            break
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        size -= bytes_of_file
