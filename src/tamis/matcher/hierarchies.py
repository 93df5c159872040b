"""Hierarchies that users declare for attributes: taxonomies, and levels of a path.

Section 2.3 of the k-index paper: a rule may name any node, ``date ∈ {2006/12, 2007}``, and an event
names a leaf, which belongs to all nodes above it. The paper expands the event's value to the path
from the leaf to the root. Here rules are expanded instead, once, when they are added: ``=`` and
``IN`` become a list of values or of beginnings of values. So events, engines and files need nothing
new, and all other operators see the value itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from tamis.errors import RuleError, SchemaError
from tamis.expr.model import Expr, Not, Op, Predicate, any_of
from tamis.matcher.analysis.near_names import find_near, list_near

__all__ = ["Hierarchy", "Levels", "Taxonomy", "read_hierarchy"]

SEPARATOR: Final = "/"
"""What separates the levels of a value: ``2008/02/14``."""

_ESCAPE: Final = "!"

_MOST_NEAR: Final = 20_000
"""In a larger taxonomy it takes too long to look for nodes with a similar name."""


class Hierarchy(Protocol):
    """The nodes that the values of an attribute belong to.

    Attributes
    ----------
    text
        The declaration, as it is stored.
    is_one_predicate
        Whether `expand` gives a single predicate.
    """

    text: str
    is_one_predicate: bool

    def expand(self, predicate: Predicate) -> Expr:
        """``=`` and ``IN`` in terms of values; other predicates unchanged.

        Raises
        ------
        RuleError
            A literal is not a node.
        """

    def path(self, value: str) -> list[str]:
        """The nodes that a value belongs to, itself first and the root last."""


class Levels:
    """Values that are paths: ``levels(year, month, day)`` has ``2008``, ``2008/02``, ….

    Parameters
    ----------
    attribute
        The attribute, for errors.
    names
        The names of the levels, from the root on.
    """

    is_one_predicate = False

    def __init__(self, attribute: str, names: Sequence[str]) -> None:
        if not names or not all(names) or len(set(names)) != len(names):
            raise SchemaError(
                f"the schema declares {attribute!r} with levels that have no names of their own; "
                "write them as in levels(year, month, day)"
            )
        self._attribute = attribute
        self._names = tuple(names)
        self.text = f"levels({', '.join(names)})"

    def expand(self, predicate: Predicate) -> Expr:
        """The values themselves, and all that begin with one of them and a separator."""
        if predicate.op not in (Op.EQ, Op.IN):
            return predicate
        nodes = [self._check(value) for value in predicate.values]
        below = [self.below(node) for node in nodes]
        expanded = any_of(Predicate(predicate.attribute, predicate.op, predicate.values), *below)
        return Not(expanded) if predicate.negated else expanded

    def below(self, node: str) -> Predicate:
        """What the values below a node satisfy."""
        pattern = re.sub(r"([%_!])", rf"{_ESCAPE}\1", node) + f"{SEPARATOR}%"
        values = (pattern,) if _ESCAPE not in pattern else (pattern, _ESCAPE)
        return Predicate(self._attribute, Op.LIKE, values)

    def path(self, value: str) -> list[str]:
        """All beginnings of a value that end at a separator, the value itself first."""
        parts = value.split(SEPARATOR)
        return [SEPARATOR.join(parts[:count]) for count in range(len(parts), 0, -1)]

    def _check(self, node: Any) -> str:
        parts = node.split(SEPARATOR) if isinstance(node, str) else []
        if not parts or not all(parts) or len(parts) > len(self._names):
            levels = SEPARATOR.join(self._names)
            raise RuleError(
                f"{self._attribute!r} has the levels {levels}; {node!r} is not one or more of "
                "them, from the first one on"
            )
        return str(node)


class Taxonomy:
    """A tree of named nodes, given as the parent of each.

    Parameters
    ----------
    attribute
        The attribute, for errors.
    parents
        The parent of each node; a node without one is a root.
    """

    is_one_predicate = True

    def __init__(self, attribute: str, parents: Mapping[str, str]) -> None:
        self._attribute = attribute
        self._parents = dict(parents)
        for node in [*self._parents, *self._parents.values()]:
            if not isinstance(node, str) or not node:
                raise SchemaError(
                    f"the taxonomy of {attribute!r} has nodes that are non-empty strings, "
                    f"not {node!r}"
                )
        self._check_cycles()
        self._below: dict[str, list[str]] = {}
        """Each node, and all nodes below it."""
        for node in dict.fromkeys([*self._parents, *self._parents.values()]):
            for above in self.path(node):
                self._below.setdefault(above, []).append(node)
        ordered = dict(sorted(self._parents.items()))
        self.text = f"taxonomy({msgspec.json.encode(ordered).decode()})"

    def _check_cycles(self) -> None:
        known: set[str] = set()
        for start in self._parents:
            seen: dict[str, None] = {}
            node: str | None = start
            while node is not None and node not in known:
                if node in seen:
                    nodes = list(seen)
                    cycle = " → ".join([*nodes[nodes.index(node) :], node])
                    raise SchemaError(f"the taxonomy of {self._attribute!r} has a cycle: {cycle}")
                seen[node] = None
                node = self._parents.get(node)
            known.update(seen)

    def expand(self, predicate: Predicate) -> Predicate:
        """All values that are a node or lie below it, as one list."""
        if predicate.op not in (Op.EQ, Op.IN):
            return predicate
        values: dict[str, None] = {}
        for node in predicate.values:
            values.update(dict.fromkeys(self.below(node)))
        op = Op.IN if len(values) > 1 else Op.EQ
        return Predicate(predicate.attribute, op, tuple(values), predicate.negated)

    def below(self, node: Any) -> list[str]:
        """A node, and all nodes below it.

        Raises
        ------
        RuleError
            There is no such node.
        """
        found = self._below.get(node) if isinstance(node, str) else None
        if found is None:
            near = find_near(str(node), self._below) if len(self._below) <= _MOST_NEAR else ()
            raise RuleError(
                f"{node!r} is not in the taxonomy of {self._attribute!r}{list_near(near)}"
            )
        return found

    def path(self, value: str) -> list[str]:
        """The node, its parent, and so on."""
        path = [value]
        while (parent := self._parents.get(path[-1])) is not None:
            path.append(parent)
        return path


def read_hierarchy(attribute: str, declared: Any) -> tuple[Hierarchy, bool] | None:
    """Read a declaration, and whether it allows lists; None if it declares no hierarchy.

    Parameters
    ----------
    attribute
        The attribute.
    declared
        ``"levels(a, b)"``, a mapping of nodes to their parents, or pairs of them.

    Raises
    ------
    SchemaError
        It is malformed.
    """
    if isinstance(declared, str):
        plain = declared.removesuffix("[]").strip()
        if plain.startswith("levels(") and plain.endswith(")"):
            names = [name.strip() for name in plain[len("levels(") : -1].split(",")]
            return Levels(attribute, names), declared.endswith("[]")
        if not (plain.startswith("taxonomy(") and plain.endswith(")")):
            return None
        try:
            declared = msgspec.json.decode(plain[len("taxonomy(") : -1], type=dict[str, str])
        except msgspec.MsgspecError as error:
            raise SchemaError(f"the taxonomy of {attribute!r} cannot be read: {error}") from None
    if hasattr(declared, "to_pylist"):  # an Arrow table with the columns child and parent
        declared = [(row.get("child"), row.get("parent")) for row in declared.to_pylist()]
    if isinstance(declared, Mapping):
        return Taxonomy(attribute, declared), True
    if isinstance(declared, Iterable):
        return Taxonomy(attribute, _read_pairs(attribute, declared)), True
    return None


def _read_pairs(attribute: str, pairs: Iterable[Any]) -> dict[str, str]:
    parents: dict[str, str] = {}
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SchemaError(
                f"the taxonomy of {attribute!r} has pairs of a child and its parent, not {pair!r}"
            )
        child, parent = pair
        if parent is None:
            continue  # a root
        if parents.setdefault(child, parent) != parent:
            raise SchemaError(
                f"the taxonomy of {attribute!r} has two parents of {child!r}: "
                f"{parents[child]!r} and {parent!r}"
            )
    return parents
