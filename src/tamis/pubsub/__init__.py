"""Publish and subscribe: events are matched, logged durably, and delivered to subscriptions."""

from __future__ import annotations

from tamis.pubsub.collection import Collection
from tamis.pubsub.delivery import Delivery, Publication
from tamis.pubsub.log.event_log import EventLog
from tamis.pubsub.log.retention import LogRetention
from tamis.pubsub.subscriptions.subscription import DeadLetter, Subscription, Webhook
from tamis.pubsub.webhooks.dispatcher import WebhookSettings

__all__ = [
    "Collection",
    "DeadLetter",
    "Delivery",
    "EventLog",
    "LogRetention",
    "Publication",
    "Subscription",
    "Webhook",
    "WebhookSettings",
]
