"""JSON against columns and decoded objects: random values at the edges of what JSON can spell.

The events of a case are texts. What they mean is said by Python's own decoder, which shares
nothing with the kernels of Tamis; the numbers it finds make up columns. All roads must agree, with
the thresholds that choose among them set at random, and a sample must agree with `evaluate`.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tamis
from attack.case import Case
from attack.differential.apply import build_matcher
from tests.json_spelling import Spelled, spell_value
from tests.roads import set_thresholds

__all__ = ["check_json", "draw_json"]

_SAMPLE: Final = 1_000
"""How many decisions `tamis.evaluate` is asked about."""

_TYPES: Final = {
    "i": pa.int64(),
    "q": pa.uint64(),
    "f": pa.float64(),
    "s": pa.string(),
    "t": pa.string(),
    "b": pa.bool_(),
    "l": pa.list_(pa.string()),
    "g": pa.list_(pa.float64()),
    "o.i": pa.int64(),
    "o.s": pa.string(),
    "o.p.f": pa.float64(),
    'odd "é"': pa.string(),
}
"""The columns; each attribute has values of one type."""

_WORDS: Final = (
    "",
    "o",
    "bob",
    "Bob",
    "rob",
    "a\tb",
    'q"o',
    "back\\slash",
    "é",
    "🙂o",
    "\u2028",
    "x/y",
)
_FREQUENT: Final = 3
"""So many numbers of an attribute are in half of all events that have it."""
_OF_NUMBERS: Final = ["i % 3 = 1", "q % 2 = 0", "abs(f) > 1", "size(g) > 1"]
_OF_TEXTS: Final = ["length(s) > 2", "upper(t) = 'BOB'", "size(l) = 2", "lower(o.s) = 'bob'"]
_FUNCTIONS: Final[tuple[list[str], ...]] = (
    [],
    _OF_NUMBERS,
    _OF_TEXTS,
    [*_OF_NUMBERS, *_OF_TEXTS, "o.i + 1 > 3"],
)
"""What makes Python read an attribute that kernels would read."""
_NEVER_CAPTURED: Final = '"odd ""é"""'
_TEXTS: Final = ("s", "t", "o.s", "l", _NEVER_CAPTURED)
_PATTERNS: Final = ("%o%", "b%", "%B", "_o_", "%é", "%\\%", "o")


# --- Drawing ---


def draw_json(random: Random, size: float) -> Case:
    """Rules about numbers, texts and functions, and events as texts."""
    integers = [_integer(random, -(2**63), 2**63 - 1) for _ in range(20)]
    unsigned = [_integer(random, 0, 2**64 - 1) for _ in range(12)]
    doubles = [_double(random) for _ in range(60)]
    numbers = {"i": integers, "o.i": integers, "q": unsigned, "f": doubles, "g": doubles}
    numbers["o.p.f"] = doubles
    functions = random.choice(_FUNCTIONS)
    if functions and random.random() < 0.3:
        functions = random.sample(functions, 1)
    # One text predicate without a guard, and all texts of its attribute are looked at.
    texts = () if random.random() < 0.7 else _TEXTS
    rules = [
        {
            "id": number,
            "rule": _rule(random, numbers, functions, texts),
            "logic": random.choice(("strong", "weak")),
        }
        for number in range(int(300 * size) + 50)
    ]
    events = [_event(random, numbers) for _ in range(int(8_000 * size) + 20)]
    options = {
        "seed": random.getrandbits(32),
        "stored": random.choice((None, None, "saved")),
        "chunk": random.choice((1_000_000, 100)),
        "type": random.choice(("string", "large_string", "binary", "large_binary")),
    }
    return Case("json", rules, events, options)


def _integer(random: Random, least: int, most: int) -> str:
    kind = random.random()
    if kind < 0.4:
        value = random.randint(-3, 9)
    elif kind < 0.8:
        edge = 1 << random.choice((24, 31, 53, 53, 59, 60, 62, 63, 63, 64))
        value = random.choice((-1, 1)) * edge + random.randint(-2, 2)
    else:
        value = random.choice((-1, 1)) * random.randrange(10 ** random.randint(1, 20))
    return str(min(max(value, least), most))


def _double(random: Random) -> str:
    """The spelling of a double, with a point or an exponent, finite."""
    while True:
        text = random.choice((_any_double, _digits, _digits, _halfway, _short))(random)
        if any(letter in text for letter in ".eE") and math.isfinite(float(text)):
            return text


