"""The BE-Tree of the paper as engines over a fixed set of rules."""

from tamis.engines.papers.betree.engine import Betree, BetreeBatch

__all__ = ["Betree", "BetreeBatch"]
