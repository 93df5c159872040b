"""The table of the API: every operation, by noun. Routes and documentation come from it."""

from __future__ import annotations

from tamis.server.routes import (
    care,
    collections,
    live,
    publish,
    questions,
    rules,
    subscriptions,
    system,
    workbench,
)

__all__ = ["OPERATIONS"]

OPERATIONS = (
    *system.OPERATIONS,
    *collections.OPERATIONS,
    *rules.OPERATIONS,
    *questions.OPERATIONS,
    *publish.OPERATIONS,
    *subscriptions.OPERATIONS,
    *care.OPERATIONS,
    *live.OPERATIONS,
    *workbench.OPERATIONS,
)
