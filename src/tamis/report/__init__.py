"""A report about matches: one self-contained HTML page with plots and tables.

The page shows a few small numbers (:class:`Figures`), which any program can count.
`tamis.spark.report` counts them on Spark.
"""

from tamis.report.figures import BusyRule, Distribution, Figures, SilentRule
from tamis.report.page import check_plots, page

__all__ = ["BusyRule", "Distribution", "Figures", "SilentRule", "check_plots", "page"]
