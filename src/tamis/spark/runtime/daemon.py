"""The process that Spark forks its Python workers from, with Tamis loaded once for all.

Spark runs ``python -m`` this module if ``spark.python.daemon.module`` names it. No worker then
spends a second on imports.
"""

from __future__ import annotations

import pyspark.daemon

import tamis.spark.match.worker  # noqa: F401  all workers inherit it
from tamis.engines.registry import load_engine

if __name__ == "__main__":
    # Engines load when they are first used, which would be once in every worker.
    load_engine("auto")
    pyspark.daemon.manager()
