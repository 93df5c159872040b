"""The BE-Tree of the paper as an engine over rules that do not change."""

from tamis.engines.papers.betree.engine import Betree, BetreeBatch

__all__ = ["Betree", "BetreeBatch"]
