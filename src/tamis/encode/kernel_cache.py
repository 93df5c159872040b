"""Compiled kernels on disk, found by what they were compiled from.

Each compiled kernel is a file whose name contains a hash of all that its machine code depends on:
the code (`tamis.encode.kernel_stamp`), the types of the arguments, Python, Numba, LLVM and the
CPU. So a file is never out of date; it is found or it is not. The folder belongs to the user
and not to a copy of Tamis: copies with equal kernels share them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import config, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from tamis.encode.kernel_stamp import describe_types, stamp

__all__ = ["KernelCache"]

_SUFFIX = ".kernel"

_MOST_BYTES = 512 << 20
"""How many bytes of kernels are kept; those not used for longest go first."""

_DAY = 86_400.0


class KernelCache(_Cache):  # type: ignore[misc]  # Numba's classes are untyped
    """The compiled forms of one kernel on disk, one for each set of argument types."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @property
    def cache_path(self) -> str:
        """The folder that kernels are written to."""
        return str(_folder())

    def enable(self) -> None:
        """Do nothing: the cache is always in use."""

    def disable(self) -> None:
        """Do nothing: the cache is always in use."""

    def flush(self) -> None:
        """Do nothing: a file is never out of date."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for some types of arguments, or None if it has to be compiled."""
        target_context.refresh()
        file = _folder() / self._file_name(sig, target_context.codegen())
        payload = _read(file)
        if payload is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(payload))
        except Exception:  # Whatever is wrong with the file, compiling helps.
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel. Where nothing can be written, it lasts as long as the process."""
        if data.library.has_dynamic_globals:
            return
        file = _folder() / self._file_name(sig, data.codegen)
        with contextlib.suppress(OSError):
            _write(file, dumps(data._reduce()))
            _sweep(file.parent)

    def _file_name(self, sig: Any, codegen: Any) -> str:
        arguments, _ = sigutils.normalize_signature(sig)
        key = repr(
            (
                stamp(self._dispatcher),
                describe_types(arguments),
                sys.implementation.cache_tag,
                numba.__version__,
                llvmlite.__version__,
                codegen.magic_tuple(),
                (config.OPT, config.BOUNDSCHECK, config.LOOP_VECTORIZE, config.SLP_VECTORIZE),
                (config.DEBUGINFO_DEFAULT, config.FULL_TRACEBACKS),
            )
        )
        digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        function = self._dispatcher.py_func
        name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        return f"{name[-100:]}-{digest}{_SUFFIX}"


@functools.cache
def _folder() -> Path:
    """The folder of this user's compiled kernels; one for this process if none can be made."""
    for folder in _candidates():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
        except OSError:
            continue
    return Path(tempfile.mkdtemp(prefix="tamis-kernels-"))


def _candidates() -> list[Path]:
    """Where compiled kernels may be kept, the best place first."""
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR) / "tamis"]
    if "XDG_CACHE_HOME" in os.environ:
        return [Path(os.environ["XDG_CACHE_HOME"]) / "tamis" / "kernels"]
    with contextlib.suppress(RuntimeError):  # This user has no home.
        below = "Library/Caches" if sys.platform == "darwin" else ".cache"
        return [Path.home() / below / "tamis" / "kernels"]
    return []


def _read(file: Path) -> bytes | None:
    """What was written to a file, or None if the file is missing or damaged."""
    try:
        content = file.read_bytes()
        if time.time() - file.stat().st_mtime > _DAY:
            os.utime(file)  # So that the sweep knows that it is in use.
    except FileNotFoundError:
        return None
    except OSError:
        content = b""
    digest, payload = content[:16], content[16:]
    return payload if hashlib.blake2b(payload, digest_size=16).digest() == digest else None


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
