"""The Hypothesis profiles, and a fixture that runs kernels as plain Python.

Choose a profile with ``HYPOTHESIS_PROFILE=deep make test``. The default is ``ci`` in CI, else
``dev``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.interpreted import interpret
from tests.schedule import LongestFirst

# Tests are about compiled kernels, unless they say otherwise: a kernel that is not on disk is
# compiled when it is called, here and in the processes that tests start.
os.environ.setdefault("TAMIS_KERNELS", "wait")

# A Spark of the tests lasts for seconds, and its tables are small. The JVM's second compiler takes
# longer to make its code faster than the jobs take; without it they need half of the CPU time.
# Spark itself compiles classes for each plan; without these they need a seventh less again.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN",
)

# The first call of a kernel compiles it, so examples have no deadline, and the first ones may
# look slow.
_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# `ci` runs the same examples every time, so that a red build is caused by the change.
settings.register_profile("ci", _ANY_TIME, derandomize=True, database=None, print_blob=True)
settings.register_profile("dev", _ANY_TIME)
settings.register_profile("deep", _ANY_TIME, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst | None:
    """Divide the tests in our own way where xdist was to keep those of a file together."""
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs all kernels as plain Python."""
    interpret(monkeypatch)
    # Counters of one byte wrap below zero on purpose.
    with np.errstate(over="ignore"):
        yield
