"""Jars that tests need and that are not part of Tamis; ``scripts/install-parts`` copies them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

POSTGRES_DRIVER = Path("/usr/share/java/postgresql.jar")
"""Where Debian's package libpostgresql-jdbc-java puts the driver."""


def jars(name: str) -> list[Path]:
    """The jars of ``tests/parts/NAME.xml``; none if they were not copied."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return sorted((base / "tamis" / "jars" / name).glob("*.jar"))


def require_jars(name: str) -> list[Path]:
    """The jars of ``tests/parts/NAME.xml``; skips the test if they were not copied."""
    found = jars(name)
    if not found:
        pytest.skip(f"the jars of {name} are not here; `bash scripts/install-parts` copies them")
    return found


def session_jars() -> str:
    """The jars that Spark sessions of the tests load, for the setting ``spark.jars``."""
    driver = [POSTGRES_DRIVER] if POSTGRES_DRIVER.exists() else []
    return ",".join(map(str, [*jars("spark-kafka"), *driver]))
