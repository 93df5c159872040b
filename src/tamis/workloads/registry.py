"""The workloads by name, built from parameters given as texts, as on a command line."""

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
    """Build the workload `name`; parameters that are not given have their defaults.

    Raises
    ------
    ValueError
        The workload or a parameter is unknown, or a value is invalid.
    """
    if name not in WORKLOADS:
        raise ValueError(f"{name!r} is not one of {', '.join(WORKLOADS)}")
    kind = WORKLOADS[name]
    types = get_type_hints(kind)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # all are dataclasses
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
    return kind(**{k: _convert(k, text, types[k]) for k, text in parameters.items()})


def _convert(parameter: str, text: str, kind: object) -> object:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{parameter} cannot be {text!r}: {error}") from None
