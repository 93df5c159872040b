"""Prints the figures of a benchmark as a table, and saves them with a note on the machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Compiled kernels are measured, not what runs until they are compiled.
os.environ.setdefault("TAMIS_KERNELS", "wait")

RESULTS = Path(__file__).resolve().parent / "results"

Row = dict[str, Any]


def describe_machine() -> Row:
    """Describe the machine that the figures were measured on."""
    return {
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("numba", "numpy", "pyarrow")},
    }


def show(title: str, rows: Sequence[Row]) -> None:
    """Print rows as a table whose columns are the keys of the first row."""
    columns = list(rows[0])
    cells = [columns, *([_cell(row[column]) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for line in cells:
        print("  " + "  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)).rstrip())


def save(name: str, figures: Row, folder: Path) -> Path:
    """Write the figures to a new file in the folder of all runs."""
    now = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{now:%Y%m%d-%H%M%S}.json"
    content = {
        "measured_at": now.isoformat(timespec="seconds"),
        "machine": describe_machine(),
        **figures,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"\nWritten to {path}")
    return path


def resident_bytes() -> int:
    """The resident memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
