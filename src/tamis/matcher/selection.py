"""Which rules a search considers: by id, by tag, and by the time at which they are valid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from typing import Final, NamedTuple

from tamis.errors import RuleError
from tamis.matcher.rule import Rule, RuleId, check_tags

__all__ = ["EVERY_RULE", "Selection", "Tagged", "tagged"]


class Tagged(NamedTuple):
    """Selects rules by their tags; built by :func:`tagged`."""

    some: frozenset[str] | None
    """A rule has at least one of these; None drops this condition."""
    every: frozenset[str]
    """A rule has all of these."""
    without: frozenset[str]
    """A rule has none of these."""

    def fits(self, tags: Set[str]) -> bool:
        """Whether a rule with these tags is selected."""
        return (
            (self.some is None or not self.some.isdisjoint(tags))
            and self.every <= tags
            and self.without.isdisjoint(tags)
        )


def tagged(*tags: str, every: Iterable[str] = (), without: Iterable[str] = ()) -> Tagged:
    """Select rules by their tags, as in ``match(event, only=tagged("gold"))``.

    Parameters
    ----------
    tags
        The rule has at least one of these tags. Not required if only `every` or `without` is given.
    every
        The rule has all of these tags.
    without
        The rule has none of these tags.

    Returns
    -------
    Tagged
        A value for the `only` argument of :meth:`Matcher.match` and its relatives.

    Examples
    --------
    >>> import tamis
    >>> m = tamis.Matcher()
    >>> m.add("r1", "age > 18", tags=["gold"])
    >>> m.add("r2", "age > 21", tags=["gold", "paused"])
    >>> m.match({"age": 30}, only=tamis.tagged("gold", without=["paused"]))
    ['r1']
    """
    needed, unwanted = check_tags(every), check_tags(without)
    some = check_tags(tags) if tags or not (needed or unwanted) else None
    return Tagged(some, needed, unwanted)


class Selection(NamedTuple):
    """The rules that a search considers."""

    only: Tagged | Collection[RuleId] | None
    """Rules with certain tags, rules with these ids, or all rules."""
    at: int
    """The time at which rules have to be valid, in microseconds since 1970."""

    @classmethod
    def of(cls, only: Tagged | Iterable[RuleId] | None, at: int) -> Selection:
        """Check the `only` argument of a search.

        Raises
        ------
        RuleError
            `only` is neither a list of ids nor the result of :func:`tagged`.
        """
        if only is None or isinstance(only, Tagged):
            return cls(only, at)
        if isinstance(only, Iterable) and not isinstance(only, str | bytes):
            return cls(frozenset(id for id in only if type(id) in (str, int)), at)
        raise RuleError(f"only= takes a list of ids or tagged(…), not {only!r}")

    def includes(self, rule: Rule) -> bool:
        """Whether a search considers `rule`."""
        if not rule.validity.is_valid(self.at):
            return False
        if isinstance(self.only, Tagged):
            return self.only.fits(rule.tags)
        return self.only is None or rule.id in self.only


EVERY_RULE: Final = Selection(None, 0)
"""All rules, where it does not matter when the event comes."""
