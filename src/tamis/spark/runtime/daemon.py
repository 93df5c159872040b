"""The process that Spark forks its Python workers from, with Tamis loaded once for all.

Spark runs ``python -m`` this module if ``spark.python.daemon.module`` names it. No worker then
spends a second on imports.
"""

from __future__ import annotations

import pyspark.daemon

import tamis.spark.match.worker  # noqa: F401  all workers inherit it

if __name__ == "__main__":
    pyspark.daemon.manager()
