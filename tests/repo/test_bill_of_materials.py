"""A wheel says which packages Tamis runs with."""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
import zipfile
from pathlib import Path

from scripts.bill_of_materials import ROOT, add_to_wheel, find_scopes, make_bill, read_lock

LOCK = """\
numpy==2.0.1 \\
    --hash=sha256:00 \\
    --hash=sha256:01
    # via
    #   tamis (pyproject.toml)
    #   pyarrow
pyarrow==17.0 ; python_version >= '3.11' \\
    --hash=sha256:02
    # via tamis (pyproject.toml)
py4j==0.10 \\
    --hash=sha256:03
    # via pyspark
pyspark==4.1 \\
    --hash=sha256:04
    # via tamis (pyproject.toml)
pytest==8.3 \\
    --hash=sha256:05
    # via tamis (pyproject.toml)
"""
PROJECT = {
    "dependencies": ["pyarrow>=17"],
    "optional-dependencies": {"spark": ["pyspark>=4.1"], "dev": ["tamis[spark]", "pytest>=8.3"]},
}


def test_scopes_follow_the_lock() -> None:
    scopes = find_scopes(PROJECT, read_lock(LOCK))
    required = dict.fromkeys(("pyarrow", "numpy"), "required")
    assert scopes == required | dict.fromkeys(("pyspark", "py4j"), "optional")


def test_the_bill_of_tamis_names_what_it_runs_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    bill = make_bill(project, "1.0", read_lock((ROOT / "requirements.lock").read_text("utf-8")))
    scopes = {component["name"]: component["scope"] for component in bill["components"]}
    assert scopes["numpy"] == scopes["llvmlite"] == "required"
    assert scopes["pyspark"] == scopes["diskcache"] == "optional"
    assert "pytest" not in scopes
    graph = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    (numba,) = [ref for ref in graph if ref.startswith("pkg:pypi/numba@")]
    assert numba in graph["pkg:pypi/tamis@1.0"]
    assert any(ref.startswith("pkg:pypi/llvmlite@") for ref in graph[numba])


def test_a_wheel_has_the_bill_and_records_it(tmp_path: Path) -> None:
    wheel = tmp_path / "tamis-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tamis/__init__.py", "")
        file.writestr(
            "tamis-1.0.dist-info/RECORD", "tamis/__init__.py,,\ntamis-1.0.dist-info/RECORD,,\n"
        )
    bill = make_bill(PROJECT, "1.0", read_lock(LOCK))
    for _ in range(2):
        add_to_wheel(wheel, bill)
    with zipfile.ZipFile(wheel) as file:
        assert file.testzip() is None
        name = "tamis-1.0.dist-info/sboms/tamis.cdx.json"
        assert sorted(file.namelist()) == sorted(
            ["tamis/__init__.py", "tamis-1.0.dist-info/RECORD", name]
        )
        content = file.read(name)
        assert json.loads(content) == bill
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record = file.read("tamis-1.0.dist-info/RECORD").decode().splitlines()
    assert record.count(f"{name},sha256={digest},{len(content)}") == 1
    assert record[-1] == "tamis-1.0.dist-info/RECORD,,"
