"""The BE-Tree: a tree over conjunctions that cuts space by attribute and by value in turns."""

from tamis.engines.betree.tree import BeTree

__all__ = ["BeTree"]
