"""All figures and the page about them: docs/experiments/vldb09.md.

Usage: python -m experiments.vldb09.run [--quick] [--rules N] [--most N] [--events N] [--page-only]
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

# In this order, a figure can reuse the encoded rules or the measurements of the one before.
ORDER = (figure15, figure16, figure14, figure17, construction, figure18, figure19)

if __name__ == "__main__":
    run_all([module.make for module in ORDER], PAPER, PAGE.text)
