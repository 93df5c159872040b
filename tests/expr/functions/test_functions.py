"""Each function against DuckDB, Maven, or Python's own library, over columns of values.

DuckDB evaluates each function once, on all values together. Comments mark where its spelling or
meaning differs from Spark's; `tests/spark/match/test_functions.py` compares with Spark.
"""

from __future__ import annotations

import ipaddress
import math
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tamis
from tamis.expr.event import flatten
from tamis.expr.functions.derive import Derivation, derivation, read_derived_name
from tamis.expr.functions.scalar import address_key
from tamis.expr.functions.versions import version_key

RANDOM = random.Random(8)

WORDS = ["", " ", "a", "Ab", "  both ", "\tTab", "ÄÖ", "éa", "日本語", "naïve Café", "x" * 40]
STRINGS = [*WORDS, *("".join(RANDOM.choices("aB 9é", k=RANDOM.randrange(9))) for _ in range(200))]
INTEGERS = [
    *(0, 1, -1, 2, 3, 7, -7, 10, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63) + 1),
    *(RANDOM.randrange(-1000, 1000) for _ in range(100)),
]
DECIMALS = [round(RANDOM.uniform(-100, 100), RANDOM.randrange(4)) for _ in range(150)] + [0.1, 0.2]
TIMES = [
    datetime(1, 1, 1, tzinfo=UTC) + timedelta(seconds=RANDOM.randrange(300 * 10**9))
    for _ in range(300)
]


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    yield connection
    connection.close()


def how(text: str) -> Derivation:
    return derivation(read_derived_name(text))


def results(text: str, columns: dict[str, list[Any]]) -> list[Any]:
    """The value of a term on each row; None if it is absent."""
    derived = how(text)
    found = []
    for row in zip(*columns.values(), strict=True):
        (value,) = derived.values(flatten(dict(zip(columns, row, strict=True)))) or (None,)
        found.append(value)
    return found


def query(db: duckdb.DuckDBPyConnection, sql: str, columns: dict[str, list[Any]]) -> list[Any]:
    db.register("rows", pa.table({"row": range(len(next(iter(columns.values())))), **columns}))
    return [answer for (answer,) in db.execute(f"SELECT {sql} FROM rows ORDER BY row").fetchall()]


STRING_FUNCTIONS = {
    "length(x)": "length(x)",
    "lower(x)": "lower(x)",
    "upper(x)": "upper(x)",
    "trim(x)": "trim(x)",
    "upper(trim(x))": "upper(trim(x))",
    "length(trim(x)) * 2": "length(trim(x)) * 2",
    # An empty substring is absent: the value is too short.
    "substring(x, 2, 3)": "nullif(substring(x, 2, 3), '')",
    "substring(x, 3)": "nullif(substring(x, 3), '')",
    "substring(lower(x), 1, 1)": "nullif(substring(lower(x), 1, 1), '')",
}


@pytest.mark.parametrize("text", STRING_FUNCTIONS)
def test_functions_of_strings(db: duckdb.DuckDBPyConnection, text: str) -> None:
    columns = {"x": STRINGS}
    assert results(text, columns) == query(db, STRING_FUNCTIONS[text], columns)


TIME_FUNCTIONS = {
    **{
        f"{part}(t)": f"{part}(t)"
        for part in "year quarter month week day dayofyear hour minute second".split()
    },
    # Spark and DuckDB agree on ISO weeks, but count the days of a week from 1 and from 0.
    "dayofweek(t)": "dayofweek(t) + 1",
    "at_zone(t, 'Asia/Kolkata')": "((t AT TIME ZONE 'UTC') AT TIME ZONE 'Asia/Kolkata')",
    "hour(at_zone(t, 'America/New_York'))": (
        "hour((t AT TIME ZONE 'UTC') AT TIME ZONE 'America/New_York')"
    ),
}


