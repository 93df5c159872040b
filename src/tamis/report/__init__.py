"""A page about matches: plots and tables in one file that needs nothing else.

What is shown is a handful of small numbers (:class:`Figures`); who counted them does not matter.
`tamis.spark.report` counts on Spark.
"""

from tamis.report.figures import BusyRule, Distribution, Figures, SilentRule
from tamis.report.page import check_plots, page

__all__ = ["BusyRule", "Distribution", "Figures", "SilentRule", "check_plots", "page"]
