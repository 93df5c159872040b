"""The demo installs a part of what is locked, in the same versions."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.bill_of_materials import ROOT


def read_versions(name: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^(\S+)==(\S+)", (ROOT / name).read_text("utf-8"), re.MULTILINE))


def test_the_demo_installs_the_versions_of_the_tests() -> None:
    demo = read_versions("requirements-demo.lock")
    assert demo < read_versions("requirements.lock")


def test_the_demo_installs_what_its_extra_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*extras["demo"], *extras["java"], *extras["report"], *extras["spark"]]
    names = {re.split(r"[\[<>=]", need)[0] for need in needed} - {"tamis"}
    assert names <= {name for name, _ in read_versions("requirements-demo.lock")}


REHEARSAL = """
import sys
from tamis.demo.rehearsal import rehearse

rehearse()
from tamis.encode.plain import warm_up
assert warm_up.is_loaded()
assert "pyspark" not in sys.modules
"""


def test_kernels_of_the_demo_are_compiled_without_spark(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", REHEARSAL], check=True, cwd=tmp_path)
