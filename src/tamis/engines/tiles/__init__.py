"""The default engine; `engine.py` explains how it works and where its parts are."""

from tamis.engines.tiles.engine import Tiles

__all__ = ["Tiles"]
