"""Join predicates: conditions of a rule on the documents seen before, and aggregates over them.

``EXISTS (SELECT 1 FROM seen d WHERE d.price > price)``, ``price < ALL (SELECT d.price FROM seen
d)``: in a subquery, ``d.price`` belongs to an old document and a bare name to the event, which is
the new document. In a rule's tree a join predicate is a predicate on a computed attribute
(:mod:`tamis.expr.names`), which is true, false, or absent if SQL's answer is unknown. An aggregate,
``(SELECT COUNT(*) FROM seen d WHERE …)``, is a computed attribute, too, which has the number.

Section 4.2 of "Index Structures and Algorithms for Efficient Profile Matching" (2001). The paper
has one conjunction under a quantifier; here a condition may contain OR and NOT as well. Subqueries
follow SQL's logic in rules of either logic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from tamis.expr.joins.shifts import Shift
from tamis.expr.model import Op, Predicate
from tamis.expr.names import RECEIVED_BY

__all__ = [
    "NO_CONDITION",
    "Aggregate",
    "Comparison",
    "Condition",
    "Every",
    "Function",
    "Join",
    "Quantifier",
    "Some",
    "Test",
    "is_bound",
    "leaves",
    "map_tests",
]


class Quantifier(StrEnum):
    """How many old documents a join predicate needs."""

    EXISTS = "EXISTS"
    ANY = "ANY"
    ALL = "ALL"
    VALUE = "VALUE"
    """None: the attribute has the value of an aggregate."""


class Function(StrEnum):
    """What an aggregate computes."""

    COUNT = "COUNT"
    COUNT_DISTINCT = "COUNT DISTINCT"
    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    AVG = "AVG"


class Aggregate(msgspec.Struct, frozen=True, gc=False):
    """``SUM(d.price)``: a value computed from all documents that satisfy a condition.

    Of several values in one document each counts. COUNT(*) counts documents.
    """

    function: Function
    attribute: str | None = None
    """The attribute of old documents; None for ``COUNT(*)``."""


class Comparison(msgspec.Struct, frozen=True, gc=False):
    """``d.price > price``: a value of an old document, and one of the new.

    It holds if at least one pair of values satisfies it; negated, if both attributes are present
    and no pair does.
    """

    old: str
    op: Op
    new: str
    negated: bool = False
    shift: Shift | None = None
    """What is added to the new document's value: ``d.at > at - INTERVAL '5 minutes'``. Not 0."""


class Test(msgspec.Struct, frozen=True, gc=False):
    """``d.price > 10`` or ``price > 10``: one document, and constants."""

    __test__ = False  # pytest would take it for one of its own

    predicate: Predicate
    of_old: bool


class Every(msgspec.Struct, frozen=True, gc=False):
    """True if all of its children are; without children, always."""

    children: tuple[Condition, ...] = ()


class Some(msgspec.Struct, frozen=True, gc=False):
    """True if one of its children is."""

    children: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Test | Every | Some
"""The condition of a subquery, with every NOT pushed down to the leaves."""

NO_CONDITION: Final = Every()


class Join(msgspec.Struct, frozen=True, gc=False):
    """A join predicate."""

    quantifier: Quantifier
    where: Condition = NO_CONDITION
    """Selects the documents that count."""
    compared: Comparison | None = None
    """The comparison of ANY and ALL, with the old document's side first."""
    received: bool = False
    """Whether only the documents count that the rule's own subscription has received. Before the
    predicate is evaluated, `bind` makes that a condition like any other."""
    aggregate: Aggregate | None = None
    """What is computed, if the quantifier is `Quantifier.VALUE`."""

    @property
    def news(self) -> frozenset[str]:
        """The attributes of the new document in it."""
        names = {leaf.new for leaf in self.leaves() if isinstance(leaf, Comparison)}
        return frozenset(
            names | {_attribute_of(leaf) for leaf in self.leaves() if _is_of(leaf, False)}
        )

    @property
    def olds(self) -> frozenset[str]:
        """The attributes of old documents in it."""
        names = {leaf.old for leaf in self.leaves() if isinstance(leaf, Comparison)}
        return frozenset(
            names
            | {_attribute_of(leaf) for leaf in self.leaves() if _is_of(leaf, True)}
            | ({self.aggregate.attribute} if self.aggregate and self.aggregate.attribute else set())
        )

    def bind(self, subscription: str) -> Join:
        """The same predicate in a rule of `subscription`: a condition says who received a document.

        Whatever evaluates join predicates then needs no second collection of documents.
        """
        if not self.received:
            return self
        mark = Test(Predicate(RECEIVED_BY, Op.EQ, (subscription,)), of_old=True)
        return msgspec.structs.replace(self, where=Every((mark, self.where)), received=False)

    def leaves(self) -> Iterator[Comparison | Test]:
        """All comparisons and tests."""
        if self.compared is not None:
            yield self.compared
        yield from leaves(self.where)


def leaves(condition: Condition) -> Iterator[Comparison | Test]:
    """The comparisons and tests of a condition, from left to right."""
    if isinstance(condition, Every | Some):
        for child in condition.children:
            yield from leaves(child)
    else:
        yield condition


def is_bound(join: Join) -> bool:
    """Whether `Join.bind` was applied to a predicate about received documents."""
    return any(_is_of(leaf, True) and _attribute_of(leaf) == RECEIVED_BY for leaf in join.leaves())


def map_tests(condition: Condition, change: Callable[[Predicate], Predicate]) -> Condition:
    """`condition` with the predicate of every test changed."""
    match condition:
        case Test():
            return Test(change(condition.predicate), condition.of_old)
        case Every() | Some():
            children = tuple([map_tests(child, change) for child in condition.children])
            return type(condition)(children)
        case Comparison():
            return condition


def _is_of(leaf: Comparison | Test, old: bool) -> bool:
    return isinstance(leaf, Test) and leaf.of_old is old


def _attribute_of(leaf: Comparison | Test) -> str:
    assert isinstance(leaf, Test)
    return leaf.predicate.attribute
