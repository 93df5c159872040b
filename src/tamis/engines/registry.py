"""All engines by name.

To add an engine, add a line here: it then joins the contract suite. An engine's module is imported
when the engine is first loaded by name, so the engines of papers cost nothing until then.
"""

from __future__ import annotations

from importlib import import_module

from tamis.engines.base import Engine
from tamis.errors import UnknownEngineError

__all__ = ["DEFAULT_ENGINE", "ENGINES", "load_engine"]

DEFAULT_ENGINE = "tiles"
"""The engine that ``"auto"`` stands for; see docs/decisions/0007."""

ENGINES: dict[str, str] = {
    "scan": "tamis.engines.scan:Scan",
    "pscan": "tamis.engines.papers.pscan:PScan",
    "sift": "tamis.engines.papers.sift:Sift",
    "propagation": "tamis.engines.papers.propagation:Propagation",
    "keyed": "tamis.engines.papers.keyed:Keyed",
    "kindex": "tamis.engines.papers.kindex.dnf:KIndex",
    "kindex-cnf": "tamis.engines.papers.kindex.cnf:KIndexCnf",
    "gryphon": "tamis.engines.papers.gryphon:Gryphon",
    "betree": "tamis.engines.papers.betree.engine:Betree",
    "betree-batch": "tamis.engines.papers.betree.engine:BetreeBatch",
    "cluster": "tamis.engines.papers.intervals.engine:ClusterIndex",
    "interval": "tamis.engines.papers.intervals.engine:IntervalIndex",
    "hybrid": "tamis.engines.papers.intervals.engine:HybridIndex",
    "segment": "tamis.engines.papers.intervals.engine:SegmentTree",
    "interval-tree": "tamis.engines.papers.intervals.engine:IntervalTree",
    "naive": "tamis.engines.papers.intervals.engine:Naive",
    "lazy": "tamis.engines.papers.intervals.engine:Lazy",
    "shared": "tamis.engines.shared.engine:Shared",
    "tiles": "tamis.engines.tiles.engine:Tiles",
}
"""The module and the class of each engine. `tiles`, `shared` and `scan` are the product's own."""


def load_engine(name: str) -> type[Engine]:
    """Import the engine called `name`; ``"auto"`` stands for the default engine.

    Raises
    ------
    UnknownEngineError
        There is no engine of that name.
    """
    known = {"auto": ENGINES[DEFAULT_ENGINE], **ENGINES}
    if not isinstance(name, str) or name not in known:
        hint = "" if isinstance(name, str) else ". Matcher.add and Matcher.add_many add rules"
        raise UnknownEngineError(
            f"unknown engine {name!r}; expected one of {', '.join(known)}{hint}"
        )
    module, _, engine = known[name].partition(":")
    found: type[Engine] = getattr(import_module(module), engine)
    return found
