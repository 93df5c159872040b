"""A subscription, and where it stands in the event log."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from tamis.errors import EventError, SubscriptionError
from tamis.expr.event import flatten, require_readable
from tamis.matcher.rule import RuleId, check_id, check_tags

__all__ = [
    "DEFAULT_WINDOW",
    "DeadLetter",
    "Progress",
    "Retry",
    "Subscription",
    "SubscriptionState",
    "Webhook",
    "check_name",
    "make_subscription",
]

_T = TypeVar("_T")

DEFAULT_WINDOW: Final = 1000
_LARGEST_WINDOW: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~@-]{0,127}")
_INT64: Final = range(-(2**63), 2**63)
_SECRET: Final = "whsec_"


class Webhook(msgspec.Struct, frozen=True):
    """Where a subscription's messages are sent, and how they are signed.

    Attributes
    ----------
    url
        An http or https address.
    secret
        The secret of the signatures: ``whsec_`` and 24 to 64 bytes in base64, as in Standard
        Webhooks. A new one is drawn if it is empty.
    """

    url: str
    secret: str = ""

    def __repr__(self) -> str:
        return f"Webhook(url={self.url!r}, secret='whsec_…')"


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscriber wants to receive: the events that satisfy one of its rules.

    Attributes
    ----------
    name
        Its name, unique in the collection.
    owner
        Whose it is; any text.
    priority
        When deliveries wait, those of subscriptions of higher priority go first.
    rules, tags
        It owns the rules with these ids, and those with one of these tags.
    attributes
        Its own attributes, to which the audience of an event refers.
    webhook
        Where its messages are sent; None if it reads them.
    window
        How many messages may be sent that are not acknowledged yet.
    """

    name: str
    owner: str | None = None
    priority: int = 0
    rules: tuple[RuleId, ...] = ()
    tags: tuple[str, ...] = ()
    attributes: dict[str, Any] = {}
    webhook: Webhook | None = None
    window: int = DEFAULT_WINDOW


class Retry(msgspec.Struct, frozen=True):
    """A message that a webhook has not taken yet."""

    attempts: int
    due: float
    """When it is tried again, in seconds since 1970."""
    reason: str


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that a webhook has not taken after all its attempts."""

    sequence: int
    attempts: int
    reason: str
    time: float
    """When it was given up, in seconds since 1970."""


class Progress(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A change of where a subscription stands."""

    name: str
    start: int
    """That of the subscription; an earlier one of the same name has another."""
    acknowledged: int
    lost: int = 0
    retries: dict[int, Retry | None] = {}
    """What becomes of messages that wait for another attempt; None for one that is done with."""
    dead: dict[int, DeadLetter | None] = {}
    """What becomes of dead letters; None for one that is no longer one."""


class SubscriptionState(msgspec.Struct):
    """Where a subscription stands in the event log."""

    start: int
    """It receives events after this one, the last when it was created."""
    acknowledged: int
    """All its messages up to this one are done with: taken, or listed below."""
    lost: int = 0
    """The last message that retention removed before it was acknowledged; 0 if there is none."""
    retries: dict[int, Retry] = {}
    """Of a webhook, the messages up to `acknowledged` that are still to be taken."""
    dead: dict[int, DeadLetter] = {}
    """Of a webhook, the messages that were given up."""

    def apply(self, progress: Progress) -> None:
        """Take over a change. To do so twice has the effect of once."""
        self.acknowledged = max(self.acknowledged, progress.acknowledged)
        self.lost = max(self.lost, progress.lost)
        _apply(self.retries, progress.retries)
        _apply(self.dead, progress.dead)

    def to_progress(self, name: str) -> Progress:
        """The change that leads from nothing to here."""
        retries: dict[int, Retry | None] = dict(self.retries)
        dead: dict[int, DeadLetter | None] = dict(self.dead)
        return Progress(name, self.start, self.acknowledged, self.lost, retries, dead)


def _apply(known: dict[int, _T], changes: Mapping[int, _T | None]) -> None:
    for sequence, change in changes.items():
        if change is None:
            known.pop(sequence, None)
        else:
            known[sequence] = change


