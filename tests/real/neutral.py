"""Reads the neutral trees of the shared data: ``["and", ["ge", "libc6@v", 34], …]``.

Two corpora use them. Debian's trees compare integers. Sigma's compare texts without case, and the
values of its events are converted to texts first, as ``../shared/data/README.md`` describes. Its
rules use the weak logic, where the NOT of a missing field holds.
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
"""Leaves on no field, on two fields, or on a list that each site fills in."""

ESCAPE = "!"
"""Precedes a literal wildcard; not a backslash, which every Windows path contains."""


def read_lines(path: Path) -> Iterator[Any]:
    """The values of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def group_by_event(table: pa.Table) -> dict[int, list[Any]]:
    """The result of ``match_many`` by event; a rule found twice is listed twice."""
    found: dict[int, list[Any]] = {}
    for event, rule in zip(*(table[name].to_pylist() for name in ("event", "rule")), strict=True):
        found.setdefault(event, []).append(rule)
    return found


def list_operators(tree: Tree) -> set[str]:
    """The operators of a tree's leaves."""
    if tree[0] in {"and", "or", "not"}:
        return set().union(*map(list_operators, tree[1:]))
    return {tree[0]}


def build_debian_rule(tree: Tree) -> Expr:
    """A rule over integers."""
    return _build_rule(tree, _integer_leaf)


def build_sigma_rule(tree: Tree) -> Expr:
    """A rule over texts, for events from :func:`convert_sigma_event`."""
    return _build_rule(tree, _text_leaf)


def convert_sigma_event(event: dict[str, Any]) -> dict[str, list[str]]:
    """An event with all values as texts, and IP addresses as bits too."""
    texts = {name: _to_texts(value) for name, value in event.items()}
    if not texts.get("Provider_Name"):
        texts["Provider_Name"] = texts.get("SourceName", [])
    bits = {_bits_name(name): _to_bits(values) for name, values in texts.items()}
    return {name: values for name, values in (texts | bits).items() if values}


def _build_rule(tree: Tree, leaf: Leaf) -> Expr:
    operator, *rest = tree
    match operator:
        case "and":
            return all_of(*[_build_rule(child, leaf) for child in rest])
        case "or":
            return any_of(*[_build_rule(child, leaf) for child in rest])
        case "not":
            (child,) = rest
            return Not(_build_rule(child, leaf))
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
            return Predicate(_bits_name(field), Op.LIKE, (_network_pattern(value),))
        case "glob":
            return _ignore_case(field, value)
        case "contains":
            return _ignore_case(field, [{"*": 1}, value, {"*": 1}])
        case "startswith":
            return _ignore_case(field, [value, {"*": 1}])
        case "endswith":
            return _ignore_case(field, [{"*": 1}, value])
        case "eq":
            return _ignore_case(field, _to_texts(value))
    raise ValueError(f"not a leaf of a Sigma rule: {leaf}")


def _ignore_case(field: str, parts: Sequence[str | dict[str, int]]) -> Predicate:
    """A sequence of texts and wildcards as an ILIKE, or as = if no letter has a case."""
    text = "".join(part for part in parts if isinstance(part, str))
    if parts == [text] and text.lower() == text.upper():
        return Predicate(field, Op.EQ, (text,))
    pattern = "".join(
        _escape(part) if isinstance(part, str) else {"*": "%", "?": "_"}[next(iter(part))]
        for part in parts
    )
    return Predicate(field, Op.ILIKE, (pattern, ESCAPE) if ESCAPE in pattern else (pattern,))


def _escape(text: str) -> str:
    for special in (ESCAPE, "%", "_"):
        text = text.replace(special, ESCAPE + special)
    return text


def _to_texts(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [text for item in value for text in _to_texts(item)]
    if isinstance(value, str):
        return [value]
    return [json.dumps(value)]


def _bits_name(field: str) -> str:
    return f"{field} (bits)"


def _to_bits(texts: list[str]) -> list[str]:
    """IP addresses as their version and bits, so that a network is a prefix."""
    found = []
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        found.append(f"{address.version}:{int(address):0{address.max_prefixlen}b}")
    return found


def _network_pattern(text: str) -> str:
    network = ipaddress.ip_network(text)
    (bits,) = _to_bits([str(network.network_address)])
    return bits[: 2 + network.prefixlen] + "%"
