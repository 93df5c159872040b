"""The engines by name. A new engine is registered here, and joins the contract suite by that."""

from __future__ import annotations

from tamis.engines.base import Engine
from tamis.engines.papers.betree import Betree, BetreeBatch
from tamis.engines.papers.gryphon import Gryphon
from tamis.engines.papers.intervals import (
    ClusterIndex,
    HybridIndex,
    IntervalIndex,
    IntervalTree,
    Lazy,
    Naive,
    SegmentTree,
)
from tamis.engines.papers.keyed import Keyed
from tamis.engines.papers.kindex import KIndex, KIndexCnf
from tamis.engines.papers.propagation import Propagation
from tamis.engines.papers.pscan import PScan
from tamis.engines.papers.sift import Sift
from tamis.engines.scan import Scan
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
