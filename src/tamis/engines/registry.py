"""The engines by name. A new engine is registered here, and joins the contract suite by that."""

from __future__ import annotations

from tamis.engines.base import Engine
from tamis.engines.betree import Betree, BetreeBatch
from tamis.engines.gryphon import Gryphon
from tamis.engines.intervals import (
    ClusterIndex,
    HybridIndex,
    IntervalIndex,
    IntervalTree,
    Lazy,
    Naive,
    SegmentTree,
)
from tamis.engines.keyed import Keyed
from tamis.engines.kindex import KIndex, KIndexCnf
from tamis.engines.propagation import Propagation
from tamis.engines.pscan import PScan
from tamis.engines.scan import Scan
from tamis.engines.sift import Sift
from tamis.engines.tiles import Tiles
from tamis.errors import UnknownEngineError

__all__ = ["ENGINES", "engine_named"]

_INTERVALS = (ClusterIndex, IntervalIndex, HybridIndex, SegmentTree, IntervalTree, Naive, Lazy)

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        Scan,
        PScan,
        Sift,
        Propagation,
        Keyed,
        KIndex,
        KIndexCnf,
        Gryphon,
        Betree,
        BetreeBatch,
        *_INTERVALS,
        Tiles,
    )
}

_AUTO = Tiles
"""See docs/decisions/0007."""


def engine_named(name: str) -> type[Engine]:
    """The engine called `name`; ``"auto"`` is the one that serves most users best."""
    if name == "auto":
        return _AUTO
    try:
        return ENGINES[name]
    except KeyError:
        known = ", ".join(["auto", *ENGINES])
        raise UnknownEngineError(f"unknown engine {name!r}; expected one of {known}") from None
