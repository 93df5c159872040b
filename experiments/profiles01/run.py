"""All figures and the page about them: docs/experiments/profiles01.md.

Usage: python -m experiments.profiles01.run [--quick] [--most N] [--events N] [--page-only]
"""

from __future__ import annotations

from experiments.paper.figure import run_all
from experiments.profiles01 import figure7, figure8, joins, phases, scale, table1
from experiments.profiles01.page import PAGE, PAPER

ORDER = (table1, figure7, figure8, scale, joins, phases)

if __name__ == "__main__":
    run_all([module.make for module in ORDER], PAPER, PAGE.text)
