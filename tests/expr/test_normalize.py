"""Normal forms: they mean the same as the rule, they stay small, and covers are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.encode.arrays import FormArrays
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent, flatten
from tamis.expr.model import (
    FALSE,
    LOGICS,
    TRUE,
    And,
    Atom,
    Expr,
    Logic,
    Not,
    Op,
    Or,
    Predicate,
    map_predicates,
    predicates,
)
from tamis.expr.normalize import BUDGET, Clause, cnf, cover, dnf, nnf, simplify
from tamis.expr.text.grammar import parse
from tests.strategies import attributes, expressions, values

NARROW = ("a", "b")
"""Few attributes, so that most predicates of a rule share theirs with another."""


def _narrow(expr: Expr) -> Expr:
    def move(predicate: Predicate) -> Predicate:
        name = NARROW[len(predicate.attribute) % len(NARROW)]
        return Predicate(name, predicate.op, predicate.values, predicate.negated)

    return map_predicates(expr, move)


RULES = expressions() | expressions().map(_narrow)
EVENTS = st.dictionaries(
    attributes() | st.sampled_from(NARROW), st.lists(values(), max_size=3), max_size=6
).map(flatten)
SINGLE = st.dictionaries(attributes() | st.sampled_from(NARROW), values(), max_size=6).map(flatten)
LOGIC = st.sampled_from(LOGICS)


def matches(expr: Expr, event: FlatEvent, logic: Logic = "strong") -> bool:
    return evaluate_flat(expr, event, logic) is True


def normal(text: str, logic: Logic = "strong") -> Expr:
    return nnf(parse(text), logic)


def any_clause(clauses: list[Clause]) -> Expr:
    return Or(tuple(And(clause) for clause in clauses))


def every_clause(clauses: list[Clause]) -> Expr:
    return And(tuple(Or(clause) for clause in clauses))


def only_atoms(expr: Expr) -> bool:
    """Whether `expr` is a tree of And, Or and Atom."""
    if isinstance(expr, And | Or):
        return all(map(only_atoms, expr.children))
    return isinstance(expr, Atom)


# --- The same answers -------------------------------------------------------------------


@given(RULES, EVENTS, LOGIC)
def test_nnf_means_the_same(rule: Expr, event: FlatEvent, logic: Logic) -> None:
    tree = nnf(rule, logic)
    assert only_atoms(tree)
    assert matches(tree, event) == matches(rule, event, logic)


@given(RULES, EVENTS, LOGIC)
def test_simplify_means_the_same(rule: Expr, event: FlatEvent, logic: Logic) -> None:
    tree = simplify(nnf(rule, logic))
    assert only_atoms(tree)
    assert matches(tree, event) == matches(rule, event, logic)


@given(RULES, EVENTS, LOGIC)
def test_dnf_means_the_same(rule: Expr, event: FlatEvent, logic: Logic) -> None:
    tree = nnf(rule, logic)
    for start in (tree, simplify(tree)):
        clauses = dnf(start, budget=10_000)
        assert clauses is not None
        assert matches(any_clause(clauses), event) == matches(rule, event, logic)


@given(RULES, EVENTS, LOGIC)
def test_cnf_means_the_same(rule: Expr, event: FlatEvent, logic: Logic) -> None:
    tree = nnf(rule, logic)
    for start in (tree, simplify(tree)):
        clauses = cnf(start, budget=10_000)
        assert clauses is not None
        assert matches(every_clause(clauses), event) == matches(rule, event, logic)


@given(RULES, SINGLE, LOGIC)
def test_scalars_mean_the_same_on_single_values(rule: Expr, event: FlatEvent, logic: Logic) -> None:
    scalars = {predicate.attribute for predicate in predicates(rule)}
    tree = simplify(nnf(rule, logic), scalars)
    clauses = dnf(tree, budget=10_000, scalars=scalars)
    assert clauses is not None
    assert matches(tree, event) == matches(rule, event, logic)
    assert matches(any_clause(clauses), event) == matches(rule, event, logic)


@given(RULES, LOGIC)
def test_simplify_never_grows_a_tree(rule: Expr, logic: Logic) -> None:
    tree = nnf(rule, logic)
    assert len(list(predicates(simplify(tree)))) <= len(list(predicates(tree)))


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("x > 3 AND x < 2", {"x": [1, 9]}),
        ("a = 1 AND a = 2", {"a": [1, 2]}),
        ("a IN (1, 2) AND a IN (2, 3)", {"a": [1, 3]}),
        ("x BETWEEN 1 AND 2 AND x BETWEEN 3 AND 4", {"x": [1, 4]}),
        ("a = 1 AND a = 'one'", {"a": [1, "one"]}),
        ("a > 1 AND a > 'a'", {"a": [2, "b"]}),
    ],
)
def test_several_values_may_satisfy_what_one_cannot(text: str, event: dict[str, Any]) -> None:
    tree, flat = normal(text), flatten(event)
    clauses, disjunctions = dnf(tree), cnf(tree)
    assert clauses is not None
    assert disjunctions is not None
    for form in (tree, simplify(tree), any_clause(clauses), every_clause(disjunctions)):
        assert matches(form, flat)
    scalars = set(flat)
    assert simplify(tree, scalars) != simplify(tree)
    assert not matches(simplify(tree, scalars), flat), "declared to have one value"


# --- One predicate, either kind of negation ---------------------------------------------

WEAK = Atom(Predicate("state", Op.IN, ("CA", "NY")), negated=True, if_absent=True)
STRONG = Atom(Predicate("state", Op.IN, ("CA", "NY")), negated=True, if_absent=False)


@pytest.mark.parametrize(
    ("text", "logic", "atom"),
    [
        ("state IS NULL OR state NOT IN ('CA', 'NY')", "strong", WEAK),
        ("state NOT IN ('CA', 'NY') OR state IS NULL", "strong", WEAK),
        ("NOT (state IS NOT NULL AND state IN ('CA', 'NY'))", "strong", WEAK),
        ("state IS NOT NULL AND state NOT IN ('CA', 'NY')", "weak", STRONG),
        ("state NOT IN ('CA', 'NY') AND state IS NOT NULL", "weak", STRONG),
        ("NOT (state IS NULL OR state IN ('CA', 'NY'))", "weak", STRONG),
        ("state NOT IN ('CA', 'NY')", "strong", STRONG),
        ("state NOT IN ('CA', 'NY')", "weak", WEAK),
    ],
)
def test_either_negation_in_either_logic_is_one_atom(text: str, logic: Logic, atom: Atom) -> None:
    assert simplify(normal(text, logic)) == atom


def test_the_other_negation_multiplies_no_conjunctions() -> None:
    text = " AND ".join(f"(a{i} IS NULL OR a{i} NOT IN (1, 2))" for i in range(40))
    clauses = dnf(simplify(normal(text)))
    assert clauses is not None
    assert [len(clause) for clause in clauses] == [40]


# --- Absorption, by hand ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1 AND x = 1", "x = 1"),
        ("x = 1 OR x = 1.0", "x = 1"),
        ("x = 1 AND y = 2 AND x = 1", "x = 1 AND y = 2"),
        ("(x = 1 OR y = 2) AND (x = 1 OR y = 2)", "x = 1 OR y = 2"),
        ("x > 3 AND x > 5", "x > 5"),
        ("x > 5 AND x >= 5", "x > 5"),
        ("x > 3 OR x > 5", "x > 3"),
        ("x < 3 AND x <= 3", "x < 3"),
        ("x BETWEEN 2 AND 3 AND x BETWEEN 1 AND 9", "x BETWEEN 2 AND 3"),
        ("x BETWEEN 2 AND 3 AND x > 1", "x BETWEEN 2 AND 3"),
        ("x > 'a' AND x > 1", "x > 'a' AND x > 1"),
        ("x IN (1, 2) AND x IN (1, 2, 3)", "x IN (1, 2)"),
        ("x IN (1, 2, 3) AND x = 2", "x = 2"),
        ("x = 4 AND x > 3", "x = 4"),
        ("x = 'ab' AND x LIKE 'a%'", "x = 'ab'"),
        ("x = 1 OR x = 2", "x IN (1, 2)"),
        ("x = 1 OR x IN (2, 3) OR x = 1.0", "x IN (1, 2, 3)"),
        ("x = 1 OR x = TRUE", "x IN (1, TRUE)"),
        ("x = 1 OR y = 2 OR x = 3", "x IN (1, 3) OR y = 2"),
        ("x <> 1 AND x <> 2", "x NOT IN (1, 2)"),
        ("x <> 1 AND x NOT IN (2, 3)", "x NOT IN (1, 2, 3)"),
        ("x <> 1 OR x <> 2", "x <> 1 OR x <> 2"),
        ("x NOT IN (1, 2) OR x <> 1", "x <> 1"),
        ("NOT x > 3 AND NOT x > 5", "NOT x > 3"),
        ("x IS NOT NULL AND x = 1", "x = 1"),
        ("x IS NOT NULL AND NOT x LIKE 'a_b'", "NOT x LIKE 'a_b'"),
        ("x IS NOT NULL OR x = 1", "x IS NOT NULL"),
        ("TRUE AND x = 1", "x = 1"),
        ("FALSE OR x = 1", "x = 1"),
        ("x = 1 OR TRUE", "TRUE"),
        ("x = 1 AND FALSE", "FALSE"),
        ("x = 1 AND (y = 2 AND (z = 3 OR FALSE))", "x = 1 AND y = 2 AND z = 3"),
    ],
)
def test_absorption(before: str, after: str) -> None:
    assert simplify(normal(before)) == normal(after)


def test_a_conjunction_that_contains_another_is_dropped() -> None:
    assert dnf(normal("x = 1 OR (x = 1 AND y = 2)")) == dnf(normal("x = 1"))
    assert cnf(normal("x = 1 AND (x = 1 OR y = 2)")) == cnf(normal("x = 1"))


@pytest.mark.parametrize("constant", [TRUE, FALSE])
def test_constants_as_clauses(constant: And | Or) -> None:
    holds = constant == TRUE
    assert dnf(constant) == ([()] if holds else [])
    assert cnf(constant) == ([] if holds else [()])


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("x > 3 AND x < 2", "FALSE"),
        ("x > 3 AND x <= 3", "FALSE"),
        ("a = 1 AND a = 2", "FALSE"),
        ("a IN (1, 2) AND a IN (3, 4)", "FALSE"),
        ("a = 1 AND a > 1", "FALSE"),
        ("a = 1 AND a <> 1", "FALSE"),
        ("a = 1 AND a IS NULL", "FALSE"),
        ("x > 3 AND x > 'a'", "FALSE"),
        ("x > 3 AND x BETWEEN 9 AND 5", "FALSE"),
        ("a IN (1, 2) AND a IN (2, 3)", "a = 2"),
        ("a IN (1, 2, 3) AND a <> 2", "a IN (1, 3)"),
        ("a IN ('x', 'xy', 'z') AND a LIKE 'x%'", "a IN ('x', 'xy')"),
        ("(a = 1 AND a = 2) OR b = 3", "b = 3"),
        ("x >= 3 AND x <= 3", "x >= 3 AND x <= 3"),
        ("c = 1 AND c = 2", "c = 1 AND c = 2"),
    ],
)
def test_single_values_are_intersected(text: str, after: str) -> None:
    assert simplify(normal(text), {"a", "b", "x"}) == normal(after)


# --- The budget -------------------------------------------------------------------------

_names = count()


def fresh() -> Predicate:
    """A predicate on its own attribute, so that nothing can be absorbed."""
    return Predicate(f"a{next(_names)}", Op.EQ, (1,))


def some(outer: Callable[[tuple[Expr, ...]], Expr], size: int) -> Expr:
    return outer(tuple(fresh() for _ in range(size)))


def exploding() -> Expr:
    """An AND of ORs whose product is 4×10^10 conjunctions, as large as real rules get."""
    return And(tuple(some(Or, size) for size in (*[2] * 12, *[10] * 7)))


def encode(*rules: Expr) -> EncodedRules:
    encoder = RuleEncoder()
    for rule in rules:
        encoder.add(rule, "strong")
    return encoder.finish()


def test_a_rule_past_the_budget_is_not_expanded() -> None:
    rule = exploding()
    assert dnf(nnf(rule, "strong")) is None
    assert cnf(nnf(Not(rule), "strong")) is None


def test_its_program_has_one_instruction_an_atom() -> None:
    rule = exploding()
    forms = encode(rule).forms
    assert len(forms.conjunction_start) == 1
    assert len(forms.program) == len(list(predicates(rule))) == 12 * 2 + 7 * 10
    assert 1 <= len(forms.cover_atom) <= 10


def test_the_budget_counts_atoms() -> None:
    square = And((some(Or, 8), some(Or, 8)))
    assert dnf(nnf(square, "strong"), budget=8 * 8 * 2) is not None
    assert dnf(nnf(square, "strong"), budget=8 * 8 * 2 - 1) is None


def test_a_large_rule_may_expand_to_twice_its_size() -> None:
    wide = some(Or, 4 * BUDGET)
    clauses = dnf(nnf(wide, "strong"))
    assert clauses is not None
    assert len(clauses) == 4 * BUDGET


def alternating(depth: int) -> Expr:
    tree: Expr = fresh()
    for level in range(depth):
        tree = (And if level % 2 else Or)((fresh(), tree, fresh()))
    return tree


SHAPES: dict[str, Callable[[int], Expr]] = {
    "AND": lambda n: some(And, n),
    "OR": lambda n: some(Or, n),
    "AND of ORs": lambda n: And(tuple(some(Or, 2) for _ in range(n))),
    "OR of ANDs": lambda n: Or(tuple(some(And, 2) for _ in range(n))),
    "two long ORs": lambda n: And((some(Or, n), some(Or, n))),
    "a long OR beside a long AND": lambda n: And((some(Or, n), some(And, n))),
    "OR of ANDs of ORs": lambda n: Or(
        tuple(And((some(Or, 3), some(Or, 3), some(Or, 3))) for _ in range(n))
    ),
    "NOT of an OR of ANDs": lambda n: Not(Or(tuple(some(And, 3) for _ in range(n)))),
    "a long chain": lambda n: And(
        (alternating(min(n, 100)), *(some(Or, 2) for _ in range(n)), fresh())
    ),
}


def count_stored(rules: EncodedRules) -> int:
    """How many numbers are stored for the forms of `rules`."""
    forms: FormArrays = rules.forms
    return sum(array.size for array in forms) + rules.scores.code.size


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [10, 100, 1_000])
def test_what_is_stored_is_linear_in_the_rule(shape: str, size: int) -> None:
    rule = SHAPES[shape](size)
    leaves = len(list(predicates(rule)))
    assert count_stored(encode(rule)) <= 4 * BUDGET + 12 * leaves


def test_long_rules_become_programs_as_long() -> None:
    size = 20_000
    assert len(encode(some(And, size)).forms.program) == size
    forms = encode(And((some(Or, size), some(Or, size)))).forms
    assert len(forms.program) == 2 * size
    assert len(forms.cover_atom) == size


# --- Covers -----------------------------------------------------------------------------


def flat_cost(atom: Atom) -> float:
    return float(len(atom.predicate.values))


@given(RULES, EVENTS, LOGIC)
def test_an_event_that_satisfies_a_rule_satisfies_its_cover(
    rule: Expr, event: FlatEvent, logic: Logic
) -> None:
    for tree in (nnf(rule, logic), simplify(nnf(rule, logic))):
        found = cover(tree, flat_cost)
        if found is not None and matches(tree, event):
            assert any(matches(atom, event) for atom in found)


@given(RULES, LOGIC)
def test_only_rules_that_an_empty_event_satisfies_have_no_cover(rule: Expr, logic: Logic) -> None:
    tree = nnf(rule, logic)
    found = cover(tree, flat_cost)
    assert (found is None) == matches(tree, {})
    assert not any(atom.negated or atom.if_absent for atom in found or ())


@pytest.mark.parametrize(
    ("text", "logic", "keys"),
    [
        ("cheap = 1 AND dear = 1", "strong", "cheap = 1"),
        ("dear = 1 AND (cheap = 1 OR dear2 = 1)", "strong", "dear = 1"),
        ("dear = 1 AND (cheap = 1 OR cheap2 = 2)", "strong", "cheap = 1 OR cheap2 = 2"),
        ("cheap = 1 OR dear = 1", "strong", "cheap = 1 OR dear = 1"),
        ("cheap = 1 OR cheap = 1", "strong", "cheap = 1"),
        ("dear <> 1", "strong", "dear IS NOT NULL"),
        ("cheap <> 1 AND dear = 1", "strong", "cheap IS NOT NULL"),
        ("cheap <> 1 AND dear = 1", "weak", "dear = 1"),
        ("cheap <> 1", "weak", None),
        ("cheap <> 1 OR dear = 1", "weak", None),
        ("cheap IS NULL", "strong", None),
        ("TRUE", "strong", None),
        ("dear = 1 AND TRUE", "strong", "dear = 1"),
    ],
)
def test_the_cheapest_cover_is_chosen(text: str, logic: Logic, keys: str | None) -> None:
    def cost(atom: Atom) -> float:
        return 1.0 if atom.predicate.attribute.startswith("cheap") else 10.0

    expected = None if keys is None else tuple(_atoms(normal(keys)))
    assert cover(normal(text, logic), cost) == expected


def test_nothing_satisfies_the_cover_of_false() -> None:
    assert cover(FALSE, flat_cost) == ()


def _atoms(tree: Expr) -> Iterable[Atom]:
    if isinstance(tree, Atom):
        return [tree]
    assert isinstance(tree, Or)
    return [atom for child in tree.children for atom in _atoms(child)]
