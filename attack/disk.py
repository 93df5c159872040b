"""A disk that forgets what was not synced: the state of files after a power cut.

A file's content is safe after `fsync` of the file, and its name after `fsync` of its folder. What
came later may be lost or not, in any order: of a write, any sectors; of the changes to a folder,
any number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

from attack.file_calls import FileCalls

__all__ = ["Call", "Disk", "Recorder", "Survival"]

_SECTOR: Final = 512

Call: TypeAlias = tuple[Any, ...]
"""The name of a call and what it changed; ``("mark", …)`` is a remark of the recording program."""

Survival: TypeAlias = Literal["all", "synced", "torn"]
"""What a crash leaves: all calls (the process was killed), only what was synced, or any part."""


class Recorder(FileCalls):
    """Writes down what is done to the files below a folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls: list[Call] = []

    def mark(self, *words: Any) -> None:
        """Add a remark at this place of the record."""
        with self._turn:
            self.calls.append(("mark", *words))

    def on_call(self, name: str, path: str, run: Callable[[], Any], arguments: Any) -> Any:
        """Make the call, and write down what it changed."""
        is_new = name == "open" and not os.path.lexists(path)
        at = os.lseek(arguments[0], 0, os.SEEK_CUR) if name == "write" else None
        found = run()
        if name == "open" and is_new:
            self.calls.append(("create", path))
        elif name == "write":
            self.calls.append(("write", path, at, bytes(arguments[1][:found])))
        elif name == "pwrite":
            self.calls.append(("write", path, arguments[2], bytes(arguments[1][:found])))
        elif name in ("replace", "rename"):
            self.calls.append(("rename", path, os.fsdecode(arguments[1])))
            # Open files keep their place in the tree under the new name.
            moved = os.fsdecode(arguments[1])
            for fd, known in self._paths.items():
                if known == path or known.startswith(path + "/"):
                    self._paths[fd] = moved + known[len(path) :]
        elif name == "ftruncate":
            self.calls.append(("truncate", path, arguments[1]))
        elif name in ("fsync", "unlink", "mkdir", "rmdir"):
            self.calls.append((name, path))
        return found


@dataclass
class _File:
    safe: bytes = b""
    """The content at the last `fsync`."""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Later writes (offset and data) and cuts (length and None)."""

    def read(self) -> bytes:
        """The content, with all that is pending."""
        content = bytearray(self.safe)
        for at, data in self.pending:
            _apply(content, at, data)
        return bytes(content)

    def tear(self, random: Random) -> bytes:
        """The content after a crash that kept any part of what was pending."""
        content = bytearray(self.safe)
        for at, data in self.pending:
            fate = random.random()
            if fate < 0.3:
                continue
            if fate < 0.6 or data is None:
                _apply(content, at, data)
                continue
            if random.random() < 0.5:
                content.extend(bytes(max(0, at + len(data) - len(content))))
            for start, piece in _sectors(at, data):
                if random.random() < 0.5:
                    _apply(content, start, piece)
        return bytes(content)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
        content.extend(bytes(at - len(content)))
    else:
        content.extend(bytes(max(0, at - len(content))))
        content[at : at + len(data)] = data


def _sectors(at: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    end = at + len(data)
    start = at
    while start < end:
        stop = min(end, start // _SECTOR * _SECTOR + _SECTOR)
        yield start, data[start - at : stop - at]
        start = stop


_Change: TypeAlias = tuple[str, str, Any]


@dataclass
class _Folder:
    safe: dict[str, Any] = field(default_factory=dict)
    """The names at the last `fsync`."""
    pending: list[_Change] = field(default_factory=list)

    def names(self) -> dict[str, Any]:
        """The names, with all that is pending."""
        return self._after(self.pending)

    def tear(self, random: Random) -> dict[str, Any]:
        """The names after a crash: those of the first changes, or of any changes."""
        if random.random() < 0.7:
            return self._after(self.pending[: random.randint(0, len(self.pending))])
        return self._after([change for change in self.pending if random.random() < 0.5])

    def sync(self) -> None:
        """Make all names safe."""
        self.safe, self.pending = self.names(), []

    def _after(self, changes: list[_Change]) -> dict[str, Any]:
        names = dict(self.safe)
        for kind, name, what in changes:
            if kind == "link":
                names[name] = what
            elif kind == "unlink":
                names.pop(name, None)
            elif what in names or kind == "move":
                names[name] = names.pop(what)
        return names


class Disk:
    """Follows recorded calls, and writes what would be left after a crash.

    Parameters
    ----------
    root
        The folder of the recording, which was empty and is taken as safe.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tree = _Folder()

    def follow(self, call: Call) -> None:
        """Apply a recorded call."""
        match call:
            case ("create", path):
                folder, name = self._locate(path)
                folder.pending.append(("link", name, _File()))
            case ("mkdir", path):
                folder, name = self._locate(path)
                folder.pending.append(("link", name, _Folder()))
            case ("write", path, at, data):
                self._find(path).pending.append((at, data))
            case ("truncate", path, length):
                self._find(path).pending.append((length, None))
            case ("unlink" | "rmdir", path):
                folder, name = self._locate(path)
                folder.pending.append(("unlink", name, None))
            case ("rename", path, to):
                self._rename(path, to)
            case ("fsync", path):
                node = self._find(path)
                if isinstance(node, _Folder):
                    node.sync()
                else:
                    node.safe, node.pending = node.read(), []

    def write(self, to: Path, survival: Survival, random: Random) -> None:
        """Write what a crash would leave at this point into an empty folder."""
        self._write(self._tree, to, survival, random)

    def _write(self, folder: _Folder, to: Path, survival: Survival, random: Random) -> None:
        to.mkdir(exist_ok=True)
        names = folder.safe
        if survival != "synced":
            names = folder.names() if survival == "all" else folder.tear(random)
        for name, node in names.items():
            if isinstance(node, _Folder):
                self._write(node, to / name, survival, random)
            elif survival == "synced":
                (to / name).write_bytes(node.safe)
            else:
                (to / name).write_bytes(node.read() if survival == "all" else node.tear(random))

    def _rename(self, path: str, to: str) -> None:
        (source, name), (target, new) = self._locate(path), self._locate(to)
        if source is target:
            source.pending.append(("rename", new, name))
        else:
            target.pending.append(("link", new, source.names()[name]))
            source.pending.append(("unlink", name, None))

    def _locate(self, path: str) -> tuple[_Folder, str]:
        *folders, name = Path(path).relative_to(self._root).parts
        folder = self._tree
        for part in folders:
            folder = folder.names()[part]
        return folder, name

    def _find(self, path: str) -> Any:
        if Path(path) == self._root:
            return self._tree
        folder, name = self._locate(path)
        return folder.names()[name]
