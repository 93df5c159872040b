"""The demo, with fewer rules and flights, compared with DuckDB on the same files."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import tamis
from tamis import demo
from tamis.demo import flights as flights_module

RULES = 400
FLIGHTS = 20_000
SEED = 7


@pytest.fixture(scope="module")
def flights_in_duckdb(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """The same flights, read and joined by DuckDB alone."""
    data = flights_module.data_folder()
    first = tmp_path_factory.mktemp("demo") / "flights.csv"
    first.write_bytes(_first_lines(data / "flights.csv.zip", FLIGHTS + 1))
    database = duckdb.connect()
    for name, path in [("flown", first), *((p.stem, p) for p in data.glob("*.csv"))]:
        database.execute(
            f"CREATE TABLE {name} AS FROM read_csv('{path}', nullstr='NA', sample_size=-1)"
        )
    database.execute("""
        CREATE TABLE flights AS
        SELECT
            flown.* REPLACE (flown.time_hour::TIMESTAMPTZ AT TIME ZONE 'UTC' AS time_hour),
            airlines.name AS airline,
            airports.name AS destination,
            planes AS plane,
            weather AS weather,
        FROM flown
        LEFT JOIN airlines USING (carrier)
        LEFT JOIN airports ON flown.dest = airports.faa
        LEFT JOIN planes USING (tailnum)
        LEFT JOIN weather ON flown.origin = weather.origin AND flown.time_hour = weather.time_hour
    """)
    return database


def _first_lines(archive: Path, count: int) -> bytes:
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        return b"".join(line for line, _ in zip(file, range(count), strict=False))


def test_alerts_equal_those_of_duckdb(
    flights_in_duckdb: duckdb.DuckDBPyConnection, spark: SparkSession, tmp_path: Path
) -> None:
    output = io.StringIO()
    console = Console(file=output, width=120)
    summary = demo.run(RULES, SEED, console, flights=FLIGHTS, folder=tmp_path, spark=spark)

    rules = dict(demo.alert_rules(demo.load_flights(FLIGHTS), RULES, SEED))
    counts = ", ".join(f"count(*) FILTER (WHERE {text})" for text in rules.values())
    expected = flights_in_duckdb.execute(f"SELECT {counts} FROM flights").fetchone()
    assert expected is not None
    assert summary.alerts == dict(zip(rules, expected, strict=True))

    anything = " OR ".join(f"({text})" for text in rules.values())
    flagged = flights_in_duckdb.execute(f"SELECT count(*) FROM flights WHERE {anything}")
    assert flagged.fetchone() == (summary.flights_with_alerts,)

    shown = output.getvalue()
    assert f"{summary.total:,}" in shown
    assert all(rule in shown for rule in summary.busiest)
    assert f"Rules that never fired: {len(summary.silent)}" in shown
    assert shown.rstrip().endswith(str(tmp_path / "report.html"))
    page = re.sub(r"<[^>]+>", "", summary.report.read_text())
    assert f"{summary.flights_with_alerts:,} of {FLIGHTS:,} events matched" in page
    assert f"{len(summary.silent):,} of {RULES:,} rules" in page


def test_rules_are_of_every_kind_and_depend_only_on_the_seed() -> None:
    flights = demo.load_flights(1_000)
    rules = list(demo.alert_rules(flights, RULES, SEED))
    assert rules == list(demo.alert_rules(flights, RULES, SEED))
    assert rules != list(demo.alert_rules(flights, RULES, SEED + 1))
    assert {rule.rpartition("-")[0] for rule, _ in rules} == {
        rule.rpartition("-")[0] for rule, _ in demo.alert_rules(flights, 5_000, SEED)
    }


def test_missing_flights_name_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(flights_module, "find_spec", lambda _: None)
    with pytest.raises(tamis.MissingExtraError, match=r"pip install 'tamis\[demo\]'"):
        demo.run(folder=tmp_path)
