"""Many patterns matched at once give the same as each on its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import re2
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tamis.encode import text_predicates as texts
from tamis.encode.required_texts import required_text_of_regex
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
    """Counts how often expressions are tried one by one."""

    def __init__(self) -> None:
        self.tried = 0
        self.compile = texts._compile

    def __call__(self, regex: str) -> Any:
        self.tried += 1
        return self.compile(regex)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(texts, "_compile", counted)
    monkeypatch.setattr(texts, "_FEW", 0)
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


# --- Required texts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        ("(a|b)*a(a|b){18}c17", "c17"),
        ("abc", "abc"),
        ("abc?", "ab"),
        ("abc*d+e", "ab"),
        ("xab+c", "xab"),
        ("(?:abc)+d", "abc"),
        ("(?P<n>abc){2}", None),
        ("(abc)?xy", "xy"),
        ("abc|abd", None),
        ("ab(cd|ef)ghi", "ghi"),
        ("(?i)abc", None),
        ("ab(?i:c)", None),
        ("(?s)ab.cde", "cde"),
        (r"a\.b\\c", r"a.b\c"),
        (r"ab\d+cde", "cde"),
        (r"\Qa+b\E", None),
        (r"\x{61}bc", None),
        (r"[]x)(abc]yz", "yz"),
        (r"[[:alpha:]\]ab]yz", "yz"),
        ("a{2}bc", "bc"),
        ("ab{,2}", "ab{,2}"),
        ("ab+?cd", "ab"),
        ("xyz(?s){0,1}", None),
        ("xyz(?s)*abc", None),
        ("a", None),
        ("", None),
    ],
)
def test_the_text_that_a_match_must_contain(regex: str, text: str | None) -> None:
    assert re2.compile(regex) is not None
    assert required_text_of_regex(regex) == text


PIECES = st.sampled_from((
    "a", "b", "ab", "ba", "(", "(?:", "(?i:", ")", "|", "*", "+", "?", "{2}", "{0,1}", "{", "[ab]",
    "[^a]", "[]b]", ".", "^", "$", r"\.", r"\\", r"\w", r"\b", r"\x61", "(?i)", "(?s)", "A",
))  # fmt: skip


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=9).map("".join), st.text("abAB.\\{", max_size=12))
def test_no_match_lacks_its_required_text(regex: str, value: str) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(regex, options)
    except re2.error:
        assume(False)
    text = required_text_of_regex(regex)
    if text is not None and compiled.search(value) is not None:
        assert text in value


HOSTILE = [Predicate("x", Op.RLIKE, (f"(a|b)*a(a|b){{{n % 18 + 1}}}c{n}",)) for n in range(100)]


def test_values_without_a_required_text_reach_no_expression(one_by_one: Counted) -> None:
    found = index(HOSTILE)
    assert found.match(0, "ab" * 50_000) == ()
    assert one_by_one.tried == 0
    assert found.match(0, "ab" * 5_000 + "c17") == tuple(
        n for n in (1, 17) if text_test(HOSTILE[n])("ab" * 50 + "c17")
    )
    assert one_by_one.tried == 2


def test_long_values_never_reach_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set takes time for each combination of its expressions, which a hostile value runs into."""
    lengths = []
    plain = texts._RegexSet(())._set.__class__

    class Noted:
        def __init__(self, options: Any) -> None:
            self.set = plain.SearchSet(options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.set, name)

        def Match(self, value: str) -> Any:
            lengths.append(len(value))
            return self.set.Match(value)

    monkeypatch.setattr(re2, "Set", SimpleNamespace(SearchSet=Noted))
    every = "".join(f"c{n}" for n in range(100))
    agree(HOSTILE, ["ab" * 20 + every, "ab" * 5_000 + every, "ab" * 5_000])
    assert lengths
    assert max(lengths) < texts._LONG


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
