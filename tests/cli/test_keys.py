"""`tamis keys`: create, list, revoke."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tamis.cli import app
from tamis.server.keys import KeyFile
from tests.cli.command import run


def call(*arguments: str, code: int = 0) -> str:
    """Run the command, and return all that it prints."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout + result.stderr


def test_a_key_is_created_listed_and_revoked(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    printed = call(
        "keys", "create", folder, "--right", "read", "--right", "publish", "--name", "ci"
    )
    token = next(line for line in printed.splitlines() if line.startswith("tamis_"))
    key = KeyFile(Path(folder)).find(token)
    assert key is not None
    assert (key.rights, key.collections, key.expires) == (("read", "publish"), ("*",), None)
    listed = run("keys", "list", folder)
    assert key.id in listed
    assert token not in listed
    run("keys", "revoke", folder, key.id)
    assert KeyFile(Path(folder)).find(token) is None


def test_a_key_may_be_narrow_and_expire(tmp_path: Path) -> None:
    call("keys", "create", str(tmp_path), "--right", "write", "--collection", "a", "--days", "1")
    (key,) = KeyFile(tmp_path).list()
    assert key.expires is not None
    assert key.allows("write", "a")
    assert not key.allows("write", "b")
    assert not key.allows("read", "a")


def test_wrong_use_is_explained(tmp_path: Path) -> None:
    assert "read, publish, write, admin" in call(
        "keys", "create", str(tmp_path), "--right", "x", code=2
    )
    assert "there is no key" in call("keys", "revoke", str(tmp_path), "zz", code=1)
    assert "no such directory" in call("serve", str(tmp_path / "absent"), "--read-only", code=1)
    assert "tamis keys create" in call("serve", str(tmp_path), "--host", "0.0.0.0", code=1)
    assert "there is no limit" in call("serve", str(tmp_path), "--limit", "boddy=3", code=2)
