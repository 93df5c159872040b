"""Subscriptions: which rules they own, what they have acknowledged, and how that is stored."""
