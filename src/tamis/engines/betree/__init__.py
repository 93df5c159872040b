"""The BE-Tree: a tree over conjunctions that splits by attribute and by value alternately."""

from tamis.engines.betree.tree import BeTree

__all__ = ["BeTree"]
