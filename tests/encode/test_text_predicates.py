"""Many patterns matched at once give the same as each on its own."""

from __future__ import annotations

from typing import Any

import pytest
import re2
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tamis.encode import text_predicates as texts
from tamis.encode.text_predicates import TextIndex
from tamis.errors import PatternError
from tamis.expr.model import Op, Predicate
from tamis.expr.patterns import check_pattern, text_test

CHARACTERS = "aAbBİi\u0131IßẞΣσςkK\u212aéÉ🙂%_!\\.^$ \n\x00"
"""Characters that change with case, and those that are special in some pattern."""

VALUES = st.text(st.sampled_from(CHARACTERS), max_size=6)
REGEXES = (
    "a", "^a", "b$", "^$", "", "(?i)σ", "(?i)k", "(?s)a.b", "a.b", "[ab]+", "^[^a]*$", "🙂|ß", "..",
    r"\\", r"\bA", "(a|b){2}", r"\x00", "(?i)i", "(?P<n>a)", "%", "!",
)  # fmt: skip


def _is_valid(predicate: Predicate) -> bool:
    try:
        check_pattern(predicate)
    except PatternError:
        return False
    return True


PREDICATES = st.one_of(
    st.builds(
        lambda op, pattern: Predicate("x", op, (pattern,)),
        st.sampled_from((Op.LIKE, Op.ILIKE)),
        VALUES,
    ),
    st.builds(
        lambda op, pattern, escape: Predicate("x", op, (pattern, escape)),
        st.sampled_from((Op.LIKE, Op.ILIKE)),
        VALUES,
        st.sampled_from("!%_\\aİ"),
    ).filter(_is_valid),
    st.sampled_from(REGEXES).map(lambda regex: Predicate("x", Op.RLIKE, (regex,))),
)


def index(predicates: list[Predicate]) -> TextIndex:
    return TextIndex.of(predicates, {"x": 0})


def agree(predicates: list[Predicate], values: list[str]) -> None:
    found = index(predicates)
    for value in (*values, *values):
        expected = [i for i, predicate in enumerate(predicates) if text_test(predicate)(value)]
        assert list(found.match(0, value)) == expected


@given(st.lists(PREDICATES, min_size=1, max_size=12), st.lists(VALUES, max_size=6))
@example(
    [Predicate("x", Op.ILIKE, ("i",)), Predicate("x", Op.ILIKE, ("%İ%",))], ["İ", "\u0131", "I"]
)
@example([Predicate("x", Op.ILIKE, ("%ς",)), Predicate("x", Op.ILIKE, ("%σ",))], ["ΑΣ", "ας"])
@example([Predicate("x", Op.ILIKE, ("ẞ",)), Predicate("x", Op.ILIKE, ("ss",))], ["ß", "ẞ", "SS"])
def test_matches_agree_with_each_pattern(predicates: list[Predicate], values: list[str]) -> None:
    own = [str(predicate.values[0]) for predicate in predicates]
    agree(predicates, [*values, *own, *(text.swapcase() for text in own)])


ALL = [
    *(Predicate("x", Op.RLIKE, (regex,)) for regex in REGEXES),
    *(Predicate("x", Op.ILIKE, (f"{c}_%",)) for c in CHARACTERS if c not in "%_"),
    *(Predicate("x", Op.LIKE, (f"%{c}%a_",)) for c in CHARACTERS if c not in "%_"),
]
SOME_VALUES = ["", "a", "ab", "aab", "AB", "σς", "İa", "k\u212a", "🙂ß", "a\nb", "\\", "a!%", "ia"]


def test_more_patterns_than_fit_one_set() -> None:
    """Each regular expression under several ids, so that places and ids differ."""
    assert len(ALL * 4) > 2 * texts._SET_SIZE
    agree(ALL * 4, SOME_VALUES)


# --- When an RE2 set fails --------------------------------------------------------------