def _any_double(random: Random) -> str:
    (value,) = struct.unpack("<d", random.randbytes(8))
    return random.choice((repr, "{:.17g}".format, "{:.30E}".format))(value)


def _short(random: Random) -> str:
    value = random.choice((0.0, 0.1, 0.5, 1.0, 2.5, 1e5, 1e22, 1e23, 5e-324, 2.0**53, 1e16))
    return random.choice((repr, "{:.3f}".format, "{:e}".format))(random.choice((-1, 1)) * value)


def _digits(random: Random) -> str:
    """Up to 45 digits with a point somewhere, and often an exponent."""
    digits = "".join(
        random.choices("0123456789", k=random.choice((1, 3, 15, 16, 17, 18, 19, 20, 38, 45)))
    )
    at = random.randint(0, len(digits))
    whole, fraction = digits[:at].lstrip("0") or "0", digits[at:]
    text = random.choice(("", "-")) + whole + (f".{fraction}" if fraction else "")
    if random.random() < 0.4 or not fraction:
        power = random.choice((0, 1, 5, 22, 23, -1, -5, -22, -23, 99, 100, -99, -320, 290, -400))
        sign = random.choice(("", "+")) if power >= 0 else "-"
        text += random.choice("eE") + sign + random.choice(("", "0")) + str(abs(power))
    return text


def _halfway(random: Random) -> str:
    """Halfway between two doubles, or next to it: what is hardest to round."""
    low = math.ldexp(random.getrandbits(53) | 1 << 52, random.choice((-60, -52, -40, -30, 0, 20)))
    with localcontext() as context:
        context.prec = 200
        middle = (Decimal(low) + Decimal(math.nextafter(low, math.inf))) / 2
        middle += random.choice((0, 0, -1, 1)) * Decimal("1e-120")
        text = f"{middle:f}"
    return text if "." in text else f"{text}.0"


def _event(random: Random, numbers: dict[str, list[str]]) -> dict[str, Any]:
    if random.random() < 0.01:
        return {"text": random.choice((None, "{}", " {\n} "))}
    drawn: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        if random.random() < 0.3:
            continue
        if name in numbers:
            pool: Sequence[str] = numbers[name]
            item: Any = Spelled(random.choice(random.choice((pool, pool[:_FREQUENT]))))
        elif name == "b":
            item = random.choice((True, False, None))
        else:
            # Texts that are seen once: what was looked at before is known without a guard.
            item = random.choice(_WORDS) + random.choice(("", str(random.getrandbits(20))))
        if pa.types.is_list(kind):
            pool = _WORDS if name == "l" else list(map(Spelled, numbers[name]))
            item = random.choices(pool, k=random.choice((0, 1, 2, 5)))
        _place(random, drawn, name, item)
    if random.random() < 0.1:
        drawn["unseen"] = random.choice((Spelled("1e5"), [{"a": [None]}], "\x7f", {"": {}}))
    wild = random.choice((0.0, 0.0, 0.02, 0.3))
    return {"text": spell_value(random, drawn, wild)}


def _place(random: Random, event: dict[str, Any], name: str, item: Any) -> None:
    """Put a value under its whole name, or into objects."""
    head, dot, tail = name.partition(".")
    if dot and random.random() < 0.7:
        inner = event.setdefault(head, {})
        _place(random, inner, tail, item)
    else:
        event[name] = item


def _rule(
    random: Random, numbers: dict[str, list[str]], functions: list[str], texts: Sequence[str]
) -> str:
    if random.random() < 0.5:
        # An integer guards a text predicate; functions may need either.
        name, text = random.choice(("i", "o.i", "q")), random.choice(_TEXTS)
        if random.random() < 0.4:
            text = _NEVER_CAPTURED
        guard = f"{name} = {random.choice(numbers[name][:_FREQUENT])}"
        return f"{guard} AND {text} LIKE '{random.choice(('%o%', '%b%', 'b%', '_%'))}'"
    parts = [
        _leaf(random, numbers, functions, texts) for _ in range(random.choice((1, 1, 2, 2, 3, 4)))
    ]
    joined = f" {random.choice(('AND', 'AND', 'AND', 'OR'))} ".join(parts)
    return f"NOT ({joined})" if random.random() < 0.15 else joined


