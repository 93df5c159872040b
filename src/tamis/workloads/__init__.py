"""Seeded generators of rules and events: the papers' workloads, and nested rules."""
