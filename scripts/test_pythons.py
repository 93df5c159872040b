"""Run the tests on every promised Python, and write which did: ``make test-pythons``.

Each row of the table in docs/release.md is a clean clone of the last commit, with an environment
of its own. The promised versions are the classifiers of pyproject.toml. Of each, the newest patch
that can be had is tried: an interpreter of this machine, or that of a newer Debian, which is
unpacked beside the project where debootstrap may do so. Two rows use the oldest Python that is
promised: with the locked packages, and with the lowest ones that pyproject.toml allows.

``--fast`` runs the tests that depend most on Python and its packages, on the newest Python that is
here already and newer than this one; without such a Python it does nothing. It compiles no kernels:
those that are not on disk run as plain Python.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "release.md"
BEGIN: Final = "<!-- The table of Pythons; `make test-pythons` writes it. -->"
END: Final = "<!-- End of the table of Pythons. -->"
CLONES: Final = ROOT / "build" / "pythons"
DATA: Final = ROOT.parent / "shared" / "data"
"""Real rules and events, where they are beside the repository; see tests/real/conftest.py."""

DEBIANS: Final = {(3, 13): "trixie", (3, 14): "sid"}
"""The releases of Debian whose own Python is of a version."""

SHOWN: Final = ("numpy", "numba", "pyarrow", "pandas", "pyspark")
"""The packages whose versions stand in the table."""

LOWEST: Final = ("numpy", "numba", "pyarrow", "pandas", "pyspark", "msgspec", "sqlglot", "typer")
"""The packages of which the lowest declared version is tried."""

FAST: Final = (
    *(
        "tests/repo/test_patterns.py",
        "tests/repo/test_public.py",
        "tests/expr/text",
        "tests/expr/test_model.py",
    ),
    *("tests/expr/test_evaluate.py", "tests/expr/test_json.py", "tests/encode/test_checks.py"),
    *("tests/encode/test_events.py", "tests/matcher/write/test_defects.py"),
    *("tests/matcher/test_matcher.py", "tests/matcher/storage/test_stored_formats.py"),
    *("tests/matcher/storage/test_hostile_files.py", "tests/matcher/storage/test_store.py"),
    *("tests/matcher/storage/test_documents.py", "tests/files/test_formats.py"),
    *("tests/files/test_rule_reader.py", "tests/joins/test_evaluate.py"),
    *("tests/pubsub/test_collection.py", "tests/importers/test_malformed.py"),
    "tests/contract/test_engines.py",
)
"""What depends most on Python and its packages, and needs no compiled kernels."""

FAST_ENGINES: Final = "not test_engines or (tiles and evaluate and not satisfied)"
"""Of the contract suite, the default engine and what runs fast without compiled kernels."""

LONGEST: Final = "3h"
"""How long the tests of a row may take."""

Version = tuple[int, int]


@dataclass(frozen=True)
class Row:
    """An interpreter and packages that the tests run on."""

    name: str
    python: str
    debian: Path | None = None
    """The folder of the Debian that the interpreter is part of, if not of this machine."""
    lowest: bool = False


def main() -> None:
    """Run the rows that were named, all without names; exits with 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="rows to run, such as 3.12 or 3.11-lowest")
    parser.add_argument("--fast", action="store_true", help="some rooms, on the newest Python")
    options = parser.parse_args()
    versions = promised()
    if options.fast:
        newer = [version for version in versions if version > sys.version_info[:2]]
        rows = [row for version in newer for row in find_rows(version, unpack=False)][-1:]
        if not rows:
            print("test-pythons: there is no Python here that is newer than this one")
    else:
        wanted = [v for v in versions if not options.names or is_named(v, options.names)]
        rows = [row for version in wanted for row in find_rows(version)]
    if options.names:
        rows = [row for row in rows if row.name in options.names]
        if len(rows) < len(options.names):
            sys.exit(f"test-pythons: not all of {', '.join(options.names)} can be had here")
    failed = [row.name for row in rows if not run(row, fast=options.fast)]
    if failed:
        sys.exit(f"test-pythons: tests failed on {', '.join(failed)}")


