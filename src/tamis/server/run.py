"""Runs the server: binds the address, serves, and stops in good order."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any, Final

import uvicorn

from tamis.errors import TamisError
from tamis.files.unprintable import PrintableFormatter
from tamis.server.app import App, Server
from tamis.server.keys import KeyFile
from tamis.server.protocol import make_protocol
from tamis.server.settings import ServerSettings

__all__ = ["Runner", "ServerError", "make_runner", "run"]


_CLOSING_SECONDS: Final = 5.0
"""How long it may take to close collections after requests were drained."""


class ServerError(TamisError):
    """The server cannot start."""


def run(settings: ServerSettings) -> None:
    """Serve until the process gets SIGINT or SIGTERM.

    Raises
    ------
    ServerError
        The address is open to other machines and there are no keys, or it cannot be bound.
    """
    runner = make_runner(settings)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter())
    logging.getLogger("tamis").addHandler(handler)
    runner.tamis.owns_process = True
    # The event loop waits this long for a thread that computes; Python's default is 5 ms.
    sys.setswitchinterval(0.001)
    runner.run()
    if not runner.started:
        raise ServerError(f"the server could not start on {settings.host}:{settings.port}")


def make_runner(settings: ServerSettings) -> Runner:
    """Make what runs the server, without starting it.

    Raises
    ------
    ServerError
        The address is open to other machines and there are no keys.
    """
    _check(settings)
    server, limits = Server(settings), settings.limits
    config = uvicorn.Config(
        App(server),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=make_protocol(limits.header, limits.arrival),
        ws="websockets-sansio",
        ws_max_size=limits.body,
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=True,
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.drain_seconds),
        backlog=2048,
    )
    return Runner(config, server)


class Runner(uvicorn.Server):
    """Ends streams as soon as it is told to stop: they would keep it waiting."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self.tamis = server
        self.port = config.port

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Open everything, bind the address, and say so."""
        await super().startup(sockets)
        if self.started:
            settings = self.tamis.settings
            self.port = self.servers[0].sockets[0].getsockname()[1]
            self.tamis.log.event(
                "serving",
                url=f"http://{settings.host}:{self.port}",
                folder=str(settings.folder),
                read_only=settings.read_only,
                keys=settings.needs_keys,
                collections=len(self.tamis.catalog.list()),
            )

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """End streams, and wait for the requests that run."""
        if self.tamis.owns_process:
            self._end_in_time()
        self.tamis.streams.end()
        await super().shutdown(sockets)
        self.tamis.log.event("stopped")

    def _end_in_time(self) -> None:
        """Have the process end even if a thread does not: a step of an analysis may be long.

        What was acknowledged is on the disk, so this loses no more than a kill does.
        """
        seconds = self.tamis.settings.drain_seconds + _CLOSING_SECONDS

        def end() -> None:
            self.tamis.log.event("stopped", left_running=True)
            self.tamis.log.flush()
            os._exit(1)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()


def _check(settings: ServerSettings) -> None:
    if settings.read_only and not settings.folder.is_dir():
        raise ServerError(f"{settings.folder}: there is no such directory to follow")
    if not settings.is_loopback and settings.keys is False:
        raise ServerError(
            f"other machines can reach {settings.host}, so requests need keys; drop --no-keys, or "
            "bind 127.0.0.1"
        )
    if settings.needs_keys and not KeyFile(settings.folder).list():
        raise ServerError(
            f"{settings.folder} has no keys, and requests need one; make the first with "
            f"tamis keys create {settings.folder} --right admin"
        )
