"""Every ``>>>`` example in a docstring of the package runs and prints what it says.

An example that cannot run here (it needs Spark, or a file of the reader's) is marked
``# doctest: +SKIP``; such marks are counted below, so none is added unnoticed.
"""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tamis

SOURCE = Path(__file__).resolve().parents[2] / "src"

SKIPPED = {
    "tamis.client": 1,
    "tamis.client.client": 1,
    "tamis.files": 2,
    "tamis.spark": 3,
    "tamis.spark.deliveries.sinks": 3,
    "tamis.spark.runtime.work": 2,
}
"""How many examples of each module are marked as skipped."""


def modules_with_examples() -> Iterator[str]:
    """The names of the modules whose text contains an example."""
    for path in sorted(SOURCE.rglob("*.py")):
        if ">>> " in path.read_text():
            parts = path.relative_to(SOURCE).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = list(modules_with_examples())


def doctests_of(name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(name)
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


def skipped_examples(name: str) -> int:
    examples = [example for test in doctests_of(name) for example in test.examples]
    return sum(example.options.get(doctest.SKIP, False) for example in examples)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner()
    tests = doctests_of(name)
    for test in tests:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
    # doctest must find every example that the text shows.
    text = Path(str(importlib.import_module(name).__file__)).read_text()
    assert sum(len(test.examples) for test in tests) == text.count(">>> ")


def test_the_skipped_examples_are_known() -> None:
    assert {name: count for name in MODULES if (count := skipped_examples(name))} == SKIPPED


def test_the_package_itself_has_examples() -> None:
    assert tamis.__name__ in MODULES
