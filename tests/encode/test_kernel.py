"""Tests of how kernels are compiled."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest
from numba.core import dispatcher

from tamis.encode.kernel import kernel


def first_item(items: Any) -> Any:
    return items[0]


def test_kernels_work_where_no_folder_can_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: Any) -> NoReturn:
        raise RuntimeError(f"cannot cache function {function}: no locator available")

    monkeypatch.setattr(dispatcher, "FunctionCache", refuse)
    assert kernel(first_item)(np.array([3, 4])) == 3
