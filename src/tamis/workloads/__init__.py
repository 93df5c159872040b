"""Seeded generators of rules and events: the workloads of the papers, and nested rules."""
