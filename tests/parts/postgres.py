"""A real PostgreSQL server, for tests. It refuses to run as root, so it then runs as `postgres`."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest

from tests.parts.jars import POSTGRES_DRIVER

USER, PASSWORD = "tamis", "open sesame"


class Postgres(NamedTuple):
    """A running server."""

    url: str
    """The address for JDBC."""
    programs: Path
    port: int

    def run(self, sql: str) -> None:
        """Run statements."""
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        subprocess.run(
            [self.programs / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *address],
            input=sql,
            text=True,
            check=True,
            capture_output=True,
            env={**os.environ, "PGPASSWORD": PASSWORD},
        )


@contextmanager
def start_postgres() -> Iterator[Postgres]:
    """Start a server; skips the test if there is none, or no driver for Spark."""
    programs = _find_programs()
    # Not a folder of pytest, which only its own user may enter.
    folder = Path(mkdtemp(prefix="tamis-postgres-"))
    as_user = _choose_user(folder)
    port = _free_port()
    try:
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        create: list[str | Path] = [
            programs / "initdb",
            "-D",
            folder / "data",
            "-U",
            USER,
            "-A",
            "scram-sha-256",
        ]
        _run([*as_user, *create, "--pwfile", password, "-E", "UTF8", "--no-sync"])
        control: list[str | Path] = [*as_user, programs / "pg_ctl", "-D", folder / "data", "-w"]
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        _run([*control, "-l", folder / "data" / "server.log", "-o", options, "start"])
        try:
            yield Postgres(f"jdbc:postgresql://127.0.0.1:{port}/postgres", programs, port)
        finally:
            _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _find_programs() -> Path:
    """The folder of the server's programs; Debian keeps them away from PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not installed or not POSTGRES_DRIVER.exists():
        pytest.skip("PostgreSQL or its JDBC driver is not here; `bash scripts/install-parts`")
    return installed[-1].parent


def _choose_user(folder: Path) -> list[str]:
    """How to run a program as a user that PostgreSQL accepts; `folder` becomes that user's."""
    if os.getuid() != 0:
        return []
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names.get("nobody")
    if user is None or shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no other user for it")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _run(command: list[str | Path]) -> None:
    # The server inherits the streams and would keep a pipe open.
    with Path(os.devnull).open("r+b") as nothing:
        subprocess.run(command, check=True, stdin=nothing, stdout=nothing, stderr=nothing, cwd="/")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
