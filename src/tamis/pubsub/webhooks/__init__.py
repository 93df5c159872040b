"""Webhooks: signed requests to receivers, retried, with dead letters."""
