"""A shim below the file calls: everything that Tamis asks of the operating system passes here.

:class:`FileCalls` replaces the functions of `os` that change files below a folder. A subclass sees
each call before it happens: one writes them down, another makes one of them fail.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from unittest.mock import patch

__all__ = ["FileCalls", "without_fsync"]

_BY_PATH: Final = ("open", "replace", "rename", "unlink", "mkdir", "rmdir")
_BY_FD: Final = ("write", "pwrite", "fsync", "ftruncate", "close")

_REAL: Final = {name: getattr(os, name) for name in (*_BY_PATH, *_BY_FD)}


def _skip_fsync(fd: int) -> None:
    """The disk itself only takes time here: what it may lose is computed, not waited for."""


def without_fsync() -> AbstractContextManager[Any]:
    """Make `os.fsync` return at once."""
    return patch.object(os, "fsync", _skip_fsync)


class FileCalls:
    """Intercepts the calls that concern files below `root`, from all threads.

    Parameters
    ----------
    root
        A folder. Calls that concern other files pass unseen.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._paths: dict[int, str] = {}
        """The open files below the root."""
        self._turn = threading.RLock()

    def __enter__(self) -> Self:
        for name in _REAL:
            setattr(os, name, self._intercept(name))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, function in _REAL.items():
            setattr(os, name, function)

    def on_call(self, name: str, path: str, run: Callable[[], Any], arguments: Any) -> Any:
        """Handle a call.

        Parameters
        ----------
        name
            The function of `os`.
        path
            The file or folder that it concerns.
        run
            Makes the call.
        arguments
            Its arguments.
        """
        raise NotImplementedError

    def _intercept(self, name: str) -> Callable[..., Any]:
        real = _skip_fsync if name == "fsync" else _REAL[name]

        def call(*arguments: Any, **named: Any) -> Any:
            path = self._find_path(name, arguments, named)
            if path is None:
                return real(*arguments, **named)
            with self._turn:
                found = self.on_call(name, path, lambda: real(*arguments, **named), arguments)
                if name == "open":
                    self._paths[found] = path
                elif name == "close":
                    self._paths.pop(arguments[0], None)
                return found

        return call

    def _find_path(self, name: str, arguments: Any, named: Any) -> str | None:
        if name in _BY_FD:
            return self._paths.get(arguments[0])
        path = os.fsdecode(arguments[0])
        folder = named.get("dir_fd")
        if folder is not None:
            path = os.path.join(self._paths.get(folder, ""), path)  # noqa: PTH118  texts only
        return path if path.startswith(self._root) else None
