"""Encoded rules as named arrays, which can be written to a file and mapped into memory.

Every array has one or two dimensions and a basic numeric type. Unless arrays are checked, restoring
rules reads none of the values that they mention, so it takes as long for a thousand rules as for a
million.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import (
    AtomArrays,
    DictionaryArrays,
    FormArrays,
    ScoreArrays,
    TextArrays,
)
from tamis.encode.check_rules import check_rules
from tamis.encode.checks import check_lengths, check_lists, check_type, refuse
from tamis.encode.dictionary import Dictionary
from tamis.encode.ragged import narrow_starts
from tamis.encode.rules import EncodedRules
from tamis.encode.text_predicates import TextIndex

__all__ = ["from_arrays", "to_arrays"]

_LONG_DECIMALS = tuple(DictionaryArrays._field_defaults)
"""The arrays that are stored only if rules mention long decimals."""
_REQUIRED = tuple(name for name in DictionaryArrays._fields if name not in _LONG_DECIMALS)


def to_arrays(rules: EncodedRules) -> dict[str, NDArray[Any]]:
    """The arrays of `rules` by name, such as ``atoms.table``; nothing is copied."""
    groups: dict[str, tuple[Any, ...]] = {
        "atoms": rules.atoms,
        "forms": rules.forms,
        "scores": rules.scores,
        "dictionary": rules.dictionary.arrays,
        "texts": rules.texts.arrays,
    }
    arrays = {
        f"{group}.{field}": np.atleast_1d(value)
        for group, values in groups.items()
        for field, value in values._asdict().items()  # type: ignore[attr-defined]  # NamedTuples
    }
    if not len(rules.dictionary.arrays.long_place):
        for field in _LONG_DECIMALS:
            del arrays[f"dictionary.{field}"]
    return {"size": np.array([rules.size]), **arrays}


def from_arrays(arrays: Mapping[str, NDArray[Any]], check_size: int | None = None) -> EncodedRules:
    """The rules that `to_arrays` was given. The arrays may be read-only.

    Nothing is copied, except where a file of an older format has wider numbers.

    Parameters
    ----------
    arrays
        The result of `to_arrays`.
    check_size
        The number of rules, to check the arrays against it and against each other; None if they
        are trusted.

    Raises
    ------
    ArrayError
        The arrays contradict each other. One that is missing raises what `arrays` raises.
    """

    def group(name: str, fields: tuple[str, ...]) -> dict[str, Any]:
        return {field: arrays[f"{name}.{field}"] for field in fields}

    scores = group("scores", ScoreArrays._fields)
    scores["depth"] = _read_number(arrays, "scores.depth")
    size = _read_number(arrays, "size")
    rules = (
        AtomArrays(**group("atoms", AtomArrays._fields)),
        _read_forms(group("forms", FormArrays._fields), check_size is not None),
        ScoreArrays(**scores),
    )
    has_longs = "dictionary.long_place" in arrays
    named = group("dictionary", _REQUIRED + (_LONG_DECIMALS if has_longs else ()))
    dictionary = DictionaryArrays(**named)
    texts = TextArrays(**group("texts", TextArrays._fields))
    if check_size is not None:
        if size != check_size:
            refuse("size", f"is {size:,}, not {check_size:,}")
        check_rules(size, *rules, dictionary, texts)
    return EncodedRules(size, *rules, Dictionary(dictionary), TextIndex(texts))


def _read_number(arrays: Mapping[str, NDArray[Any]], name: str) -> int:
    check_type(name, arrays[name], np.int64)
    check_lengths(1, **{name: arrays[name]})
    return int(arrays[name][0])


def _read_forms(fields: dict[str, Any], check: bool) -> FormArrays:
    """The forms; files of formats up to 5 have 64 bits for where conjunctions begin."""
    start = fields["conjunction_start"]
    if start.dtype == np.int64:
        if check:
            # Before they are cut to 32 bits: what is left of a wrong number may look right.
            check_type("conjunction_start", start, np.int64)
            check_lists("conjunction_start", start, len(fields["conjunction_atom"]))
        fields["conjunction_start"] = narrow_starts(start)
    return FormArrays(**fields)