@pytest.mark.parametrize("text", TIME_FUNCTIONS)
def test_functions_of_times(db: duckdb.DuckDBPyConnection, text: str) -> None:
    # Before 1970, DuckDB has time zones to the minute, Python to the second.
    times = [t for t in TIMES if "zone" not in text or 1970 <= t.year <= 2035]
    times += [datetime(2024, 3, 10, 6, 30, tzinfo=UTC) + timedelta(hours=h) for h in range(6)]
    plain = [t.replace(tzinfo=None) for t in times]
    found = results(text, {"t": times})
    found = [t.replace(tzinfo=None) if isinstance(t, datetime) else t for t in found]
    assert found == query(db, TIME_FUNCTIONS[text], {"t": plain})


def test_times_in_texts(db: duckdb.DuckDBPyConnection) -> None:
    """Spark's patterns; `strptime` reads the same texts with its own."""
    patterns = {
        "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S",
        "dd/MM/yyyy": "%d/%m/%Y",
        "yyyyMMddHHmm": "%Y%m%d%H%M",
        "MMM d, yyyy hh:mm a": "%b %-d, %Y %I:%M %p",
        "yyyy-MM-dd'T'HH:mm:ss.SSS": "%Y-%m-%dT%H:%M:%S.%g",
    }
    times = [t for t in TIMES if t.year > 1900][:40]
    for pattern, theirs in patterns.items():
        quoted = theirs.replace("'", "''")
        texts = query(
            db, f"strftime(t, '{quoted}')", {"t": [t.replace(tzinfo=None) for t in times]}
        )
        texts += ["", "nonsense", "2024-02-30 00:00:00", "30/02/2024", "99999999", texts[0] + " "]
        escaped = pattern.replace("'", "''")
        found = results(f"to_timestamp(x, '{escaped}')", {"x": texts})
        wanted = query(db, f"try_strptime(x, '{quoted}')", {"x": texts})
        wanted[-1] = None  # DuckDB allows a space at the end.
        assert found == [None if t is None else t.replace(tzinfo=UTC) for t in wanted], pattern


@pytest.mark.parametrize("sign", "+-*/%")
def test_arithmetic_of_integers_and_decimals(db: duckdb.DuckDBPyConnection, sign: str) -> None:
    """Doubles count as the decimals that they spell: 0.1 + 0.2 is 0.3."""
    numbers = [*INTEGERS, *DECIMALS]
    pairs = [(RANDOM.choice(numbers), RANDOM.choice(numbers)) for _ in range(600)]
    pairs += [(0.1, 0.2), (-7, 4), (7, -4), (-7.5, 2), (5, 0), (5.5, 0), (1, 3), (2**62, 3)]
    columns = {"x": [float(x) for x, _ in pairs], "y": [float(y) for _, y in pairs]}
    found = results(f"x {sign} y", columns)
    texts = {"x": [repr(x) for x in columns["x"]], "y": [repr(y) for y in columns["y"]]}
    if sign == "/":
        # A quotient has endless digits; it is enough to be the nearest double.
        wanted = query(db, "x::DOUBLE / nullif(y::DOUBLE, 0)", texts)
        for value, want in zip(found, wanted, strict=True):
            assert (value is None) is (want is None)
            assert value is None or math.isclose(value, want, rel_tol=1e-15)
        return
    digits = "DECIMAL(38, 3)" if sign != "*" else "DECIMAL(19, 3)"
    right = f"nullif(y::{digits}, 0)" if sign == "%" else f"y::{digits}"
    small = [i for i, (x, y) in enumerate(pairs) if max(abs(x), abs(y)) < 1e14]
    kept = {name: [texts[name][i] for i in small] for name in texts}
    wanted = query(db, f"(x::{digits} {sign} {right})::VARCHAR", kept)
    assert [found[i] for i in small] == [None if w is None else float(w) for w in wanted]


@pytest.mark.parametrize("sign", "+-*%")
def test_arithmetic_of_large_integers(db: duckdb.DuckDBPyConnection, sign: str) -> None:
    """Exact within 64 bits, and the nearest double beyond."""
    pairs = [(RANDOM.choice(INTEGERS), RANDOM.choice(INTEGERS)) for _ in range(400)]
    columns = {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}
    right = "nullif(y, 0)::HUGEINT" if sign == "%" else "y::HUGEINT"
    wanted = query(db, f"(x::HUGEINT {sign} {right})", columns)
    for value, want in zip(results(f"x {sign} y", columns), wanted, strict=True):
        if want is None or -(2**63) <= want < 2**63:
            assert value == want
        else:
            assert value == float(want)
            assert isinstance(value, float)


