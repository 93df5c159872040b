"""Folders and files from which code is loaded: only those that nobody else can have written."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from tamis.encode.compiler import trusted
from tamis.encode.compiler.trusted import UntrustedError, open_folder, read_file

_STRANGER = 12_345


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in a folder, both of this user only."""
    folder = tmp_path / "above" / "kernels"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o755)
    (folder / "file").write_bytes(b"content")
    (folder / "file").chmod(0o644)
    return folder


def read(folder: Path) -> bytes:
    with open_folder(folder) as opened:
        return read_file("file", folder, opened)


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, _STRANGER, _STRANGER, follow_symlinks=False)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o555, 0o711, 0o2755])
def test_folder_that_only_its_owner_can_write_is_trusted(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert read(folder) == b"content"


@pytest.mark.parametrize("place", [".", "..", "file"])
@pytest.mark.parametrize("mode", [0o002, 0o757, 0o777])
def test_what_everybody_can_write_is_refused(folder: Path, place: str, mode: int) -> None:
    path = folder / place
    path.chmod(mode | 0o700)
    with pytest.raises(UntrustedError, match="can be written by everybody"):
        read(folder)


@pytest.mark.parametrize("place", [".", "..", "file"])
def test_what_another_user_owns_is_refused(folder: Path, place: str) -> None:
    give_away(folder / place)
    with pytest.raises(UntrustedError, match="belongs to another user"):
        read(folder)


def test_sticky_folder_is_trusted_on_the_way_but_not_as_the_last(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    assert read(folder) == b"content"
    folder.chmod(0o1777)
    with pytest.raises(UntrustedError, match="can be written by everybody"):
        read(folder)


class Groups:
    """The users and groups of a machine, of which this user is one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str]) -> None:
        user = SimpleNamespace(pw_name="ada", pw_gid=os.getegid())
        group = SimpleNamespace(gr_name=name, gr_gid=os.getegid(), gr_mem=members)
        monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
        monkeypatch.setattr(grp, "getgrgid", lambda _: group)


@pytest.mark.parametrize("place", [".", "..", "file"])
@pytest.mark.parametrize(
    ("name", "members", "fits"),
    [
        ("ada", [], True),
        ("ada", ["ada"], True),
        ("ada", ["ada", "bob"], False),
        ("users", [], False),
    ],
)
def test_group_may_write_if_the_owner_is_its_only_member(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    name: str,
    members: list[str],
    fits: bool,
) -> None:
    """With a umask of 002, which goes with groups of one user, every new folder is like that."""
    Groups(monkeypatch, name, members)
    (folder / place).chmod(0o775)
    if fits:
        assert read(folder) == b"content"
        monkeypatch.setattr(trusted, "_has_access_list", lambda _: True)
    with pytest.raises(UntrustedError, match="can be written by its group"):
        read(folder)


def test_group_without_a_name_may_not_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    folder.chmod(0o775)
    with pytest.raises(UntrustedError, match="can be written by its group"):
        read(folder)


@pytest.mark.parametrize("relative", [False, True])
def test_link_is_followed_if_this_user_made_it(
    folder: Path, tmp_path: Path, relative: bool
) -> None:
    target = Path("above") if relative else folder.parent
    (tmp_path / "link").symlink_to(target)
    assert read(tmp_path / "link" / "kernels") == b"content"
    assert read(tmp_path / "link" / ".." / "above" / "kernels") == b"content"
    folder.parent.chmod(0o777)
    with pytest.raises(UntrustedError):
        read(tmp_path / "link" / "kernels")


def test_link_of_another_user_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    give_away(tmp_path / "link")
    with pytest.raises(UntrustedError, match="link belongs to another user"):
        read(tmp_path / "link")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"), open_folder(tmp_path / "one"):
        pass


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_regular_files_are_read(folder: Path, kind: str) -> None:
    content = folder / "file"
    content.rename(folder / "other")
    if kind == "link":
        content.symlink_to("other")
    elif kind == "pipe":
        os.mkfifo(content)
    else:
        content.mkdir()
    with pytest.raises((UntrustedError, OSError)):
        read(folder)


def test_new_folder_is_trusted_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_folder(tmp_path / "a" / "b", create=True):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o755
    with open_folder(tmp_path / "a" / "b"):
        pass


def test_nothing_is_created_where_others_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UntrustedError), open_folder(tmp_path / "a" / "b", create=True):
        pass
    assert not (tmp_path / "a").exists()


def test_no_descriptor_stays_open(folder: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("the system does not list descriptors")
    before = len(list(descriptors.iterdir()))
    read(folder)
    folder.chmod(0o777)
    with pytest.raises(UntrustedError):
        read(folder)
    assert len(list(descriptors.iterdir())) == before
