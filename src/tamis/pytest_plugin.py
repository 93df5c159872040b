"""Run the tests that rules carry under pytest: ``pytest -p tamis.pytest_plugin rules.jsonl``.

Each rule with tests is one test of pytest. Name the files as arguments, or as patterns in the
option ``tamis_rules`` of pytest's configuration::

    [tool.pytest.ini_options]
    addopts = "-p tamis.pytest_plugin"
    tamis_rules = ["rules/*.jsonl"]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tamis

__all__ = ["RuleFile", "RuleItem"]


class RuleFailureError(Exception):
    """A rule does not match what it must, or matches what it must not."""


class RuleItem(pytest.Item):
    """The tests of one rule."""

    def __init__(self, *, matcher: tamis.Matcher, rule: tamis.Rule, **options: Any) -> None:
        super().__init__(**options)
        self._matcher, self._rule = matcher, rule

    def runtest(self) -> None:
        """Run the tests of the rule."""
        report = self._matcher.test(only=[self._rule.id])
        if report.failures:
            raise RuleFailureError("\n".join(map(str, report.failures)))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Show the rule's tree in place of a traceback."""
        if isinstance(excinfo.value, RuleFailureError):
            return f"{self._rule.text}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the file and the rule."""
        return self.path, None, f"rule {self._rule.id}"


class RuleFile(pytest.File):
    """A file of rules."""

    def collect(self) -> Iterator[RuleItem]:
        """Find the rules that have tests."""
        from tamis.files.rule_reader import load_rules
        from tamis.matcher.analysis.rule_tests import TESTS

        matcher = tamis.Matcher()
        load_rules(matcher, str(self.path))
        for id in matcher:
            rule = matcher.rule(id)
            if isinstance(rule.payload, dict) and TESTS in rule.payload:
                yield RuleItem.from_parent(self, name=str(id), matcher=matcher, rule=rule)


def pytest_addoption(parser: Any) -> None:
    """Add the option that names files of rules."""
    parser.addini("tamis_rules", "patterns of files of rules that carry tests", "args", [])


def pytest_collect_file(file_path: Path, parent: Any) -> RuleFile | None:
    """Collect files of rules that are named as arguments or by patterns."""
    if file_path.suffix not in (".jsonl", ".ndjson", ".csv", ".parquet"):
        return None
    config = parent.config
    is_argument = any(Path(arg.split("::")[0]).resolve() == file_path for arg in config.args)
    relative = (
        file_path.relative_to(config.rootpath)
        if file_path.is_relative_to(config.rootpath)
        else file_path
    )
    if is_argument or any(relative.match(pattern) for pattern in config.getini("tamis_rules")):
        return RuleFile.from_parent(parent, path=file_path)
    return None