def test_other_functions_of_numbers(db: duckdb.DuckDBPyConnection) -> None:
    columns = {"x": [*INTEGERS, *DECIMALS]}
    columns = {"x": list(map(float, columns["x"]))}
    assert results("abs(x)", columns) == query(db, "abs(x)", columns)
    assert results("-x", columns) == query(db, "-x", columns)
    whole = {"x": [n for n in INTEGERS if n >= 0]}
    assert results("bin(x)", whole) == query(db, "bin(x)", whole)
    assert results("bin(x)", {"x": [-1, 2.0, 2.5, "2"]}) == ["1" * 64, "10", None, None]


def test_numbers_in_texts(db: duckdb.DuckDBPyConnection) -> None:
    spelled = "0 8 -8 +8 8.50 .5 5. 1e3 1.5E-3 007 9223372036854775807 -9223372036854775808".split()
    spelled += [" 8 ", "9007199254740993", "18446744073709551616", "0." + "1" * 400]
    doubles = query(db, "TRY_CAST(x AS DOUBLE)", {"x": spelled})
    found = results("number(x)", {"x": spelled})
    assert [None if n is None else float(n) for n in found] == doubles
    # DuckDB also takes infinities, NaN and underscores.
    others = [
        "",
        " ",
        "x",
        "8x",
        "0x10",
        "1_000",
        "1,5",
        "Infinity",
        "nan",
        "1e400",
        "--8",
        "٣",
        "e3",
        ".",
    ]
    assert results("number(x)", {"x": others}) == [None] * len(others)
    exact: list[Any] = [9007199254740993, 8, 2.5, None]
    assert results("number(x)", {"x": ["9007199254740993", 8, 2.5, True]}) == exact


def test_comparisons_of_two_attributes(db: duckdb.DuckDBPyConnection) -> None:
    numbers = [*INTEGERS[:5], 0.5, 7.5, None]
    pairs = [(x, y) for x in numbers for y in numbers]
    columns = {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}
    typed = {name: [None if v is None else float(v) for v in c] for name, c in columns.items()}
    for sign in ("=", "<", "<=", ">", ">="):
        assert results(f"x {sign} y", columns) == query(db, f"x {sign} y", typed)


def test_wrong_kinds_are_absent_and_nothing_raises() -> None:
    values: list[Any] = ["", "x", "12", 5, -5, 1.5, math.inf, -math.inf, True, 2**63 - 1, 1e308]
    values += [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC), "日"]
    texts = """length(x) lower(x) upper(x) trim(x) bin(x) abs(x) -x x+x x*x x/x x%x substring(x,2,1)
        substring(x,-3) year(x) week(x) version(x) address(x) to_timestamp(x) timestamp_seconds(x)
        timestamp_millis(x) at_zone(x,'Asia/Kolkata') at_zone(x,'America/New_York')""".split()
    for text in [*texts, "to_timestamp(x, 'yyyy-MM-dd')"]:
        for value in values:
            found = how(text).values(flatten({"x": value}))
            assert len(found) <= 1
            assert all(type(v) in (int, float, str, datetime) for v in found), (text, value)
    assert results("length(x)", {"x": [5, True, 1.5]}) == [None] * 3
    assert results("x / y", {"x": [1, 1e308], "y": [0, 1e-308]}) == [None, None]
    assert results("x + 1", {"x": ["1", True, math.inf]}) == [None] * 3
    assert results("timestamp_seconds(x)", {"x": [1.5, 1e300]}) == [
        datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        None,
    ]


# --- Versions and addresses -------------------------------------------------------------

MAVEN = Path(__file__).parent / "data" / "maven-versions.txt"
"""Comparisons by `ComparableVersion` of maven-artifact 3.8.7: of random pairs of versions, and of
all pairs in the table of its own tests. Versions with a dotted word between numbers, which Maven
does not order, and words next to a plain zero are left out."""


