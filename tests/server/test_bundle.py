"""The page's bundle is small, and is what its sources give."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

import tamis.server

ROOT = Path(__file__).resolve().parent.parent.parent
BUNDLE = Path(tamis.server.__file__).parent / "pages" / "workbench"
BUILT = ("app.js", "app.css", "notices.txt")
MOST_BYTES = 250_000


def test_the_bundle_is_small() -> None:
    sizes = [len(gzip.compress((BUNDLE / name).read_bytes(), 9)) for name in BUILT[:2]]
    assert 0 < sum(sizes) < MOST_BYTES


def test_every_package_in_it_has_its_licence() -> None:
    notices = (BUNDLE / "notices.txt").read_text()
    for name in ("preact", "htm", "@preact/signals", "@codemirror/view", "uplot"):
        assert f"{name} " in notices
    assert notices.count("Permission is hereby granted") >= 5


def test_the_bundle_is_what_the_sources_give(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no Node")
    folder = tmp_path / "web"
    shutil.copytree(ROOT / "web", folder, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    installed = subprocess.run(
        install, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    if installed.returncode:
        pytest.skip(f"npm cannot install the packages: {installed.stderr[-300:]}")
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["node", "build.mjs", str(out)], cwd=folder, check=True, timeout=120)
    for name in BUILT:
        assert (out / name).read_bytes() == (BUNDLE / name).read_bytes(), f"run make page: {name}"
