"""Reads the neutral trees of the shared data: ``["and", ["ge", "libc6@v", 34], …]``.

Two corpora use them. Debian's compare integers. Sigma's compare texts without case, and its
events are made into texts first, as ``../shared/data/README.md`` says; its rules are for
the weak logic, where a missing field under a NOT holds.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tamis.expr.model import Expr, Not, Op, Predicate, all_of, any_of

Tree = list[Any]
Leaf = Callable[[Tree], Expr]

UNSUPPORTED = frozenset({"keyword", "fieldref", "placeholder"})
"""Leaves that look at no field, at two, or at a list that only a site can fill in."""

ESCAPE = "!"
"""Stands before a wildcard taken literally; a backslash is in every Windows path."""


def read_lines(path: Path) -> Iterator[Any]:
    """The values of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def rules_by_event(table: pa.Table) -> dict[int, list[Any]]:
    """The answer of ``match_many`` by event; a rule found twice is there twice."""
    found: dict[int, list[Any]] = {}
    for event, rule in zip(*(table[name].to_pylist() for name in ("event", "rule")), strict=True):
        found.setdefault(event, []).append(rule)
    return found


def operators(tree: Tree) -> set[str]:
    """The operators of a tree's leaves."""
    if tree[0] in {"and", "or", "not"}:
        return set().union(*map(operators, tree[1:]))
    return {tree[0]}


def debian_rule(tree: Tree) -> Expr:
    """A rule over integers."""
    return _rule(tree, _integer_leaf)


def sigma_rule(tree: Tree) -> Expr:
    """A rule over texts, for events that :func:`sigma_event` made."""
    return _rule(tree, _text_leaf)


def sigma_event(event: dict[str, Any]) -> dict[str, list[str]]:
    """An event with all values as texts, and IP addresses as bits too."""
    texts = {name: _texts(value) for name, value in event.items()}
    if not texts.get("Provider_Name"):
        texts["Provider_Name"] = texts.get("SourceName", [])
    bits = {_bits_name(name): _bits(values) for name, values in texts.items()}
    return {name: values for name, values in (texts | bits).items() if values}


def _rule(tree: Tree, leaf: Leaf) -> Expr:
    operator, *rest = tree
    match operator:
        case "and":
            return all_of(*[_rule(child, leaf) for child in rest])
        case "or":
            return any_of(*[_rule(child, leaf) for child in rest])
        case "not":
            (child,) = rest
            return Not(_rule(child, leaf))
    return leaf(tree)


_INTEGER_OPS = {"eq": Op.EQ, "lt": Op.LT, "le": Op.LE, "gt": Op.GT, "ge": Op.GE}


def _integer_leaf(leaf: Tree) -> Expr:
    operator, attribute, value = leaf
    return Predicate(attribute, _INTEGER_OPS[operator], (value,))


def _text_leaf(leaf: Tree) -> Expr:
    operator, field, value, *rest = leaf
    match operator:
        case "exists":
            return Predicate(field, Op.PRESENT, negated=not value)
        case "regex":
            (flags,) = rest
            return Predicate(field, Op.RLIKE, (f"(?{flags}){value}" if flags else value,))
        case "cidr":
            return Predicate(_bits_name(field), Op.LIKE, (_network(value),))
        case "glob":
            return _without_case(field, value)
        case "contains":
            return _without_case(field, [{"*": 1}, value, {"*": 1}])
        case "startswith":
            return _without_case(field, [value, {"*": 1}])
        case "endswith":
            return _without_case(field, [{"*": 1}, value])
        case "eq":
            return _without_case(field, _texts(value))
    raise ValueError(f"no leaf of a Sigma rule: {leaf}")


def _without_case(field: str, parts: Sequence[str | dict[str, int]]) -> Predicate:
    """Texts and wildcards in a row as an ILIKE, or as = where no letter has a case."""
    text = "".join(part for part in parts if isinstance(part, str))
    if parts == [text] and text.lower() == text.upper():
        return Predicate(field, Op.EQ, (text,))
    pattern = "".join(
        _literally(part) if isinstance(part, str) else {"*": "%", "?": "_"}[next(iter(part))]
        for part in parts
    )
    return Predicate(field, Op.ILIKE, (pattern, ESCAPE) if ESCAPE in pattern else (pattern,))


def _literally(text: str) -> str:
    for special in (ESCAPE, "%", "_"):
        text = text.replace(special, ESCAPE + special)
    return text


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, str):
        return [value]
    return [json.dumps(value)]


def _bits_name(field: str) -> str:
    return f"{field} (bits)"


def _bits(texts: list[str]) -> list[str]:
    """IP addresses as their version and bits, so that a network is a prefix."""
    found = []
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        found.append(f"{address.version}:{int(address):0{address.max_prefixlen}b}")
    return found


def _network(text: str) -> str:
    network = ipaddress.ip_network(text)
    (bits,) = _bits([str(network.network_address)])
    return bits[: 2 + network.prefixlen] + "%"
