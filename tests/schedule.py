"""Divides the tests among the processes of pytest-xdist.

The tests of a file run in one process, because they share fixtures. Tests on Spark run in one
process where they share a session, which takes many seconds to start and to get fast; those that
start a Spark of their own may run beside it, but those with a Connect server one after the other,
because there is one port for it. The tests of the site share its build. Benchmarks share nothing,
so each of them may run anywhere, and experiments share what one paper needs. What takes longest
begins first: a long file that begins last would keep one process busy while the others have ended.
Only tests that need no kernels come before: in a clean clone, the session of Spark compiles many at
its beginning, and others that need the same ones would wait.
"""

from __future__ import annotations

from typing import Any, Final

from xdist.scheduler import LoadFileScheduling

__all__ = ["LongestFirst"]

_SESSION: Final = "session of Spark"
_CONNECT: Final = "servers of Spark Connect"
_SITE: Final = "site of the docs"

_OWN_SPARK: Final = {
    "tests/spark/documents/test_killed_streams.py": "killed streams",
    "tests/spark/stream/test_killed_kafka_streams.py": "killed jobs over Kafka",
    "tests/spark/test_cluster.py": "dying worker",
    "tests/spark/index/test_connect.py": _CONNECT,
    "tests/spark/match/test_clusters.py": _CONNECT,
    "tests/spark/test_declarative.py": _CONNECT,
}
"""The files whose tests start a Spark of their own, and what each of them runs with."""

_LONGEST: Final = (
    _SESSION,
    "tests/expr",
    "tests/engines/test_kernels.py",
    _CONNECT,
    "killed streams",
    "killed jobs over Kafka",
    "dying worker",
    "tests/test_benchmarks.py",
    "tests/test_experiments.py",
    "tests/contract",
    "tests/attack",
    "tests/matcher/storage",
    "tests/encode/compiler",
    "tests/repo/test_wheel.py",
    "tests/cli",
    "tests/repo/test_docs.py",
    _SITE,
)
"""What takes long, the longest first, and tests without kernels, which come before most of it. The
others follow, files with many tests first."""


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Assigns files to processes, those that take longest first."""

    def _split_scope(self, nodeid: str) -> str:
        """The name of what has to run in one process with this test."""
        file: str = super()._split_scope(nodeid)
        if file in _OWN_SPARK:
            return _OWN_SPARK[file]
        if file.startswith("tests/spark/"):
            return _SESSION
        if file.startswith("tests/repo/site/"):
            return _SITE
        if file == "tests/test_experiments.py":
            # The name ends with the paper and the figure.
            return f"{file}[{nodeid.partition('[')[2].rstrip(']').partition('-')[0]}]"
        return nodeid if file == "tests/test_benchmarks.py" else file

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
