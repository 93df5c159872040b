"""What happens in a collection now: rates and latencies, who is behind, and dead letters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from tamis.errors import GoneError
from tamis.pubsub import Subscription
from tamis.pubsub.log.event_log import EventLog
from tamis.pubsub.log.records import to_time
from tamis.pubsub.subscriptions.subscription import SubscriptionState
from tamis.server.operation import Call, Operation
from tamis.wire.workbench import LatencyRecord, LiveFigures, LiveLetter, LiveSubscription

__all__ = ["OPERATIONS"]

_SHOWN: Final = 100
_MOST_WAITING: Final = 1_000


def show_live(call: Call) -> LiveFigures:
    """Show rates and latencies, the subscriptions furthest behind, and dead letters."""
    collection = call.collection
    log, known = collection.pubsub.log, dict(collection.pubsub.subscriptions.known)
    latest = log.latest
    # Events behind are quickly known, and at least as many as messages.
    order = sorted(known.values(), key=lambda entry: (_position(entry[1]), entry[0].name))
    letters = [
        LiveLetter(
            subscription.name,
            letter.sequence,
            letter.attempts,
            letter.reason,
            datetime.fromtimestamp(letter.time, UTC),
        )
        for subscription, state in known.values()
        for letter in list(state.dead.values())
    ]
    letters.sort(key=lambda letter: letter.time, reverse=True)
    lagging = [_describe(log, subscription, state) for subscription, state in order[:_SHOWN]]
    lagging.sort(key=lambda one: (one.oldest is None, one.oldest, one.name))
    return LiveFigures(
        latest,
        [LatencyRecord(*latency) for latency in collection.latencies.summarize()],
        len(known),
        lagging,
        len(letters),
        letters[:_SHOWN],
    )


def _position(state: SubscriptionState) -> int:
    """Up to which event everything is done with."""
    return min([max(state.acknowledged, state.start), *(n - 1 for n in list(state.retries))])


def _describe(
    log: EventLog, subscription: Subscription, state: SubscriptionState
) -> LiveSubscription:
    after = max(state.acknowledged, state.start)
    retries = sorted(state.retries)
    waiting = [*retries, *log.find_deliveries(subscription.name, after, _MOST_WAITING)]
    return LiveSubscription(
        subscription.name,
        subscription.owner,
        subscription.priority,
        None if subscription.webhook is None else subscription.webhook.url,
        min(len(waiting), _MOST_WAITING),
        _find_time(log, min(waiting)) if waiting else None,
        len(retries),
        len(state.dead),
    )


def _find_time(log: EventLog, sequence: int) -> datetime | None:
    try:
        return to_time(log.find(sequence).time)
    except GoneError:  # Retention has removed it.
        return None


OPERATIONS = (
    Operation(
        "GET",
        "/v1/collections/{collection}/live",
        "Show rates, latencies, who is behind, and dead letters",
        show_live,
        "read",
        answer=LiveFigures,
    ),
)
