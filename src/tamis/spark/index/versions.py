"""Look up the versions of a published index; `tamis.matcher.published.versions` reads them."""

from __future__ import annotations

from tamis.matcher.published.versions import current, version, versions

__all__ = ["current", "version", "versions"]
