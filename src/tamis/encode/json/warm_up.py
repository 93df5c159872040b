"""Whether the kernels that read JSON are compiled.

As plain Python they take longer than a JSON decoder and the encoder of mappings, so there is no
point in calling them before. Loading them takes as long as decoding some hundred texts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.encode.dictionary import Dictionary
from tamis.encode.hashes import read_only
from tamis.encode.json import read, tables
from tamis.encode.json.reader import read_texts
from tamis.encode.json.texts import JsonTexts
from tamis.expr.model import Op, Predicate

__all__ = ["are_worth_it", "is_compiled"]

_KERNELS: Final = (read.read_rows, tables._file_paths, tables._file_strings)

_LEAST = 1024
_LEAST_LOADED = 1
"""Fewer texts are read without kernels: before these are loaded, and since."""

_known = False


def are_worth_it(texts: int) -> bool:
    """Whether to read so many texts by kernels."""
    return texts >= (_LEAST_LOADED if _known else _LEAST) and is_compiled()


def is_compiled() -> bool:
    """Whether all kernels have machine code. If not, they are compiled in the background."""
    global _known
    if not _known:
        _call_kernels()
        # A kernel that runs as plain Python has no compiled version.
        _known = all(getattr(kernel, "overloads", None) for kernel in _KERNELS)
    return _known


def _call_kernels() -> None:
    """Call every kernel once, with the types of arguments that the encoder has."""
    dictionary = Dictionary.of([Predicate("a", Op.EQ, ("x",)), Predicate("a", Op.EQ, (1,))])
    data = read_only(np.frombuffer(b'{"a": ["x", 1]}', np.uint8))
    texts = JsonTexts(data, np.zeros(1, np.int64), np.full(1, len(data)))
    read_texts(tables.build_tables(dictionary, ()), texts)
