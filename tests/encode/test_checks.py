"""The types that NamedTuples of arrays declare can be read with every version of NumPy."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.encode.arrays import (
    AtomArrays,
    DictionaryArrays,
    FormArrays,
    ScoreArrays,
    TextArrays,
)
from tamis.encode.checks import ArrayError, check_types, read_hints, scalar_of
from tamis.engines.scan import ScanArrays
from tamis.engines.shared.arrays import SharedArrays
from tamis.engines.tiles.arrays import TileArrays
from tamis.matcher.ids import IdIndex
from tamis.matcher.string_column import Strings

SCALARS = (np.bool_, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)


class _Alias:
    """A generic alias without parts: what `NDArray` is since NumPy 2.5."""


@pytest.mark.parametrize("scalar", SCALARS)
def test_scalar_is_found_however_the_alias_is_nested(scalar: type[np.generic]) -> None:
    nested = types.GenericAlias(np.ndarray, (tuple[Any, ...], np.dtype[scalar]))  # type: ignore[valid-type]
    flat = types.GenericAlias(_Alias, (scalar,))
    installed = NDArray[scalar]  # type: ignore[valid-type]
    assert [scalar_of(hint) for hint in (nested, flat, installed)] == [scalar] * 3


@pytest.mark.parametrize("hint", [NDArray[Any], list[int], str])
def test_declaration_without_a_scalar_is_a_defect(hint: Any) -> None:
    with pytest.raises(TypeError, match="does not declare"):
        scalar_of(hint)


@pytest.mark.parametrize(
    "kind",
    [
        AtomArrays,
        DictionaryArrays,
        FormArrays,
        IdIndex,
        ScanArrays,
        ScoreArrays,
        SharedArrays,
        Strings,
        TextArrays,
        TileArrays,
    ],
)
def test_stored_arrays_declare_readable_types(kind: type) -> None:
    hints = read_hints(kind)
    assert tuple(hints) == kind._fields  # type: ignore[attr-defined]
    for hint in hints.values():
        if hint is not int and not (isinstance(hint, type) and issubclass(hint, tuple)):
            assert np.dtype(scalar_of(hint)).kind in "biuf"


def test_array_of_another_type_is_refused() -> None:
    good = Strings.of(["a"])
    check_types(good)
    with pytest.raises(ArrayError, match="'start' has the type int32"):
        check_types(good._replace(start=good.start.astype(np.int32)))
