"""Spells events as JSON, in all the ways in which one value can be written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from random import Random
from typing import Any

__all__ = ["Spelled", "spell_events", "spell_value"]


class Spelled(str):
    """A number that is spelled already."""

    __slots__ = ()


_SPACES = ("", "", "", "", " ", "\t", " \r\n")
_SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_DECOYS = ("0", "null", '"decoy"', "[1, 2]", '{"x": 9, "s": "decoy"}', "1e300", "true")


def spell_events(events: Iterable[dict[str, Any]], seed: object = 0) -> Iterator[bytes]:
    """A text for each event; half of them as programs write JSON, the others at its edges."""
    random = Random(repr(seed))
    for event in events:
        wild = random.choice((0.0, 0.0, 0.05, 0.3))
        yield (
            _space(random, wild) + spell_value(random, event, wild) + _space(random, wild)
        ).encode()


def spell_value(random: Random, value: Any, wild: float) -> str:
    """A text that any reader of JSON reads as `value`, unusual with a probability of `wild`."""
    if isinstance(value, dict):
        pairs: list[str] = []
        for name, item in value.items():
            space, key = _space(random, wild), _spell_string(random, name, wild / 4)
            pairs.append(f"{space}{key}{space}:{space}{spell_value(random, item, wild)}{space}")
            if random.random() < wild / 4:
                # The key is there twice, and the last one counts.
                decoy = f"{_spell_string(random, name, wild / 4)}:{random.choice(_DECOYS)}"
                pairs.insert(random.randrange(len(pairs)), decoy)
        return "{" + _space(random, wild) + ",".join(pairs) + "}"
    if isinstance(value, list):
        items = [
            f"{_space(random, wild)}{spell_value(random, item, wild)}{_space(random, wild)}"
            for item in value
        ]
        return f"[{','.join(items)}]"
    if isinstance(value, Spelled):
        return str(value)
    if isinstance(value, str):
        return _spell_string(random, value, wild)
    if isinstance(value, float):
        return _spell_double(random, value, wild)
    if value == 0 and value is not False and random.random() < wild:
        return "-0"
    return json.dumps(value)


def _space(random: Random, wild: float) -> str:
    return random.choice(_SPACES) if random.random() < wild else ""


def _spell_string(random: Random, text: str, wild: float) -> str:
    if random.random() >= wild:
        return json.dumps(text, ensure_ascii=random.random() < 0.3)
    return f'"{"".join(_spell_character(random, letter) for letter in text)}"'


def _spell_character(random: Random, letter: str) -> str:
    choice = random.random()
    if letter in _SHORT and choice < 0.5:
        return f"\\{_SHORT[letter]}"
    if choice < 0.3 or letter in _SHORT or letter < " ":
        units = letter.encode("utf-16-be")
        digits = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
        return "".join(f"\\u{random.choice((two, two.upper()))}" for two in digits)
    return letter


def _spell_double(random: Random, value: float, wild: float) -> str:
    if random.random() >= wild:
        return repr(value)
    exact = Decimal(value)
    written = random.choice(
        (
            f"{value:.17g}",
            f"{value:.25e}",
            f"{value!r}".upper(),
            f"{exact:f}" if 1e-30 < abs(value) < 1e30 else repr(value),
            f"{Decimal(repr(value)).scaleb(-3):f}e3",
            f"{Decimal(repr(value)).scaleb(4):f}e-04",
        )
    )
    is_double = any(letter in written for letter in ".eE")  # else it is an integer
    return written if is_double and json.loads(written) == value else repr(value)