def test_versions_sort_as_in_maven() -> None:
    lines = MAVEN.read_text().splitlines()
    assert len(lines) > 1000
    for line in lines:
        match = re.fullmatch("(.*) ([<=>]) (.*)", line)
        assert match is not None
        left, sign, right = match.groups()
        a, b = version_key(left), version_key(right)
        assert ("<" if a < b else "=" if a == b else ">") == sign, line


def test_other_strings_are_ordered_too() -> None:
    ordered = ["", "latest", "1-alpha", "1-beta", "1-rc", "1-SNAPSHOT", "1.0.0", "1-sp", "1.0.1"]
    assert sorted(ordered[1:], key=version_key) == ordered[1:]
    assert version_key("1") == version_key("1.0.0") == version_key("1-ga")
    newer = tamis.parse("version(app) >= '5.7.40'")
    answers = {app: tamis.evaluate(newer, {"app": app}) for app in ("5.7.9", "5.7.40.0", "5.8-rc1")}
    assert answers == {"5.7.9": False, "5.7.40.0": True, "5.8-rc1": True}


def test_networks_contain_the_same_addresses_as_in_ipaddress() -> None:
    draw = random.Random(4)
    addresses = [
        "0.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.1.2.3",
        "fe80::1",
        "10.1.2.3",
    ]
    addresses += [str(ipaddress.IPv4Address(draw.getrandbits(32))) for _ in range(60)]
    addresses += [str(ipaddress.IPv6Address(draw.getrandbits(128))) for _ in range(30)]
    networks = [f"{a}/{draw.randrange(33 if ':' not in a else 129)}" for a in addresses * 2]
    for network in [*networks, "0.0.0.0/0", "::/0", "10.0.0.0/8"]:
        rule = tamis.parse(f"cidr(ip, '{network}')")
        known = ipaddress.ip_network(network, strict=False)
        for address in addresses:
            held = ipaddress.ip_address(address) in known
            assert tamis.evaluate(rule, {"ip": address}) is held, (address, network)
    keys = [address_key(address) for address in addresses]
    by_key = [a for _, a in sorted(zip(keys, addresses, strict=True))]
    assert by_key == sorted(
        addresses, key=lambda a: (ipaddress.ip_address(a).version, int(ipaddress.ip_address(a)))
    )
    for text in ("", "10.0.0", "10.0.0.256", "fe80::1%eth0", "localhost"):
        assert address_key(text) is None


# --- Lists and places -------------------------------------------------------------------


def test_sets_against_duckdb(db: duckdb.DuckDBPyConnection) -> None:
    draw = random.Random(5)
    lists = [draw.choices("abcde", k=draw.randrange(5)) or None for _ in range(120)]
    sets = [draw.choices("abcde", k=draw.randrange(1, 4)) for _ in range(40)]
    for some in sets:
        spelled = ", ".join(f"'{element}'" for element in some)
        theirs = {
            "subset": f"list_has_all([{spelled}], x)",
            "superset": f"list_has_all(x, [{spelled}])",
            "equalset": f"list_has_all([{spelled}], x) AND list_has_all(x, [{spelled}])",
            "intersects": f"list_has_any(x, [{spelled}])",
        }
        for function, sql in theirs.items():
            rule = tamis.parse(f"{function}(x, ({spelled}))")
            negated = tamis.parse(f"NOT {function}(x, ({spelled}))")
            wanted = query(db, sql, {"x": lists})
            assert [tamis.evaluate(rule, {"x": x}) for x in lists] == [w is True for w in wanted]
            found = [tamis.evaluate(negated, {"x": x}) for x in lists]
            assert found == [w is False for w in wanted]


