"""The Hypothesis profiles, and kernels as plain Python.

Choose a profile with ``HYPOTHESIS_PROFILE=deep make test``; without it CI runs ``ci`` and a
person ``dev``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.interpreted import interpret

# The first call of a kernel compiles it, so no example can be held to a deadline, and the
# first ones look slow.
_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# `ci` runs the same examples every time: a red build is the change's own fault.
settings.register_profile("ci", _ANY_TIME, derandomize=True, database=None, print_blob=True)
settings.register_profile("dev", _ANY_TIME)
settings.register_profile("deep", _ANY_TIME, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs all kernels as plain Python."""
    interpret(monkeypatch)
    # Counters of a byte count below zero on purpose.
    with np.errstate(over="ignore"):
        yield
