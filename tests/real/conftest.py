"""Finds the real rules and events: in TAMIS_DATA, or beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(os.environ.get("TAMIS_DATA", TOP.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the real rules and events are not in {folder}; set TAMIS_DATA")
    return folder
