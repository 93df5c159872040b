"""Segments of a fleet, in pandas and in polars: sizes, overlaps, and what each segment looks like.

python examples/fleet_segments.py   # needs pandas and polars
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl

import tamis

DATA = Path(__file__).parent / "data"

SEGMENTS = {
    "regional": "seats BETWEEN 30 AND 100",
    "wide body": "seats > 240",
    "old": "year < 1990",
    "antique": "year < 1980",
    "new": "year >= 2010",
    "Airbus": "maker LIKE 'AIRBUS%'",
    "Boeing": "maker = 'BOEING'",
    "McDonnell": "maker LIKE 'MCDONNELL%' OR maker = 'DOUGLAS'",
    "small": "seats < 20 OR engines = 1",
}


def main() -> None:
    """Find the segments of every aircraft, twice."""
    matcher = tamis.Matcher()
    matcher.add_many(SEGMENTS)

    planes = pd.read_csv(DATA / "planes.csv")
    found = matcher.match_many(planes).to_pandas()
    members = pd.crosstab(found["event"], found["rule"])
    members = members.reindex(index=range(len(planes)), columns=list(SEGMENTS), fill_value=0)
    print("pandas: aircraft in two segments at once")
    print(members.T.dot(members).to_string())
    planes["segments"] = matcher.match_many(planes, form="lists")["rules"].to_pylist()
    print(planes.loc[:2, ["tail", "maker", "year", "segments"]].to_string(index=False))

    frame = pl.read_csv(DATA / "planes.csv").with_row_index("event")
    matches = pl.from_arrow(matcher.match_many(frame))
    assert isinstance(matches, pl.DataFrame)
    summary = (
        matches.cast({"event": pl.UInt32})
        .join(frame, on="event")
        .group_by("rule")
        .agg(pl.len().alias("planes"), pl.col("seats").mean().round(0), pl.col("year").median())
        .sort("planes", descending=True)
    )
    print("\npolars: what a segment looks like")
    for rule, count, seats, year in summary.rows():
        print(f"{rule:<10} {count:4} planes, {seats:.0f} seats on average, built about {year:.0f}")

    # year is a single value in these tables, which lets more be proven.
    print("\nlint:", "; ".join(map(str, matcher.lint(single_valued=True))) or "nothing to say")


if __name__ == "__main__":
    main()
