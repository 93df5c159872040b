"""How kernels are compiled."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core import event

from tamis.encode.kernel import kernel

_ONE, _TWO = 1, 2


@kernel
def _add_from(values, first):
    total = 0
    for i in range(first, len(values)):
        total += values[i]
    return total


@kernel
def _add_tails(values, first):
    tails = _add_from(values, 0) + _add_from(values, _ONE) + _add_from(values, _TWO)
    return tails + _add_from(values, first)


def test_no_kernel_is_compiled_for_a_literal(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Three literals and a number of the caller: one compilation."""
    monkeypatch.setenv("TAMIS_KERNEL_CACHE", str(tmp_path_factory.mktemp("kernels")))
    monkeypatch.setenv("TAMIS_KERNELS", "wait")
    for made in (_add_from, _add_tails):
        # An earlier run may have left them on disk.
        monkeypatch.setattr(made._cache, "load_overload", lambda *_: None)
    with event.install_recorder("numba:compile") as recorder:
        assert _add_tails(np.array([1, 2, 3]), 2) == 6 + 5 + 3 + 3
    ended = [e for _, e in recorder.buffer if e.is_end]
    names = [e.data["dispatcher"].py_func.__name__ for e in ended]
    assert names == ["_add_from", "_add_tails"]
