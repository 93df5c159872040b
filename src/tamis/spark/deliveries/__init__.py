"""Matches as messages to subscribers: a table of them, and where they are sent."""
