"""Streams of events, matched batch by batch."""
