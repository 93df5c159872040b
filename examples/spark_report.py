"""A batch on Spark, from tables to a report: a day of flights against ten thousand alerts.

    python examples/spark_report.py [FOLDER]    # needs: pip install 'tamis[demo]'

The alerts are generated; the flights are real.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import mkdtemp

from tamis import samples
from tamis import spark as ts

CARRIERS = ["B6", "DL", "EV", "MQ", "UA", "AA", "US", "9E", "WN", "VX"]


def generate_rules(count: int) -> list[tuple[int, str]]:
    """Alerts that travellers might write: a carrier, a delay, a distance."""
    rules = []
    for n in range(count):
        carrier, delay, distance = CARRIERS[n % 10], n % 120, n * 37 % 2500
        rule = f"carrier = '{carrier}' AND dep_delay > {delay} AND distance > {distance}"
        rules.append((n, rule))
    return rules


def main(folder: str | None = None, rules: int = 10_000) -> None:
    """Build an index, match the flights, write matches and a report."""
    out = Path(folder or mkdtemp(prefix="tamis-report-"))
    spark = ts.local_session(2)
    table = spark.createDataFrame(generate_rules(rules), "id long, rule string")
    version = ts.build(table, out / "index")

    flights = [(f["flight"] + f["origin"], json.dumps(f)) for f in samples.flights()]
    events = spark.createDataFrame(flights, "id string, flight string")
    matches = ts.match(events, out / "index", keys="id", events="flight")
    matches.write.mode("overwrite").parquet(str(out / "matches"))
    matches = spark.read.parquet(str(out / "matches"))

    print(f"{version.rules:,} rules, {len(flights):,} flights, {matches.count():,} matches")
    busiest = matches.groupBy("id").count().orderBy("count", ascending=False).first()
    assert busiest is not None
    print(f"the flight with the most alerts: {busiest['id']}, {busiest['count']:,}")
    ts.report(matches, rules=table, events=events, keys=["id"], path=out / "report.html")
    print(f"the report is {out / 'report.html'}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
