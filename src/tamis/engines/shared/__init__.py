"""The engine for rules that share their predicates; `engine.py` explains how it works."""

from tamis.engines.shared.engine import Shared

__all__ = ["Shared"]
