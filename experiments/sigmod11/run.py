"""All figures and the page about them: docs/experiments/sigmod11.md.

Usage: python -m experiments.sigmod11.run [--quick] [--rules N] [--most N] [--events N]
       [--page-only]
"""

from __future__ import annotations

from experiments.paper.figure import run_all
from experiments.sigmod11 import (
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    figure8c,
    figure9,
    figure10,
    figure11,
    figure12,
    figure13,
    table5,
)
from experiments.sigmod11.page import PAGE, PAPER

ORDER = (
    table5,
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    figure8c,
    figure9,
    figure10,
    figure11,
    figure12,
    figure13,
)

if __name__ == "__main__":
    run_all([module.make for module in ORDER], PAPER, PAGE.text)
