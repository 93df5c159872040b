"""Symmetric matching: a publisher's condition on subscriptions.

Section 3 of the BE-Tree paper (2011) lets each side state a condition on the other. Here an event
may carry an *audience*, a rule over the attributes of subscriptions: the event reaches a
subscription when one of its rules holds on the event and the audience holds on the subscription.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from tamis.errors import RuleError, SubscriptionError
from tamis.expr.evaluate import evaluate
from tamis.expr.model import Expr, Logic, check_logic, predicates
from tamis.expr.names import JOINED
from tamis.expr.text.grammar import parse
from tamis.expr.validate import check

__all__ = ["Audience", "read_audience"]

_MOST: Final = 1024
"""How many audiences are remembered."""


class Audience:
    """A condition on subscriptions, parsed once.

    Parameters
    ----------
    text
        The condition, as the publisher gave it.
    logic
        ``"strong"`` or ``"weak"``.
    """

    def __init__(self, text: str, logic: Logic) -> None:
        self.text = text
        self._logic = logic
        self._expr: Expr = parse(text)
        check(self._expr)
        if any(p.attribute.startswith(JOINED) for p in predicates(self._expr)):
            raise SubscriptionError(
                "an audience is a condition on subscriptions, and cannot refer to documents"
            )
        self._answers: tuple[object, dict[str, bool]] = (None, {})
        """The answers for subscriptions by name, as of one state of all of them."""

    def admits(self, name: str, attributes: Mapping[str, Any], version: object) -> bool:
        """Whether the condition holds on a subscription.

        Parameters
        ----------
        name, attributes
            The subscription.
        version
            Another object whenever a subscription has changed.
        """
        known, answers = self._answers
        if known is not version:
            answers = {}
            self._answers = version, answers
        answer = answers.get(name)
        if answer is None:
            answer = answers[name] = evaluate(self._expr, attributes, logic=self._logic)
        return answer


_known: OrderedDict[tuple[str, Logic], Audience] = OrderedDict()


def read_audience(text: Any, logic: Any = "strong") -> Audience:
    """Read the audience of an event, or find it among those that were read before.

    Raises
    ------
    SubscriptionError
        It is not a condition.
    """
    if not isinstance(text, str):
        raise SubscriptionError(f"an audience is a condition as text, not {text!r:.200}")
    key = text, check_logic(logic)
    audience = _known.get(key)
    if audience is None:
        try:
            audience = Audience(*key)
        except RuleError as error:
            raise SubscriptionError(f"the audience is refused: {error}") from error
        _known[key] = audience
        while len(_known) > _MOST:
            # Another thread may have removed the last one.
            if _known:
                _known.popitem(last=False)
    return audience