def check_name(name: Any) -> str:
    """Check the name of a subscription.

    Raises
    ------
    SubscriptionError
        It is not one.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SubscriptionError(
            f"a subscription's name has up to 128 letters, digits and . _ ~ @ -, beginning with "
            f"a letter or digit; not {name!r:.200}"
        )
    return name


def make_subscription(
    name: str,
    owner: str | None,
    priority: int,
    rules: Iterable[RuleId],
    tags: Iterable[str],
    attributes: Mapping[str, Any] | None,
    webhook: Webhook | Mapping[str, Any] | str | None,
    window: int,
) -> Subscription:
    """Check what a caller gives for a subscription.

    Raises
    ------
    SubscriptionError, RuleError
        Something is not as it should be; the message says what.
    """
    check_name(name)
    if owner is not None and not isinstance(owner, str):
        raise SubscriptionError(f"an owner is a text, not {owner!r:.200}")
    _check_number("priority", priority, _INT64)
    _check_number("window", window, range(1, _LARGEST_WINDOW + 1))
    if isinstance(rules, str | bytes) or not isinstance(rules, Iterable):
        raise SubscriptionError(f"rules are a list of ids, not {rules!r:.200}")
    ids = tuple(dict.fromkeys(check_id(id) for id in rules))
    return Subscription(
        name=name,
        owner=owner,
        priority=priority,
        rules=ids,
        tags=tuple(sorted(check_tags(tags))),
        attributes=_check_attributes(attributes),
        webhook=_check_webhook(webhook),
        window=window,
    )


def _check_number(what: str, number: Any, allowed: range) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number not in allowed:
        raise SubscriptionError(
            f"a {what} is a whole number from {allowed.start} to {allowed.stop - 1}, not {number!r}"
        )


def _check_attributes(attributes: Any) -> dict[str, Any]:
    if attributes is None:
        return {}
    try:
        require_readable(flatten(attributes))
        return dict(msgspec.json.decode(msgspec.json.encode(attributes)))
    except EventError as error:
        raise SubscriptionError(f"the subscription's attributes are refused: {error}") from error
    except (TypeError, ValueError) as error:
        raise SubscriptionError(f"the subscription's attributes are not JSON: {error}") from error


def _check_webhook(webhook: Any) -> Webhook | None:
    if webhook is None:
        return None
    if isinstance(webhook, str):
        webhook = Webhook(webhook)
    elif isinstance(webhook, Mapping):
        try:
            webhook = msgspec.convert(dict(webhook), Webhook)
        except msgspec.ValidationError as error:
            raise SubscriptionError(f"the webhook is refused: {error}") from error
    if not isinstance(webhook, Webhook):
        raise SubscriptionError(f"a webhook is an address, not {webhook!r:.200}")
    _check_url(webhook.url)
    if not webhook.secret:
        secret = _SECRET + base64.b64encode(secrets.token_bytes(32)).decode()
        return Webhook(webhook.url, secret)
    _check_secret(webhook.secret)
    return webhook


def _check_url(url: Any) -> None:
    if not isinstance(url, str) or len(url) > 2048 or not url.isascii() or not url.isprintable():
        raise SubscriptionError("a webhook's address is printable ASCII of up to 2,048 characters")
    try:
        parts = urlsplit(url)
        is_valid = parts.port != 0 and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid or parts.scheme not in ("http", "https") or " " in url:
        raise SubscriptionError(f"a webhook's address is an http or https URL, not {url!r}")
    if parts.username is not None or parts.password is not None:
        raise SubscriptionError("a webhook's address has no user name or password in it")


def _check_secret(secret: Any) -> None:
    hint = f"a webhook's secret is {_SECRET} and 24 to 64 bytes in base64"
    if not isinstance(secret, str) or not secret.startswith(_SECRET):
        raise SubscriptionError(hint)
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET), validate=True)
    except ValueError:
        raise SubscriptionError(hint) from None
    if not 24 <= len(key) <= 64:
        raise SubscriptionError(hint)
