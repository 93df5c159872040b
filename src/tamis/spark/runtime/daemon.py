"""What Spark starts its Python workers from, with Tamis loaded once for all of them.

Spark runs ``python -m`` this module if ``spark.python.daemon.module`` names it. Workers are forked
from it, so none of them spends a second on imports.
"""

from __future__ import annotations

import pyspark.daemon

import tamis.spark.match.worker  # noqa: F401  is there in all workers then

if __name__ == "__main__":
    pyspark.daemon.manager()
