"""Folders and files that nobody else can have written, for code that is loaded from them.

A folder is trusted if this user or root owns it and every folder above it, and others can write to
none of them: whoever can write to a folder can replace what is below. A folder above it may be one
for temporary files, where the sticky bit keeps everybody from the names of others. A link on the
way is followed if this user or root made it.

The way is walked with open folders, each opened in the one before, and a file is opened in the last
of them. So what was checked is what is used, whatever is renamed meanwhile.
"""

from __future__ import annotations

import errno
import grp
import logging
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["UntrustedError", "explain_refusal", "open_folder", "read_file", "warn_once"]

# A folder that may be entered but not listed, as many homes are, can still be passed through.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE: Final = 0o755
"""Of new folders. Others may read: one user builds the image of a container, another runs it."""
_MOST_LINKS: Final = 40
_ACCESS_LIST: Final = "system.posix_acl_access"

_logger = logging.getLogger("tamis")


class UntrustedError(Exception):
    """Somebody else can have written what is in a folder or a file."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")


@cache
def warn_once(message: str) -> None:
    """Log a warning; the same one only once in a process."""
    _logger.warning(message)


@contextmanager
def open_folder(folder: Path, *, create: bool = False) -> Iterator[int]:
    """Open a trusted folder, to open its files with ``dir_fd=``.

    Raises
    ------
    UntrustedError
        Others can replace what is in it.
    OSError
        It is missing, or cannot be opened or created.
    """
    folder = Path.cwd() / folder
    here = os.open("/", _FOLDER)
    try:
        rest, way, links = [*reversed(folder.parts[1:])], Path("/"), 0
        _check(os.fstat(here), way, here, is_last=not rest)
        while rest:
            name = rest.pop()
            found = _find(name, here, create)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
                _check_owner(found, way / name)
                target = Path(os.readlink(name, dir_fd=here))
                rest += reversed(target.parts)
                continue
            there = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here, way = there, way / name
            _check(os.fstat(here), way, here, is_last=not rest)
        yield here
    finally:
        os.close(here)


def explain_refusal(folder: Path) -> str | None:
    """Why a folder is not trusted; None if it is, or does not exist."""
    try:
        with suppress(OSError), open_folder(folder):
            pass
    except UntrustedError as error:
        return str(error)
    return None


def read_file(name: str, folder: Path, opened: int) -> bytes:
    """The content of a trusted file in an open folder.

    Raises
    ------
    UntrustedError
        Somebody else can have written it, or it is no file.
    OSError
        It is missing, or cannot be read.
    """
    fd = os.open(name, _FILE, dir_fd=opened)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise UntrustedError(folder / name, "is not a regular file")
        _check(found, folder / name, fd)
        return file.read()


def _find(name: str, here: int, create: bool) -> os.stat_result:
    """What has a name in an open folder; a folder is created if nothing has."""
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=here, follow_symlinks=False)
    if create:
        with suppress(FileExistsError):  # Another process creates it, too.
            os.mkdir(name, _MODE, dir_fd=here)
    return os.stat(name, dir_fd=here, follow_symlinks=False)


def _check(found: os.stat_result, path: Path, opened: int, *, is_last: bool = True) -> None:
    """Raise an `UntrustedError` if others can replace what is in a folder or a file."""
    _check_owner(found, path)
    is_sticky = not is_last and bool(found.st_mode & stat.S_ISVTX)
    if found.st_mode & stat.S_IWOTH and not is_sticky:
        raise UntrustedError(path, "can be written by everybody (chmod go-w, or name another)")
    if found.st_mode & stat.S_IWGRP and not is_sticky and not _is_alone(found, opened):
        raise UntrustedError(path, "can be written by its group (chmod g-w, or name another)")


def _check_owner(found: os.stat_result, path: Path) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise UntrustedError(
            path, "belongs to another user (use a folder of this user's, or of root's)"
        )


def _is_alone(found: os.stat_result, opened: int) -> bool:
    """Whether the owner is the only member of the group.

    Where every user has a group of the same name, new folders are often writable for it. In an
    access list, the bits of the group stand for everybody that the list names.
    """
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    is_own = owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name
    return is_own and set(group.gr_mem) <= {owner.pw_name} and not _has_access_list(opened)


def _has_access_list(opened: int) -> bool:
    if not hasattr(os, "listxattr"):
        return False
    try:
        return _ACCESS_LIST in os.listxattr(f"/proc/self/fd/{opened}")
    except OSError as error:
        return error.errno != errno.ENOTSUP