def promised() -> list[Version]:
    """The versions that pyproject.toml names, the oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = re.findall(r"Python :: (\d+)\.(\d+)\b", "\n".join(project["classifiers"]))
    return sorted((int(major), int(minor)) for major, minor in found)


def is_named(version: Version, names: list[str]) -> bool:
    """Whether one of the names is that of a row of a version."""
    return "{}.{}".format(*version) in [name.partition("-")[0] for name in names]


def find_rows(version: Version, *, unpack: bool = True) -> list[Row]:
    """The rows of a version: none if no interpreter can be had here.

    Without `unpack`, only what is on this machine already is looked at.
    """
    number = "{}.{}".format(*version)
    here = sorted(find_interpreters(number))
    release = DEBIANS.get(version)
    debian = find_debian(release, number, unpack=unpack) if release else None
    if debian is not None:
        return [Row(number, f"/usr/bin/python{number}", debian)]
    if not here:
        print(f"test-pythons: no Python {number} can be had here", file=sys.stderr)
        return []
    rows = [Row(number, here[-1][1])]
    if version == promised()[0]:
        oldest = here[0][1]
        rows[:0] = [Row(f"{number}-lowest", oldest, lowest=True)]
        if here[0][0] < here[-1][0]:
            rows[:0] = [Row(f"{number}-oldest", oldest)]
    return rows


def find_interpreters(number: str) -> list[tuple[int, str]]:
    """The interpreters of a version on this machine, each behind its patch."""
    folders = [Path(folder).resolve() for folder in os.get_exec_path()]
    folders += (Path.home() / ".pyenv" / "versions").glob("*/bin")
    found = []
    for folder in dict.fromkeys(folders):
        python = folder / f"python{number}"
        ask = [str(python), "-c", "import sys; print(sys.version_info.micro)"]
        if "shims" not in folder.parts and python.exists():
            done = subprocess.run(ask, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found.append((int(done.stdout), str(python)))
    return found


def find_debian(release: str, number: str, *, unpack: bool) -> Path | None:
    """The folder of a Debian in which a Python runs, or None; it is unpacked if there is none."""
    folder = Path.home() / ".cache" / "tamis" / "debian" / release
    if unpack and not folder.exists() and not unpack_debian(release, folder):
        return None
    python = f"/usr/bin/python{number}"
    if not (folder / python[1:]).exists():
        return None
    # It may have been unpacked by a user with more rights.
    CLONES.mkdir(parents=True, exist_ok=True)
    row = Row(number, python, folder)
    return folder if inside(row, CLONES, [python, "-c", ""], quiet=True) else None


def unpack_debian(release: str, folder: Path) -> bool:
    """Unpack a minimal Debian of a release into a folder. Returns whether that was possible."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    if shutil.which("debootstrap") is None:
        subprocess.run(["apt-get", "-qq", "update"], check=False, stdout=subprocess.DEVNULL)
        install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", "debootstrap"]
        if subprocess.run(install, check=False, stdout=subprocess.DEVNULL).returncode:
            return False
    print(f"test-pythons: unpacking Debian {release}", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{release}-{os.getpid()}")
    packages = "python3,python3-venv,make,git,ca-certificates,procps"
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", release, str(aside)]
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
        shutil.rmtree(aside, ignore_errors=True)
        return False
    aside.rename(folder)
    return True


def run(row: Row, *, fast: bool) -> bool:
    """Test a clean clone with an interpreter; write the row, unless only a part was run."""
    clone = CLONES / row.name
    shutil.rmtree(clone, ignore_errors=True)
    clone.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    report = clone / "build" / "tests.xml"
    report.parent.mkdir()
    print(f"test-pythons: {row.name}, {row.python}", flush=True)
    if not inside(row, clone, ["make", "--silent", f"PYTHON={row.python}", "venv"]):
        return False
    if row.lowest:
        install_lowest(clone)
    if fast:
        pytest = [".venv/bin/python", "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"]
        picked = ["-m", "not slow", "-k", FAST_ENGINES, *FAST]
        return inside(row, clone, ["env", "TAMIS_KERNELS=plain", *pytest, *picked])
    inside(
        row, clone, ["timeout", LONGEST, "make", "--silent", "test", f"ARGS=--junitxml={report}"]
    )
    if not report.exists():
        print(f"test-pythons: the tests of {row.name} did not end", file=sys.stderr)
        return False
    counts = ET.parse(report).getroot()[0].attrib
    write(row, clone, counts)
    return int(counts["failures"]) + int(counts["errors"]) == 0 < int(counts["tests"])


def inside(row: Row, clone: Path, command: list[str], *, quiet: bool = False) -> bool:
    """Run a command in a clone, and in the Debian of the interpreter if it has one."""
    output = subprocess.DEVNULL if quiet else None
    if row.debian is not None:
        script = str(ROOT / "scripts" / "inside-debian")
        command = ["bash", script, str(row.debian), str(clone), *command]
    environment = {"TAMIS_DATA": str(DATA), **os.environ, "HYPOTHESIS_PROFILE": "ci"}
    done = subprocess.run(
        command, cwd=clone, env=environment, check=False, stdout=output, stderr=output
    )
    return done.returncode == 0


def install_lowest(clone: Path) -> None:
    """Install the lowest packages that pyproject.toml allows, and what goes with them."""
    project = tomllib.loads((clone / "pyproject.toml").read_text("utf-8"))["project"]
    needs = project["dependencies"] + project["optional-dependencies"]["spark"]
    lowest = []
    for need in needs:
        name, version = re.findall(r"^([\w-]+).*?>=([\d.]+)", need)[0]
        if name in LOWEST:
            lowest.append(f"{name}=={version}")
    pins = clone / "build" / "lowest.txt"
    pins.write_text("\n".join(lowest), "utf-8")
    solved = clone / "build" / "solved.txt"
    python = str(clone / ".venv" / "bin" / "python")
    tools = str(clone / "build" / "uv")
    uv = re.findall(r"^UV := (\S+)", (clone / "Makefile").read_text("utf-8"), re.MULTILINE)[0]
    pip = "install --quiet --disable-pip-version-check"
    solve = f"--quiet --no-emit-index-url --extra dev --constraint {pins} --python {python}"
    for command in (
        f"{python} -m venv {tools}",
        f"{tools}/bin/pip {pip} {uv}",
        f"{tools}/bin/uv pip compile {solve} pyproject.toml -o {solved}",
        f"{python} -m pip {pip} --no-deps --no-compile --no-build-isolation -r {solved}",
    ):
        subprocess.run(command.split(), check=True, cwd=clone)


def write(row: Row, clone: Path, counts: dict[str, str]) -> None:
    """Put the row of an interpreter into the page, in the place of an older one."""
    lines = [line for line in table_rows() if not line.startswith(f"| {row.name} |")]
    lines.append(describe(row, clone, counts))
    lines.sort(key=lambda line: line.split("|")[1])
    title = f"| | Python | {', '.join(SHOWN)} | passed | failed | skipped | minutes | day |"
    table = "\n".join([title, "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |", *lines])
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", "utf-8")


def table_rows() -> list[str]:
    """The rows that the page has."""
    table = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    return [line for line in table.splitlines() if re.match(r"\| \d", line)]


def describe(row: Row, clone: Path, counts: dict[str, str]) -> str:
    """The row of the table: versions, and how many tests passed."""
    versions = clone / "build" / "versions.json"
    script = (
        "import importlib.metadata as m, json, pathlib, platform;"
        f"found = [platform.python_version(), *map(m.version, {SHOWN})];"
        f"pathlib.Path({str(versions)!r}).write_text(json.dumps(found))"
    )
    inside(row, clone, [str(clone / ".venv" / "bin" / "python"), "-c", script])
    version, *packages = json.loads(versions.read_text("utf-8"))
    bad = int(counts["failures"]) + int(counts["errors"])
    skipped = int(counts["skipped"])
    passed = int(counts["tests"]) - bad - skipped
    minutes = float(counts["time"]) / 60
    day = datetime.datetime.now(datetime.UTC).date()
    return (
        f"| {row.name} | {version} | {', '.join(packages)} | {passed:,} | {bad:,} | {skipped:,} "
        f"| {minutes:.0f} | {day} |"
    )


if __name__ == "__main__":
    main()
