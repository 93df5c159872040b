"""The demo: match a year of real flights against a hundred thousand alert rules, on Spark.

``tamis demo`` and ``make demo`` run :func:`run`.
"""

from tamis.demo.alerts import alert_rules
from tamis.demo.flights import load_flights
from tamis.demo.main import Summary, run

__all__ = ["Summary", "alert_rules", "load_flights", "run"]
