"""All figures and the page about them: docs/experiments/vldb09.md.

Usage: python -m experiments.vldb09.run [--quick] [--rules N] [--most N] [--events N]
"""

from __future__ import annotations

from experiments.paper.figure import run_all
from experiments.vldb09 import (
    construction,
    figure14,
    figure15,
    figure16,
    figure17,
    figure18,
    figure19,
)
from experiments.vldb09.page import PAGE, PAPER

# What one of them leaves encoded or measured, the next one begins with.
ORDER = (figure15, figure16, figure14, figure17, construction, figure18, figure19)

if __name__ == "__main__":
    run_all([module.make for module in ORDER], PAPER, PAGE.text)
