"""No analysis is exponential, and each looks at the clock often enough to be given up.

Twice the rule takes at most five times the steps. Rules are of the forms that are hard for one
analysis or another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import tamis
from tamis.expr.analysis import prove, why_not
from tamis.expr.analysis.repairs import suggest_edits
from tamis.matcher.analysis import similar
from tests.growth import TooManyStepsError, check_growth

_LONGEST: Final = 150_000
"""How many steps an analysis may take between two looks at the clock: less than 0.1 s."""


def join(word: str, form: str) -> Callable[[int], str]:
    """A rule of so many parts; # in its form is the number of the part, and @ the next one."""

    def write(size: int) -> str:
        return f" {word} ".join(
            form.replace("@", str((k + 1) % size)).replace("#", str(k)) for k in range(size)
        )

    return write


RULES: Final[dict[str, Callable[[int], str]]] = {
    "and": join("AND", "a# = #"),
    "and of ors": join("AND", "(a# = # OR b# = #)"),
    "or of ands": join("OR", "(a# = # AND b# = #)"),
    "likes": join("AND", "(a LIKE '%x#%' OR b LIKE '%y#%')"),
    "likes of one": join("AND", "a LIKE '%x#%'"),
    "negated likes": join("AND", "a NOT LIKE '%x#%'"),
    "two attributes": join("AND", "(a <> # OR b <> #)"),
    "ranges": join("OR", "a BETWEEN # AND #9"),
    "ands of ranges": join("AND", "(a > # OR b < #)"),
    "presence": join("AND", "(a# IS NULL OR a@ IS NOT NULL)"),
    "functions": join("AND", "(lower(a#) = 'x' OR length(a#) > #)"),
    "sum": lambda size: " + ".join(["a"] * size) + " > 3",
    "lists": lambda size: f"a IN ({', '.join(map(str, range(size)))})",
    "nested": lambda size: (
        "".join(f"(a{k} = 1 {'AND' if k % 2 else 'OR'} NOT " for k in range(min(size, 40)))
        + "z = 1"
        + ")" * min(size, 40)
    ),
}


def make_event(size: int) -> dict[str, Any]:
    return {**{f"a{k}": k + 1 for k in range(size)}, "a": 3, "b": "x"}


def make_matcher(text: str) -> tamis.Matcher:
    matcher = tamis.Matcher()
    matcher.add_many([(number, f"a{number} = {number} OR a = {number}") for number in range(5)])
    matcher.add("r", text)
    return matcher


def repair(matcher: tamis.Matcher, event: dict[str, Any]) -> None:
    for change in matcher.why_not("r", event).changes or ():
        suggest_edits(tamis.parse(change.text), "strong")


Ask = Callable[[tamis.Matcher, str, dict[str, Any]], Any]

ANALYSES: Final[dict[str, Ask]] = {
    "similar": lambda matcher, text, _: matcher.similar(text, 1, seed=1),
    "lint": lambda matcher, *_: matcher.lint(),
    "repairs": lambda matcher, _, event: repair(matcher, event),
    "explain": lambda matcher, _, event: str(matcher.explain("r", event)),
    "why": lambda matcher, _, event: matcher.why(event),
    "describe": lambda _, text, __: tamis.describe(text),
    "boundaries": lambda matcher, _, event: matcher.boundaries(event, "a"),
    "anatomy": lambda matcher, *_: matcher.anatomy(),
    "check": lambda matcher, _, event: matcher.check([event] * 3),
    "test": lambda matcher, *_: matcher.test(),
    "backtest": lambda matcher, text, event: matcher.backtest(text, [event] * 3),
    "match_expression": lambda matcher, text, _: matcher.match_expression(text),
    "uses": lambda matcher, *_: (matcher.uses(), matcher.mentioned("a")),
    "add": lambda matcher, text, _: matcher.add("q", text),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_analyses_grow_with_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # With these bounds, small rules reach what large ones do.
    for module, bound, value in (
        (similar, "_EVENTS", 2),
        (similar, "_EVENTS_BACK", 2),
        (similar, "_LEAST_EVENTS", 1),
        (prove, "_MOST_EFFORT", 3_000),
        (why_not, "_MOST_WAYS", 8),
    ):
        monkeypatch.setattr(module, bound, value)
    ask = ANALYSES[name]
    for case, write in RULES.items():

        def prepare(size: int, write: Callable[[int], str] = write) -> Callable[[], Any]:
            text = write(max(size, 2))
            matcher, event = make_matcher(text), make_event(size)
            return lambda: ask(matcher, text, event)

        try:
            steps = check_growth(prepare, 10 if name == "similar" else 24)
        except (AssertionError, TooManyStepsError) as error:
            raise AssertionError(case, *error.args) from None
        assert steps.longest <= _LONGEST, case
