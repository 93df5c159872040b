"""``tamis stats``: show the size of a collection of rules, and what its rules use."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tamis
from tamis.cli.arguments import (
    AsJson,
    EngineOverride,
    Logic,
    LogicOverride,
    RulesPaths,
    add_rules,
    is_stored,
)
from tamis.cli.console import ShowProgress, print_json, print_line, print_table, progress
from tamis.expr.model import Op, Predicate, predicates
from tamis.expr.names import display_name
from tamis.expr.text.bulk import BulkReader
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule

__all__ = ["show_stats"]

_MOST_USED = 10
"""How many attributes are shown, the most used first."""


def show_stats(
    rules: RulesPaths,
    engine: EngineOverride = None,
    logic: LogicOverride = None,
    as_json: AsJson = False,
) -> None:
    """Show how large a collection is; for a file, also the attributes its rules use."""
    if len(rules) == 1 and is_stored(rules[0]):
        with tamis.open(rules[0], read_only=True, engine=engine, logic=logic) as matcher:
            stats = matcher.stats()
        if as_json:
            print_json(stats)
        else:
            _print_sizes(stats)
        return
    matcher = Matcher(engine or "auto", logic or Logic.STRONG)
    with progress() as show:
        loaded = add_rules(matcher, rules, logic or Logic.STRONG, False, show)
        attributes, operators = _count_uses(loaded, show)
    stats = matcher.stats()
    if as_json:
        print_json({**stats, "attribute_uses": dict(attributes), "operator_uses": dict(operators)})
        return
    _print_sizes(stats)
    print_line()
    print_table(attributes.most_common(_MOST_USED), ("attribute", "predicates"))
    print_line()
    print_table(operators.most_common(), ("operator", "predicates"))


def _print_sizes(stats: dict[str, Any]) -> None:
    flat = {name: value for name, value in stats.items() if not isinstance(value, dict)}
    flat |= {f"{kind} bytes": size for kind, size in stats.get("stored_bytes", {}).items()}
    print_table([(name.replace("_", " "), value) for name, value in flat.items()])


def _count_uses(rules: list[Rule], show: ShowProgress) -> tuple[Counter[str], Counter[str]]:
    """Count the predicates on each attribute and with each operator."""
    attributes: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    reader = BulkReader()
    for i, rule in enumerate(rules):
        expr = reader.parse(rule.source) if isinstance(rule.source, str) else rule.source
        for predicate in predicates(expr):
            attributes[display_name(predicate.attribute)] += 1
            operators[_spell_operator(predicate)] += 1
        if i % 10_000 == 0:
            show("Counting predicates", i, i / len(rules))
    return attributes, operators


def _spell_operator(predicate: Predicate) -> str:
    if not predicate.negated:
        return predicate.op
    return {Op.EQ: "<>", Op.PRESENT: "IS NULL"}.get(predicate.op, f"NOT {predicate.op}")
