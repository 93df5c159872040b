"""What a release consists of: one version, a changelog, metadata, a container file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import tamis
from scripts.build_wheel import copy_tree

ROOT = Path(__file__).resolve().parents[2]


def read_containerfile() -> list[tuple[str, str]]:
    """The instructions and what follows each of them."""
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_version_stands_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", tamis.__version__)
    project = (ROOT / "pyproject.toml").read_text()
    assert 'version = { attr = "tamis.__version__" }' in project
    assert not re.search(r'^version = "', project, re.MULTILINE)


def test_the_changelog_begins_with_what_is_not_released_and_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    version, date = headings[1]
    assert version == tamis.__version__
    assert re.fullmatch(r" - \d{4}-\d{2}-\d{2}", date)


def test_the_metadata_of_a_wheel_is_complete(tmp_path: Path) -> None:
    """The description can be shown by an index of packages; kernels do not matter here."""
    tree = copy_tree(tmp_path / "tree")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--no-index", "-w", str(tmp_path), str(tree)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    check = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert wheel.name.startswith(f"tamis-{tamis.__version__}-")


def test_the_container_file_installs_and_serves(tmp_path: Path) -> None:
    """No engine of containers runs here, so its own commands run without one."""
    steps = read_containerfile()
    words = [word for word, _ in steps]
    assert words[0] == "FROM"
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert [rest for word, rest in steps if word == "USER"] == ["tamis"]
    assert ("VOLUME", "/data") in steps
    (copied,) = [rest for word, rest in steps if word == "COPY"]
    assert copied == "dist/tamis-*.whl /tmp/"  # where `make wheel` writes
    runs = [rest for word, rest in steps if word == "RUN"]
    assert any("[server]" in rest for rest in runs)
    assert "tamis warmup" in runs
    (entry,) = [json.loads(rest) for word, rest in steps if word == "ENTRYPOINT"]
    (options,) = [json.loads(rest) for word, rest in steps if word == "CMD"]
    assert entry[:3] == ["tamis", "serve", "/data"]
    (health,) = [json.loads(rest.removeprefix("CMD ")) for w, rest in steps if w == "HEALTHCHECK"]
    port = 18_080
    tamis_command = [sys.executable, "-m", "tamis"]
    create_key = [*tamis_command, "keys", "create", str(tmp_path), "--right", "admin"]
    subprocess.run(create_key, check=True, capture_output=True)
    command = [*tamis_command, "serve", str(tmp_path), *entry[3:], *options]
    server = subprocess.Popen([*command, "--port", str(port)], stdout=-3, stderr=-3)
    try:
        address = f"http://127.0.0.1:{port}/v1/collections"
        assert wait_for_status(address) == 401  # from elsewhere, a key is needed
        check = health[2].replace("8080", str(port))
        subprocess.run([sys.executable, "-c", check], check=True, timeout=60)
    finally:
        server.terminate()
        server.wait()


def wait_for_status(address: str) -> int:
    """The status of an address, once somebody answers there."""
    for _ in range(300):
        try:
            with urllib.request.urlopen(address) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the server does not answer")
