"""The workloads by name, made of parameters that are texts, as a shell gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final, get_type_hints

import msgspec

from tamis.workloads import ads, begen, nested, qgrams
from tamis.workloads.base import ChunkedWorkload

__all__ = ["WORKLOADS", "make_workload"]

WORKLOADS: Final[dict[str, type[ChunkedWorkload]]] = {
    "ads": ads.Workload,
    "begen": begen.Workload,
    "nested": nested.Workload,
    "qgrams": qgrams.Workload,
}


def make_workload(name: str, parameters: Mapping[str, str]) -> ChunkedWorkload:
    """The workload `name`; parameters that are not given have their defaults.

    Raises
    ------
    ValueError
        There is no such workload or parameter, or a parameter is not what it can be.
    """
    if name not in WORKLOADS:
        raise ValueError(f"{name!r} is not one of {', '.join(WORKLOADS)}")
    kind = WORKLOADS[name]
    types = get_type_hints(kind)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # all are dataclasses
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
    return kind(**{k: _read(k, text, types[k]) for k, text in parameters.items()})


def _read(parameter: str, text: str, kind: object) -> object:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{parameter} cannot be {text!r}: {error}") from None