def test_scalars_are_not_lists() -> None:
    for function in ("subset", "superset", "equalset"):
        rule = tamis.parse(f"{function}(x, ('a'))")
        assert tamis.evaluate(rule, {"x": ["a"]})
        assert tamis.evaluate(rule, {"x": ["a", "a"]})
        assert not tamis.evaluate(rule, {"x": "a"})
        assert not tamis.evaluate(rule, {})
        assert tamis.evaluate(tamis.parse(f"NOT {function}(x, ('a'))"), {"x": "a"})
        assert not tamis.evaluate(tamis.parse(f"NOT {function}(x, ('a'))"), {})
        assert tamis.evaluate(tamis.parse(f"NOT {function}(x, ('a'))"), {}, "weak")
    assert tamis.evaluate(tamis.parse("intersects(x, ('a', 'b'))"), {"x": "a"})
    sizes: list[dict[str, Any]] = [
        {"x": ["a", "a", None]},
        {"x": [{"y": 1}, {"y": 2}]},
        {"x": "a"},
        {"x": []},
    ]
    assert [how("size(x)").values(flatten(event)) for event in sizes] == [[2], [], [], []]
    assert how("size(x.y)").values(flatten(sizes[1])) == [2]


def test_in_sets_true_is_not_1_but_1_is_1_0() -> None:
    rule = tamis.parse("equalset(x, (1, 'a'))")
    assert rule == tamis.parse("equalset(x, ('a', 1.0, 1))")
    assert tamis.evaluate(rule, {"x": [1.0, "a", 1]})
    assert not tamis.evaluate(rule, {"x": [True, "a"]})


def test_distances(db: duckdb.DuckDBPyConnection) -> None:
    """The haversine formula in DuckDB."""
    draw = random.Random(6)
    places = [(draw.uniform(-90, 90), draw.uniform(-180, 180)) for _ in range(150)]
    places += [(90, 0), (-90, 0), (0, 180), (0, -180), (52.52, 13.405)]
    columns = {"a": [float(a) for a, _ in places], "b": [float(b) for _, b in places]}
    for middle in [*places[:20], *places[-5:]]:
        a, b = middle
        sql = f"""2 * 6371.0088 * asin(sqrt(least(1, sin(radians(a - ({a})) / 2) ** 2
            + cos(radians(a)) * cos(radians({a})) * sin(radians(b - ({b})) / 2) ** 2)))"""
        distances = query(db, sql, columns)
        for km in (0.5, 300, 5000, 12000):
            rule = tamis.parse(f"within_km(lat, lon, {a}, {b}, {km})")
            for (lat, lon), distance in zip(places, distances, strict=True):
                if abs(distance - km) > 1e-6:
                    event = {"lat": lat, "lon": lon}
                    assert tamis.evaluate(rule, event) is (distance < km), (middle, km, event)
    rule = tamis.parse("NOT within_km(lat, lon, 0, 0, 10)")
    for nowhere in (
        {"lat": 1},
        {"lat": "1", "lon": 1},
        {"lat": 91, "lon": 0},
        {"lat": True, "lon": 1},
    ):
        assert not tamis.evaluate(rule, nowhere)
        assert tamis.evaluate(rule, nowhere, "weak")


def test_boxes() -> None:
    pacific = tamis.parse("within_box(lat, lon, -10, 170, 10, -170)")
    inside = [(0, 175), (10, 180), (-10, -180), (5, -170), (0, 0), (11, 175), (0, 169)]
    answers = [tamis.evaluate(pacific, {"lat": a, "lon": b}) for a, b in inside]
    assert answers == [True, True, True, True, False, False, False]


def test_several_values() -> None:
    """An attribute has the same value throughout a term; several attributes are combined."""
    assert how("x * x").values(flatten({"x": [2, 3]})) == [4, 9]
    assert sorted(how("x + y").values(flatten({"x": [1, 2], "y": [10, 20]}))) == [11, 12, 21, 22]
    assert how("lower(x)").values(flatten({"x": ["A", "a", 5]})) == ["a"]
    below = tamis.parse("x < y")
    assert tamis.evaluate(below, {"x": [5, 1], "y": [2, 0]})
    assert not tamis.evaluate(tamis.parse("NOT x < y"), {"x": [5, 1], "y": [2, 0]})
    many = {"x": list(range(200)), "y": list(range(200))}
    assert how("x + y").values(flatten(many)) == []
