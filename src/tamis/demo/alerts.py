"""Generate the rules: alerts that travellers, airlines or airports might write.

Every rule starts from a random flight. So busy routes and large carriers have more rules, and the
parts of a rule fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, TypeAlias

import pyarrow as pa

__all__ = ["alert_rules"]

Flight: TypeAlias = dict[str, Any]


def alert_rules(flights: pa.Table, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Generate `count` rules as pairs of id and text; the same seed gives the same rules."""
    random = Random(seed)
    rows = [random.randrange(flights.num_rows) for _ in range(count)]
    kinds = list(_KINDS)
    for number, flight in enumerate(flights.take(pa.array(rows, pa.int64())).to_pylist()):
        kind = random.choice(kinds)
        yield f"{kind}-{number:05}", _KINDS[kind](flight, random)


def _bad_weather(flight: Flight, random: Random) -> str:
    return (
        f"{_is(flight, 'carrier')} AND {_is(flight, 'dest')} "
        f"AND (weather.visib < {random.choice([0.5, 1, 2, 3])} "
        f"OR weather.wind_gust > {random.randrange(25, 45, 5)} "
        f"OR weather.precip >= {random.choice([0.1, 0.2, 0.3])}) "
        f"AND NOT (dep_delay < {random.randrange(0, 60, 15)} OR dep_delay IS NULL)"
    )


def _by_name(flight: Flight, random: Random) -> str:
    airline = flight["airline"].split()[0].lower()
    place = (flight["destination"] or "Boston").split()[0]
    least = random.randrange(20, 200, 10)
    return (
        f"airline ILIKE {_quote(f'%{airline}%')} AND destination LIKE {_quote(f'{place}%')} "
        f"AND arr_delay BETWEEN {least} AND {least + random.randrange(20, 100, 10)}"
    )


def _cancelled(flight: Flight, random: Random) -> str:
    return (
        f"dep_time IS NULL AND {_is(flight, 'carrier')} AND {_is(flight, 'origin')} "
        f"AND weather.wind_speed >= {random.randrange(10, 30)}.5"
    )


def _diverted(flight: Flight, random: Random) -> str:
    return (
        f"dep_time IS NOT NULL AND arr_time IS NULL AND {_is(flight, 'dest')} "
        f"AND distance > {random.randrange(100, 1000, 100)}"
    )


def _flight_number(flight: Flight, random: Random) -> str:
    return (
        f"{_is(flight, 'carrier')} AND flight = {flight['flight']} "
        f"AND NOT (arr_delay <= {random.randrange(0, 60, 5)})"
    )


def _late(flight: Flight, random: Random) -> str:
    return (
        f"{_is(flight, 'carrier')} AND {_is(flight, 'dest')} "
        f"AND arr_delay > {random.randrange(15, 240, 5)}"
    )


def _late_route(flight: Flight, random: Random) -> str:
    others = random.sample(["AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"], random.randint(1, 3))
    return (
        f"{_is(flight, 'origin')} AND {_is(flight, 'dest')} "
        f"AND dep_delay >= {random.randrange(20, 180, 10)} AND carrier NOT IN {_list(others)}"
    )


def _long_haul_small_plane(flight: Flight, random: Random) -> str:
    return (
        f"distance >= {random.randrange(800, 2400, 100)} "
        f"AND plane.seats < {random.randrange(60, 160, 20)} "
        f"AND {_is(flight, 'origin')} AND month = {flight['month']}"
    )


def _made_up_time(flight: Flight, random: Random) -> str:
    return (
        f"dep_delay > {random.randrange(20, 60, 5)} AND arr_delay <= 0 "
        f"AND {_is(flight, 'dest')} AND NOT {_is(flight, 'carrier')}"
    )


def _night(flight: Flight, random: Random) -> str:
    return (
        f"(hour >= {random.randint(20, 22)} OR hour < {random.randint(5, 6)}) "
        f"AND {_is(flight, 'dest')} AND dep_delay > {random.randrange(10, 120, 10)}"
    )


def _old_plane(flight: Flight, random: Random) -> str:
    maker = (flight["plane"]["manufacturer"] or "BOEING").split()[0]
    return (
        f"plane.manufacturer LIKE {_quote(f'{maker}%')} "
        f"AND plane.year < {random.randint(1985, 2000)} "
        f"AND {_is(flight, 'dest')} AND month >= {flight['month']}"
    )


def _one_day(flight: Flight, random: Random) -> str:
    day = flight["time_hour"].date()
    return (
        f"time_hour BETWEEN TIMESTAMP '{day} {random.randint(0, 12):02}:00:00' "
        f"AND TIMESTAMP '{day} 23:00:00' "
        f"AND dest IN {_list(sorted({flight['dest'], 'BOS', 'ORD'}))} AND dep_delay > 30"
    )


def _one_plane(flight: Flight, random: Random) -> str:
    return (
        f"tailnum = {_quote(flight['tailnum'] or 'N711MQ')} "
        f"AND (dep_delay > {random.randrange(30, 180, 10)} OR dep_time IS NULL)"
    )


def _slow(flight: Flight, random: Random) -> str:
    longest = (flight["air_time"] or 150) + random.randrange(10, 50, 10)
    return (
        f"{_is(flight, 'origin')} AND {_is(flight, 'dest')} AND NOT (air_time < {longest} "
        f"AND (arr_delay < {random.randrange(30, 120, 10)} OR {_is(flight, 'carrier')}))"
    )


_KINDS: Final[dict[str, Callable[[Flight, Random], str]]] = {
    "bad-weather": _bad_weather,
    "by-name": _by_name,
    "cancelled": _cancelled,
    "diverted": _diverted,
    "flight-number": _flight_number,
    "late": _late,
    "late-route": _late_route,
    "long-haul-small-plane": _long_haul_small_plane,
    "made-up-time": _made_up_time,
    "night": _night,
    "old-plane": _old_plane,
    "one-day": _one_day,
    "one-plane": _one_plane,
    "slow": _slow,
}


def _is(flight: Flight, attribute: str) -> str:
    """A predicate for flights that have the same value as this one."""
    return f"{attribute} = {_quote(flight[attribute])}"


def _quote(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _list(values: list[str]) -> str:
    return f"({', '.join(map(_quote, values))})"
