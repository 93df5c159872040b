"""From the texts of many rules to their normal forms: the one reader for all who add rules.

A text takes the first of three roads that is open to it. All of them give what
:func:`~tamis.expr.text.grammar.parse` and :func:`~tamis.expr.normalize.nnf` give; errors are always
those of the parser.

1. :mod:`~tamis.expr.text.two_levels`: an OR of ANDs or an AND of ORs is cut into its predicates,
   and each distinct predicate is read once.
2. :mod:`~tamis.expr.text.shapes`: rules that differ in their literals only share a template, and
   each distinct shape is parsed once.
3. The parser, for all other rules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from tamis.errors import RuleError, TamisError, report_defect
from tamis.expr.atom_table import AtomTable
from tamis.expr.model import Expr, Logic, Predicate, map_predicates
from tamis.expr.normalize import nnf
from tamis.expr.text.grammar import parse
from tamis.expr.text.shapes import Shapes
from tamis.expr.text.templates import NormalTemplate, Template
from tamis.expr.text.two_levels import TwoLevelReader, TwoLevelRule

__all__ = ["BulkReader", "NormalRule", "SharedReader", "TemplateRule", "TwoLevelRule"]


class TemplateRule(NamedTuple):
    """A rule by its template and the numbers of its atoms, from left to right."""

    template: NormalTemplate
    atoms: list[int]


NormalRule: TypeAlias = TwoLevelRule | TemplateRule | Expr
"""A rule in negation normal form: by the numbers of its atoms, or as a tree."""


class BulkReader:
    """Reads rules into negation normal form. Not safe to share between threads.

    Parameters
    ----------
    adapt
        Applied to every predicate, for example to read a string as a timestamp where a schema
        says so. What it raises is raised for the rule.
    shapes
        Shapes seen before, if any; readers may share them.

    Attributes
    ----------
    atoms
        The atoms that rules refer to by number.
    """

    def __init__(
        self,
        adapt: Callable[[Predicate], Predicate] | None = None,
        shapes: Shapes | None = None,
    ) -> None:
        self.atoms = AtomTable()
        self._adapt = adapt
        self._shapes = Shapes() if shapes is None else shapes
        self._two_levels = TwoLevelReader(self.atoms, adapt)
        self._templates: dict[tuple[Template, Logic], NormalTemplate | None] = {}

    def read(self, text: str, logic: Logic) -> NormalRule:
        """The rule that `text` spells. A refused text leaves no atoms.

        Raises
        ------
        RuleError
            `text` is not a rule, or `adapt` refuses a predicate.
        """
        try:
            rule = self._read_fast(text, logic)
        except TamisError:
            raise
        except Exception as error:
            report_defect(error)
            rule = None
        return self.normalize(parse(text), logic) if rule is None else rule

    def _read_fast(self, text: str, logic: Logic) -> NormalRule | None:
        """The rule by one of the fast roads; None if none is open to it."""
        rule = self._two_levels.read(text, logic)
        if rule is not None:
            return rule
        split = self._shapes.split(text)
        if split is None:
            return None
        template, literals = split
        normal = self._normal_template(template, logic)
        try:
            if normal is not None:
                return TemplateRule(normal, normal.number_atoms(literals))
            return self.normalize(template.fill(literals), logic)
        except RuleError:
            return None  # The parser knows where in the text the culprit stands.

    def parse(self, text: str) -> Expr:
        """The rule as it is written: what :func:`~tamis.expr.text.grammar.parse` gives, faster."""
        return self._shapes.parse(text)

    def read_tree(self, text: str, logic: Logic) -> Expr:
        """As `read`, but always a tree. Rules share the atoms of predicates that they repeat."""
        rule = self.read(text, logic)
        if isinstance(rule, TwoLevelRule):
            return rule.tree(self.atoms.atoms)
        if isinstance(rule, TemplateRule):
            return rule.template.tree_of([self.atoms.atoms[number] for number in rule.atoms])
        return rule

    def normalize(self, rule: Expr, logic: Logic) -> Expr:
        """A parsed rule with its predicates adapted, in negation normal form."""
        adapted = rule if self._adapt is None else map_predicates(rule, self._adapt)
        return nnf(adapted, logic)

    @property
    def caches(self) -> list[dict[Any, Any] | list[Any]]:
        """What only serves to read more rules; freeing it may take a while."""
        return [*self._two_levels.known, self._templates, self.atoms.numbers, self.atoms.atoms]

    def _normal_template(self, template: Template, logic: Logic) -> NormalTemplate | None:
        key = (template, logic)
        if key not in self._templates:
            self._templates[key] = template.normalize(logic, self.atoms, self._adapt)
        return self._templates[key]


class SharedReader:
    """Reads rules one by one, for threads that share it; its memory is bounded.

    Parameters
    ----------
    adapt
        As for :class:`BulkReader`.
    """

    def __init__(self, adapt: Callable[[Predicate], Predicate] | None = None) -> None:
        self._adapt = adapt
        self._shapes = Shapes()
        self._reader = self.bulk_reader()
        self._outdated: list[dict[Any, Any] | list[Any]] = []
        """What earlier readers remembered. Each rule frees a little of it: all takes 13 ms."""
        self._lock = threading.Lock()

    def bulk_reader(self) -> BulkReader:
        """A reader of many rules, for one thread, that knows the shapes of this one."""
        return BulkReader(self._adapt, self._shapes)

    def parse(self, text: str) -> Expr:
        """As :meth:`BulkReader.parse`."""
        return self._shapes.parse(text)

    def normalize(self, rule: Expr, logic: Logic) -> Expr:
        """As :meth:`BulkReader.normalize`."""
        return self._reader.normalize(rule, logic)

    def read_tree(self, text: str, logic: Logic) -> Expr:
        """As :meth:`BulkReader.read_tree`."""
        with self._lock:
            if len(self._reader.atoms.atoms) > _REMEMBERED:
                self._outdated += self._reader.caches
                self._reader = self.bulk_reader()
            if self._outdated:
                self._free_some()
            return self._reader.read_tree(text, logic)

    def _free_some(self) -> None:
        items = self._outdated[-1]
        if isinstance(items, list):
            del items[-_FREED_AT_ONCE:]
        else:
            for _ in range(min(len(items), _FREED_AT_ONCE)):
                items.popitem()
        if not items:
            self._outdated.pop()

    def after_fork(self) -> None:
        """In a forked child: another thread may have been reading a rule, and held the lock."""
        self._reader = self.bulk_reader()
        self._lock = threading.Lock()


_REMEMBERED = 65_536
"""How many distinct atoms a `SharedReader` remembers before it starts anew."""

_FREED_AT_ONCE = 64
"""How many of the items of an earlier reader each rule frees."""
