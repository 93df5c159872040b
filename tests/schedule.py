"""Divides the tests among the processes of pytest-xdist.

The tests of a file run in one process, because they share fixtures. All tests on Spark run in one,
because they share a session, which takes many seconds to start and to get fast. Benchmarks and
experiments share nothing, so each of them may run anywhere. What takes longest begins first: a
long file that begins last would keep one process busy while the others have ended.
"""

from __future__ import annotations

from typing import Any, Final

from xdist.scheduler import LoadFileScheduling

__all__ = ["LongestFirst"]

_SPARK: Final = "tests/spark"

_INDEPENDENT: Final = ("tests/test_benchmarks.py", "tests/test_experiments.py")
"""Files whose tests have no fixture in common."""

_LONGEST: Final = (
    _SPARK,
    "tests/engines/test_kernels.py",
    "tests/test_benchmarks.py",
    "tests/test_experiments.py",
    "tests/contract",
    "tests/attack",
    "tests/matcher/storage",
    "tests/encode/compiler",
    "tests/test_wheel.py",
    "tests/cli",
    "tests/test_docs.py",
)
"""Where tests take long, the longest first. The others follow, files with many tests first."""


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Assigns files to processes, those that take longest first."""

    def _split_scope(self, nodeid: str) -> str:
        """The name of what has to run in one process with this test."""
        file: str = super()._split_scope(nodeid)
        if file.startswith(f"{_SPARK}/"):
            return _SPARK
        return nodeid if file in _INDEPENDENT else file

    def _assign_work_unit(self, node: Any) -> None:
        """Give a process the tests that take longest of those that are left."""
        self.workqueue.move_to_end(min(self.workqueue, key=_rank), last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    """The place of a scope in the order; of equal ones the first in the queue counts."""
    for rank, place in enumerate(_LONGEST):
        if scope.startswith(place):
            return rank
    return len(_LONGEST)
