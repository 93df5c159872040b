"""The process in which atheris fuzzes one target; it never returns.

Usage: python -m attack.fuzz_process TARGET [OPTIONS OF LIBFUZZER] FOLDER
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Final

import atheris

INSTRUMENTED: Final = ("tamis.expr", "tamis.files", "tamis.importers", "tamis.matcher.storage")
"""What reads input. Kernels are left as they are: Numba compiles them from their bytecode."""


def list_other_modules() -> list[str]:
    """The modules of Tamis that are not instrumented: atheris knows whole packages only."""
    found = importlib.util.find_spec("tamis")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent
    paths = (path.relative_to(folder.parent).with_suffix("") for path in folder.rglob("*.py"))
    names = (".".join(path.parts).removesuffix(".__init__") for path in paths)
    return [name for name in names if not name.startswith(INSTRUMENTED)]


def main() -> None:
    """Fuzz a target for as long as the options say."""
    os.environ.setdefault("TAMIS_KERNELS", "wait")
    with atheris.instrument_imports(include=["tamis"], exclude=list_other_modules()):
        import tamis
        from attack.fuzz_targets import SEEDS, TARGETS
    target = TARGETS[sys.argv[1]]

    def test_one(data: bytes) -> None:
        try:
            target(data)
        except tamis.TamisError:
            return

    # The first calls compile kernels, which would count as slow inputs.
    for data in SEEDS[sys.argv[1]]:
        test_one(data)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