class Counted:
    """Counts how often patterns are tried one by one."""

    def __init__(self) -> None:
        self.tried = 0

    def __call__(self, predicate: Predicate) -> Any:
        test = text_test(predicate)

        def counted(value: str) -> bool:
            self.tried += 1
            return test(value)

        return counted


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(texts, "text_test", counted)
    return counted


def test_a_working_set_tries_nothing_one_by_one(one_by_one: Counted) -> None:
    agree(ALL, SOME_VALUES)
    assert one_by_one.tried == 0


@pytest.mark.parametrize("memory", [1, 1_000, 20_000, 100_000])
def test_a_set_without_memory_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, one_by_one: Counted, memory: int
) -> None:
    monkeypatch.setattr(texts, "_SET_MEMORY", memory)
    values = [*SOME_VALUES, *("ab" * n + "σ🙂" * n for n in (1, 10, 100))]
    agree(ALL, values)
    assert memory > 1_000 or one_by_one.tried > 0


class SilentSet:
    """An RE2 set that finds nothing, like one that ran out of memory."""

    def Add(self, regex: str) -> int:
        return 0

    def Compile(self) -> None:
        pass

    def Match(self, text: str) -> list[int]:
        return []


@pytest.mark.usefixtures("one_by_one")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(PREDICATES, min_size=1, max_size=6), st.lists(VALUES, min_size=1, max_size=4))
def test_a_silent_set_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, predicates: list[Predicate], values: list[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(re2.Set, "SearchSet", lambda options: SilentSet())
        agree(predicates, values)


# --- The cache --------------------------------------------------------------------------


def test_a_value_is_evaluated_once(monkeypatch: pytest.MonkeyPatch, one_by_one: Counted) -> None:
    monkeypatch.setattr(re2.Set, "SearchSet", lambda options: SilentSet())
    found = index([Predicate("x", Op.RLIKE, ("a",))])
    for _ in range(3):
        assert found.match(0, "abc") == (0,)
    assert one_by_one.tried == 1


def test_a_full_cache_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_MOST_CACHED", 2)
    agree(ALL, SOME_VALUES * 2)


def test_attributes_do_not_mix() -> None:
    predicates = [
        Predicate("x", Op.RLIKE, ("a",)),
        Predicate("y", Op.RLIKE, ("a",)),
        Predicate("x", Op.ILIKE, ("%A%",)),
    ]
    found = TextIndex.of(predicates, {"z": 0, "x": 1, "y": 2})
    assert found.size == 3
    assert [number in found.attributes for number in range(3)] == [False, True, True]
    assert found.match(1, "ba") == (0, 2)
    assert found.match(2, "ba") == (1,)


def test_literals_that_are_everywhere_are_looked_up_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patterns = [f"{'a' * n}b" for n in range(3)] + ["a" * n for n in range(1, 40)]
    forms = ("%{}%", "{}%", "%{}", "{}")
    predicates = [
        Predicate("x", op, (form.format(pattern),))
        for op in (Op.LIKE, Op.ILIKE)
        for form in forms
        for pattern in patterns
    ]
    monkeypatch.setattr(texts, "_SHORT", 0)
    agree(predicates, ["a" * 39, "a" * 200, "A" * 20 + "a" * 30, "b" + "a" * 100, "aaab"])


def test_two_thousand_literals_in_a_long_run_of_one_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = 0

    class Automaton:
        """The automaton, which counts the places that it lists."""

        def __init__(self, words: Any) -> None:
            self._words = words

        def iter(self, value: str) -> Any:
            nonlocal listed
            for place in self._words.iter(value):
                listed += 1
                yield place

    found = texts._LiteralSet([(n, texts._Literal("a" * n, False, False)) for n in range(1, 2001)])
    monkeypatch.setattr(found, "_automaton", Automaton(found._automaton))
    assert found.match("a" * 1500) == set(range(1, 1501))
    assert listed <= 10 * (1500 + texts._SHORT)
