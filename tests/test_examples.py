"""Every program of examples runs, and prints what it is about; the notebooks execute.

The example on Spark runs in tests/spark/test_examples.py, which shares a session.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

PRINTED = {
    "ad_targeting": ["campaign         shown", "lounge              19    114.0 of 120"],
    "brute_force": ["14:54:22  admin-hacker   guessing", "guessing, spraying"],
    "detection": ["193 events, 5 rules, 0 refused", "high    An event log was cleared"],
    "fleet_segments": ["Boeing      198 planes", "'antique' matches only where 'old' does"],
    "flight_alerts": ["930 flights, 11 alerts, 764 matches", "never: blind takeoff, to Mars"],
    "installable": ["18 of 41 packages", "  jq: installed IN ('libjq1')"],
    "webhooks": ["2013-02-08T19:00 snow storm", "168 hours, 11 warnings delivered"],
}
"""For each program, some of what it prints."""


def test_every_program_is_run() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    assert programs == PRINTED.keys() | {"spark_report"}
    assert len(programs) == 8


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_a_program_prints_what_it_is_about(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXAMPLES / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    for part in PRINTED[name]:
        assert part in printed, printed


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("notebooks/*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_executes(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    stored = [cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code"]
    assert any(stored), "a notebook is committed with its outputs"
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    texts = [text_of(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    assert texts == [text_of(outputs) for outputs in stored]


def text_of(outputs: list[nbformat.NotebookNode]) -> str:
    """What a cell shows as text; pictures are left out."""
    return "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for output in outputs
        if "image/png" not in json.dumps(output.get("data", {}))
    )


def test_there_are_two_notebooks() -> None:
    assert len(list(EXAMPLES.glob("notebooks/*.ipynb"))) == 2