def _leaf(
    random: Random, numbers: dict[str, list[str]], functions: list[str], texts: Sequence[str]
) -> str:
    kind = random.random()
    text = random.choice(_TEXTS)
    if kind < 0.45:
        name = random.choice(list(numbers))
        first, second = (_literal(random, random.choice(numbers[name])) for _ in range(2))
        form = random.choice(("{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} IN ({}, {})"))
        return form.format(name, first, second)
    if kind < 0.75 and texts:
        form = random.choice(("{} LIKE '{}'", "{} NOT LIKE '{}'", "{} ILIKE '{}'"))
        return form.format(text, random.choice(_PATTERNS))
    if kind < 0.95 and functions:
        return random.choice(functions)
    word = random.choice(_WORDS).replace("'", "''")
    return random.choice((f"{text} = '{word}'", f"{text} >= '{word}'", "b = TRUE", "o.s IS NULL"))


def _literal(random: Random, spelled: str) -> str:
    """A literal that is what an event holds, or next to it."""
    if "." not in spelled and "e" not in spelled.lower():
        near = int(spelled) + random.choice((0, 0, 0, 1, -1))
        return str(min(max(near, -(2**63)), 2**64 - 1))
    value = float(spelled)
    beside = random.choice((value, value, math.nextafter(value, math.inf), -value))
    whole, _, fraction = spelled.lstrip("-").partition(".")
    if random.random() < 0.3 and fraction.isdigit() and len(whole) + len(fraction) <= 38:
        return spelled  # a decimal, which the event's double need not be
    return repr(beside) if math.isfinite(beside) else repr(value)


# --- Checking ---


def check_json(case: Case) -> str | None:
    """The roads of JSON against those of columns and of mappings."""
    texts = [event.get("text") for event in case.events]
    decoded = [{} if text is None else json.loads(text) for text in texts]
    kind = getattr(pa, case.options.get("type", "string"))()
    column = pa.array(texts, pa.string()).cast(kind)
    with build_matcher(case) as matcher:
        answers = {"columns": _ask(matcher, _to_columns(decoded), case)}
        answers["mappings"] = _ask(matcher, decoded, case)
    with set_thresholds(Random(case.options.get("seed"))), build_matcher(case) as matcher:
        answers["JSON"] = _ask(matcher, column, case)
    with set_thresholds("low", "encode.json"), build_matcher(case) as matcher:
        answers["JSON by kernels"] = _ask(matcher, column, case)
    expected = answers.pop("columns")
    for road, answer in answers.items():
        wrong = _first_difference(answer, expected)
        if wrong is not None:
            event, rule = wrong
            return f"{road}: {case.rules[rule]['rule']} on {texts[event]}"
    return _compare_evaluate(case, decoded, expected)


def _to_columns(decoded: list[dict[str, Any]]) -> pa.Table:
    flat = [dict(_flatten(event)) for event in decoded]
    return pa.table(
        {name: pa.array([event.get(name) for event in flat], kind) for name, kind in _TYPES.items()}
    )


def _flatten(event: dict[str, Any], before: str = "") -> Any:
    for name, item in event.items():
        if isinstance(item, dict):
            yield from _flatten(item, f"{before}{name}.")
        elif before + name in _TYPES:
            yield before + name, item


def _ask(matcher: tamis.Matcher, events: Any, case: Case) -> NDArray[np.bool_]:
    """A row for each event, a column for each rule: whether it matches."""
    places = {rule["id"]: place for place, rule in enumerate(case.rules)}
    found = matcher.match_many(events)
    answer = np.zeros((len(case.events), len(case.rules)), np.bool_)
    rules = [places[id] for id in found["rule"].to_pylist()]
    answer[found["event"].to_numpy(), rules] = True
    counts = matcher.count_many(events)["matches"].to_numpy()
    assert np.array_equal(counts, answer.sum(axis=1)), "count_many: wrong counts"
    return answer


def _first_difference(
    answer: NDArray[np.bool_], expected: NDArray[np.bool_]
) -> tuple[int, int] | None:
    events, rules = np.nonzero(answer != expected)
    return (int(events[0]), int(rules[0])) if len(events) else None


def _compare_evaluate(
    case: Case, decoded: list[dict[str, Any]], expected: NDArray[np.bool_]
) -> str | None:
    """Ask `tamis.evaluate` about decisions spread evenly over the case."""
    step = max(20, expected.size // _SAMPLE) | 1
    for at in range(0, expected.size, step):
        event, rule = divmod(at, len(case.rules))
        about = case.rules[rule]
        answer = tamis.evaluate(about["rule"], decoded[event], about.get("logic", "strong"))
        if answer is not bool(expected[event, rule]):
            return f"evaluate: {answer} for {about['rule']} on {case.events[event]}"
    return None
