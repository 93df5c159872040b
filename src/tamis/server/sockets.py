"""WebSockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.server.app import Server

__all__ = ["serve_socket"]


async def serve_socket(_server: Server, _scope: Any, _receive: Any, send: Any) -> None:
    """Refuse."""
    await send({"type": "websocket.close", "code": 1008})
