"""A report about matches: one self-contained HTML page with plots and tables.

The page shows a few small numbers (:class:`Figures`), which any program can count.
`tamis.spark.report` counts them on Spark.
"""

from tamis.report.figures import BusyRule, Distribution, Figures, SilentRule
from tamis.report.page import check_plots, page
from tamis.report.story import Baseline, Costs, Example, Overlap, SlowRule, Story, summarize

__all__ = [
    "Baseline",
    "BusyRule",
    "Costs",
    "Distribution",
    "Example",
    "Figures",
    "Overlap",
    "SilentRule",
    "SlowRule",
    "Story",
    "check_plots",
    "page",
    "summarize",
]
