"""The experiments run, and write what they say they do. Figures are not looked at."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments" / "vldb09"

ENGINES = {
    "construction": {"kindex", "kindex-cnf", "propagation", "pscan", "scan", "sift", "tiles"},
    "figure14": {"kindex", "propagation", "scan", "sift", "tiles"},
    "figure15": {"kindex", "propagation", "scan", "sift", "tiles"},
    "figure16": {"kindex", "propagation", "scan", "sift", "tiles"},
    "figure17": {"kindex", "propagation", "scan", "sift", "tiles"},
    "figure18": {"kindex-cnf", "pscan", "scan", "tiles"},
    "figure19": {"kindex", "kindex-cnf", "tiles"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one run of everything has written its numbers, plots and page."""
    made = tmp_path_factory.mktemp("vldb09")
    command = [sys.executable, str(EXPERIMENTS / "run.py"), "--quick", "--rules", "300"]
    command += ["--most", "400"]
    options = ["--results", str(made / "results"), "--plots", str(made / "plots")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("name", ENGINES)
def test_a_figure_is_measured_and_drawn(folder: Path, name: str) -> None:
    saved = json.loads((folder / "results" / f"{name}.json").read_text())
    assert {row["engine"] for row in saved["rows"]} == ENGINES[name]
    assert all(claim["ours"] for claim in saved["claims"])
    with (folder / "results" / f"{name}.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(saved["rows"])
    if name == "construction":
        assert all(row["build_s"] > 0 and row["all_mb"] > 0 for row in saved["rows"])
    else:
        assert all(row["ms"] > 0 and row["events"] > 0 for row in saved["rows"])
        assert "<svg" in (folder / "plots" / f"{name}.svg").read_text()


def test_the_page_shows_every_figure(folder: Path) -> None:
    page = (folder / "plots.md").read_text()
    for name in ENGINES:
        assert name == "construction" or f"(plots/{name}.svg)" in page
    assert "11.2 to 20.9 ×" in page


def test_every_figure_is_run_here() -> None:
    scripts = {path.stem for path in EXPERIMENTS.glob("figure1*.py")} | {"construction"}
    assert scripts == set(ENGINES)
