"""Rules in many spellings, right and wrong ones, for the readers of texts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

NAMES = ("a", "B_1", "user.name", '"in"', "`a b`", "é", "in", "x.in", '"a""b"', '"a"."b"', "DATE")
VALUES = (
    *("1", "-2", "0", "-0", "007", "9007199254740992", "9007199254740993", "-9223372036854775808"),
    *(
        "1.5",
        "-0.0",
        "1e3",
        "1E-2",
        "0.1",
        "3.14159265358979323",
        "12.3456789012345678",
        "18446744073709551615",
        "1e23",
        "''",
        "'a'",
        "'it''s'",
    ),
    *("'\u00e9 AND b'", "'a OR (b'", "TRUE", "false", "'\\'", "DATE '2024-02-29'"),
    *("TIMESTAMP '2024-02-29 12:30:15.25Z'", "timestamp '1969-12-31T23:59'", "DATE  '0001-01-01'"),
    *("TIMESTAMP '2024-01-01 10:00+01:00'", "TIMESTAMP '2024-02-29 12:30 z'", "DATE'2024-01-01'"),
)
ODD_VALUES = (
    *("9223372036854775808", "1e400", "1.", ".5", "1e", "123456789012345678901", "1_0", "0x1"),
    *("--1", "- 1", "+1", "NULL", "b", "date '2023-02-29'", "DATE '2024-02-29 10:00'", "b + 1"),
    *("TIMESTAMP '2024-02-29 24:00'", "DATE '2024-1-1'", "TIMESTAMP '2024-02-29 12:30 '"),
    "lower(b)",
)
SIGNS = ("=", "<>", "!=", "<", "<=", ">", ">=", "==", "< =", "=!")
SPACES = ("", " ", "  ", "\n", "\t ", "\r\n", "\u00a0", "\f")
AND, OR = ("AND", "and", "And"), ("OR", "or", "oR")


def spell_predicate(rng: Random) -> str:
    """A predicate in any spelling; many are none."""
    space = lambda: rng.choice(SPACES) if rng.random() < 0.05 else " "  # noqa: E731
    value = lambda: rng.choice(VALUES if rng.random() < 0.97 else ODD_VALUES)  # noqa: E731
    name = rng.choice(NAMES[:5] if rng.random() < 0.9 else NAMES)
    negation = rng.choice(("", "", "", "NOT ", "not "))
    rest = rng.choice(
        (
            rng.choice(SIGNS[:7] if rng.random() < 0.95 else SIGNS) + space() + value(),
            rng.choice(SIGNS[:7]) + space() + value(),
            f"{negation}IN{space()}({f'{space()},{space()}'.join(value() for _ in range(3))})",
            f"{negation}in ({value()},{value()})",
            f"{negation}BETWEEN{space()}{value()}{space()}{rng.choice(AND)}{space()}{value()}",
            f"{negation}LIKE {rng.choice(('a%', '%b', '_', 'ab')).__repr__()}",
            f"{negation}ILIKE 'x%'",
            f"IS {negation}NULL",
            f"is{space()}null",
            "IN (1)" if rng.random() < 0.9 else "IN ()",
        )
    )
    return rng.choice(("", "", "", "NOT ", "not  not ")) + name + space() + rest


def spell_rule(rng: Random) -> str:
    """A rule of a few levels in any spelling; some are none."""
    space = lambda: rng.choice(SPACES) if rng.random() < 0.05 else " "  # noqa: E731

    def join(items: Sequence[str], words: Sequence[str]) -> str:
        text = items[0]
        for item in items[1:]:
            text += space() + rng.choice(words) + space() + item
        return text

    def group(words: Sequence[str]) -> str:
        inner = join([spell_predicate(rng) for _ in range(rng.randint(1, 3))], words)
        return f"({space()}{inner}{space()})" if rng.random() < 0.8 else inner

    outer, inner = rng.choice(((AND, OR), (OR, AND), (AND, AND), (OR, OR), (AND, (*AND, *OR))))
    return join([group(inner) for _ in range(rng.randint(1, 3))], outer)
